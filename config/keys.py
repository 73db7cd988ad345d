"""How a key is declared: one `key(...)` per dataclass field, from which all else derives.

The type checker sees the field's plain type; parsers, documentation, sample files and the rows of
DescribeConfigs read the `Key` in the field's metadata. A topic's key names the broker's keys that
give its default (`Synonym`), best first, each with the factor from its unit to the key's, as
Kafka's ServerTopicConfigSynonyms does.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from dataclasses import dataclass, field
from typing import Any, TypeVar

from config.checks import Check, accepts_all
from config.errors import ConfigError
from config.values import INTEGER_BITS, Kind, Parsed, Value, parse

T = TypeVar("T")

KiB = 1024
MiB = 1024 * KiB
GiB = 1024 * MiB
SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1

# Barnabas's own keys without its name in front.
OWN_NAMES = ("write.caching", "ssl.certificate", "ssl.key")
# Settings of Kafka's StandardAuthorizer, which are not in Kafka's own table of keys.
AUTHORIZER_NAMES = ("super.users", "allow.everyone.if.no.acl.found")


class Importance(enum.StrEnum):
    """How likely an operator is to need the key, as Kafka rates it."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Update(enum.StrEnum):
    """The scope at which a value can be changed while the broker runs (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"
    TOPIC = "topic"


@dataclass(frozen=True, slots=True)
class Synonym:
    """Another name of a key, in a unit `times` the key's own.

    `kind` is the kind of that name where it is not the key's; `lowest` is its own lower bound where
    that lies above the key's: any negative value then means -1, "no limit", as for Kafka. `default`
    is what Kafka shows for the name itself, where a key has several.
    """

    name: str
    times: int = 1
    kind: Kind | None = None
    update: Update = Update.CLUSTER_WIDE
    importance: Importance = Importance.MEDIUM
    default: Value = None
    lowest: int | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """Everything known about one key; `attribute` is its name on the dataclass."""

    name: str
    kind: Kind
    default: Value
    doc: str
    check: Check
    unit: str
    importance: Importance
    update: Update
    synonyms: tuple[Synonym, ...]
    sensitive: bool
    internal: bool
    no_effect: str
    kafka_default: str
    attribute: str = ""

    @property
    def own(self) -> bool:
        """Whether the key is Barnabas's and unknown to Kafka."""
        return self.name.startswith("barnabas.") or self.name in OWN_NAMES

    @property
    def allowed(self) -> str:
        """Say what values are accepted, in the words of errors and of the documentation."""
        return self.check.allowed


def key(
    name: str,
    default: T,
    kind: Kind,
    *,
    doc: str,
    check: Check | None = None,
    unit: str = "",
    importance: Importance = Importance.MEDIUM,
    update: Update = Update.READ_ONLY,
    synonyms: tuple[Synonym, ...] = (),
    sensitive: bool = False,
    internal: bool = False,
    no_effect: str = "",
    kafka_default: str = "",
) -> T:
    """Declare a key as a dataclass field.

    `no_effect` says why the key is accepted and changes nothing. `kafka_default` is Kafka's
    default where this one differs, for the documentation.
    """
    described = Key(
        name=name,
        kind=kind,
        default=default,  # type: ignore[arg-type]
        doc=doc,
        check=check or accepts_all(),
        unit=unit,
        importance=importance,
        update=update,
        synonyms=synonyms,
        sensitive=sensitive,
        internal=internal,
        no_effect=no_effect,
        kafka_default=kafka_default,
    )
    made: T = field(default=default, metadata={"key": described})
    return made


@functools.cache
def keys_of(declaring: type[Any]) -> dict[str, Key]:
    """Return the keys that the dataclass `declaring` declares, by name, in order."""
    found = {}
    for item in dataclasses.fields(declaring):
        described = item.metadata.get("key")
        if described is not None:
            found[described.name] = dataclasses.replace(described, attribute=item.name)
    return found


def read_value(described: Key, text: str, source: str, synonym: Synonym | None = None) -> Parsed:
    """Return the value of `text` for a key, given by its own name or as one of its synonyms.

    Raises ConfigError, naming the key as it was given.
    """
    name = synonym.name if synonym else described.name
    shown = "(hidden)" if described.sensitive else text
    kind = (synonym.kind if synonym else None) or described.kind
    try:
        value = parse(kind, text)
    except ValueError as error:
        allowed = described.allowed
        raise ConfigError(
            str(error), key=name, value=shown, source=source, allowed=allowed
        ) from None
    if synonym is not None and kind in INTEGER_BITS:
        assert isinstance(value, int)
        value = _converted(described, synonym, value, source)
    if not described.check.accepts(value):
        reason = "this value is not allowed"
        raise ConfigError(reason, key=name, value=shown, source=source, allowed=described.allowed)
    return value


def _converted(described: Key, synonym: Synonym, value: int, source: str) -> int:
    """Apply the synonym's own bound and factor; a negative "no limit" is not multiplied."""
    if synonym.lowest is not None:
        if value < 0 and described.check.accepts(-1):
            return -1
        if value < synonym.lowest:
            raise ConfigError(
                "this value is not allowed",
                key=synonym.name,
                value=str(value),
                source=source,
                allowed=f"{synonym.lowest} or more, or -1 for no limit",
            )
    return value * synonym.times
