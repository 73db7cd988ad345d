"""Which quota a client has: Kafka's precedence over the eight kinds of entities.

    user and client id, user and any client id, user,
    any user and client id, any user and any client id, any user,
    client id, any client id

The first entity of these that has the quota decides; "any" is Kafka's default entity. The order is
that of each key by itself: a user may have a limit for produced bytes as a user, and one for
fetched bytes as the user of a client id.

Clients share a limit if they are the same to its entity: a quota of a user is shared by all client
ids of that user, one of a client id by all users, one of both by the connections of both. `Quota`
says so by its `sharers`. A default is a limit for each of its clients, not for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from broker.metadata.quota_image import CLIENT_ID, USER, QuotaEntity

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

CLIENT_KEYS: Final = (
    PRODUCER_BYTE_RATE,
    CONSUMER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    CONTROLLER_MUTATION_RATE,
)


class Quota(NamedTuple):
    """The limit of a client, and the (user, client id) that share it; None is any."""

    limit: float
    sharers: tuple[str | None, str | None]


# Whether an entity names a user and a client id: True by name, False as any, None not at all.
_KINDS: Final = (
    (True, True),
    (True, False),
    (True, None),
    (False, True),
    (False, False),
    (False, None),
    (None, True),
    (None, False),
)
_Name = tuple[bool, str | None]  # whether there is one, and which; None is the default
_ABSENT: Final = (False, None)
_DEFAULT: Final = (True, None)


class QuotaTable:
    """The limits of one key, by entity."""

    __slots__ = ("_counts", "_kinds", "_limits")

    def __init__(self) -> None:
        self._limits: dict[tuple[_Name, _Name], float] = {}
        self._counts: Counter[tuple[bool | None, bool | None]] = Counter()
        self._kinds: tuple[tuple[bool | None, bool | None], ...] = ()  # that are there

    def set(self, entity: QuotaEntity, limit: float | None) -> None:
        """Set the limit of an entity of a user or a client id; None removes it."""
        names = dict(entity)
        user, client_id = name = _name(names, USER), _name(names, CLIENT_ID)
        had = self._limits.pop(name, None) is not None
        if limit is not None:
            self._limits[name] = limit
        self._counts[_kind(user), _kind(client_id)] += (limit is not None) - had
        self._kinds = tuple(kind for kind in _KINDS if self._counts[kind])

    def __bool__(self) -> bool:
        return bool(self._limits)

    def of(self, user: str, client_id: str) -> Quota | None:
        """Return the quota of a client; None if it has none."""
        limits = self._limits
        for by_user, by_client in self._kinds:
            user_name = (True, user) if by_user else _ABSENT if by_user is None else _DEFAULT
            client = (True, client_id) if by_client else _ABSENT if by_client is None else _DEFAULT
            limit = limits.get((user_name, client))
            if limit is not None:
                sharers = (
                    None if by_user is None else user,
                    None if by_client is None else client_id,
                )
                return Quota(limit, sharers)
        return None


def _name(names: Mapping[str, str | None], kind: str) -> _Name:
    return (True, names[kind]) if kind in names else _ABSENT


def _kind(name: _Name) -> bool | None:
    if name == _ABSENT:
        return None
    return name[1] is not None
