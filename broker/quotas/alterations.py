"""Which changes of quotas a request may make, and as which records. Kafka's rules and texts.

Each entity is checked by itself, and changed whole or not at all. An entity that a request names
twice, or with one key twice, is not changed. (Kafka answers the same, but has then made the first
of these changes.) Checks of host names wait for the resolver, so a thread plans what names one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from broker.metadata.quota_image import CLIENT_ID, IP, USER, QuotaEntity, QuotaImage, quota_record
from broker.metadata.topic_rules import TopicError
from broker.quotas.quota_table import CLIENT_KEYS, CONNECTION_CREATION_RATE
from protocol.errors import ErrorCode
from protocol.quota_records import ClientQuotaRecord

TYPES: Final = (USER, CLIENT_ID, IP)
NAME_BYTES_MAX: Final = 32_767  # what version 0 of the answers can carry
# The largest value of a key that takes whole numbers only, and the name of its type in texts.
_WHOLE: Final[Mapping[str, tuple[int, str]]] = {
    "producer_byte_rate": (2**63 - 1, "a LONG"),
    "consumer_byte_rate": (2**63 - 1, "a LONG"),
    CONNECTION_CREATION_RATE: (2**31 - 1, "an INT"),
}
_TOLERANCE: Final = 1e-6


class Alteration(NamedTuple):
    """An entity, and new values of its quotas in the order of the request; None removes one."""

    entity: QuotaEntity
    values: Sequence[tuple[str, float | None]]


class Planned(NamedTuple):
    """The outcome of each entity, None if it is changed, and the records that change them."""

    outcomes: Mapping[QuotaEntity, TopicError | None]
    records: Sequence[ClientQuotaRecord]


def plan(
    alterations: Sequence[Alteration],
    image: QuotaImage,
    address_of: Callable[[str], str | None],
) -> Planned:
    """Check changes; `address_of` returns the address of a host name, or None."""
    counts = Counter(alteration.entity for alteration in alterations)
    outcomes: dict[QuotaEntity, TopicError | None] = {}
    records: list[ClientQuotaRecord] = []
    for entity, values in alterations:
        try:
            new = dict(values)
            if counts[entity] > 1 or len(new) < len(values):
                raise _refused(f"Ignoring duplicate entity {_java_text(entity)}")
            changed = _checked(entity, new, image.entities.get(entity, {}), address_of)
        except TopicError as error:
            outcomes[entity] = error.kept()
            continue
        outcomes[entity] = None
        records += [quota_record(entity, key, value) for key, value in changed.items()]
    return Planned(outcomes, records)


def literal_address(text: str) -> str | None:
    """Return an address as sockets show it; None for a host name. `10.1` is one, as in Java."""
    import ipaddress  # few quotas name an address

    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        pass
    *first, last = text.split(".")
    if len(first) > 3 or not all(part.isascii() and part.isdigit() for part in (*first, last)):
        return None
    number = 0
    for part in first:
        if len(part) > 3 or int(part) > 255:
            return None
        number = number << 8 | int(part)
    free_bits = 32 - 8 * len(first)
    if len(last) > 10 or int(last) >> free_bits:
        return None
    return str(ipaddress.IPv4Address(number << free_bits | int(last)))


def _checked(
    entity: QuotaEntity,
    values: Mapping[str, float | None],
    current: Mapping[str, float],
    address_of: Callable[[str], str | None],
) -> dict[str, float | None]:
    """Return the changes that are left to make. Raises TopicError."""
    keys = _keys_of(entity, address_of)
    changed: dict[str, float | None] = {}
    for key, value in values.items():
        if value is None:
            if key in current:
                changed[key] = None
            continue
        if key not in keys:
            raise _refused(f"Invalid configuration key {key}")
        _check_value(key, value)
        if current.get(key) != value:
            changed[key] = value
    return changed


def _keys_of(entity: QuotaEntity, address_of: Callable[[str], str | None]) -> Sequence[str]:
    """Return the keys of an entity's quotas. Raises TopicError if there is no such entity."""
    if not entity:
        raise _refused("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in TYPES:
            raise _refused(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _refused(f"Empty {kind} not supported")
        if name is not None and len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
            raise _refused(f"The name of a {kind} has more than {NAME_BYTES_MAX} bytes")
    names = dict(entity)
    if IP not in names:
        return CLIENT_KEYS
    if len(names) > 1:
        raise _refused(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or "
            "ClientId"
        )
    address = names[IP]
    if address is not None and literal_address(address) is None and address_of(address) is None:
        raise _refused(f"{address} is not a valid IP or resolvable host.")
    return (CONNECTION_CREATION_RATE,)


def _check_value(key: str, value: float) -> None:
    if not value > 0:
        raise _refused(f"Quota {key} must be greater than 0")
    if key not in _WHOLE:
        return
    largest, kind = _WHOLE[key]
    if value > largest:
        raise _refused(f"Proposed value for {key} is too large for {kind}.")
    if abs(int(value + _TOLERANCE) - value) > _TOLERANCE:
        raise _refused(f"{key} cannot be a fractional value.")


def _java_text(entity: QuotaEntity) -> str:
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{parts}}})"


def _refused(text: str) -> TopicError:
    return TopicError(ErrorCode.INVALID_REQUEST, text)
