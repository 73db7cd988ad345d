"""The annotations by which a message class declares its wire format.

A message is declared once for all its versions, as a structure (a dataclass with slots); each
field's annotation carries its wire type and the versions that have it::

    @message(api_key=0, kind="request", versions=(3, 13), flexible_since=9)
    @structure
    class ProduceRequest:
        transactional_id: Annotated[String | None, Nullable()] = None
        acks: Int16
        timeout_ms: Int32
        topic_data: list[TopicProduceData]

To the type checker these are `str | None`, `int` and a list; a dialect reads the marks. Rules:

- Fields are in wire order. `Since` and `Until` (both inclusive) say which versions have a field.
  One that a version lacks decodes to its dataclass default and is left out when encoding, so it
  must have a default.
- `Nullable(since)` marks a type that includes None. Before `since` null is refused.
- `Tag(number, since)` makes a tagged field (KIP-482): it exists only as such, in the flexible
  versions from `since` on, and is written only when it differs from its default. A tagged struct
  that Kafka does not call nullable may be declared `X | None = None`: None is then its absence.
  One that Kafka calls nullable has the empty structure for its default, whatever the schema says.
- `String`, `Bytes`, `Records` and lists take their compact form in flexible versions by themselves.
- A nested structure is a `@structure` without `@message`; it has the versions of the message that
  holds it.

This module knows no bytes: `protocol.kafka.compiler` turns marks into code.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, dataclass_transform

Buffer: TypeAlias = bytes | bytearray | memoryview

MessageKind: TypeAlias = Literal["request", "response", "data"]

_Class = TypeVar("_Class", bound=type)


@dataclass(frozen=True, slots=True)
class Wire:
    """The wire type of a value, by Kafka's name for it ("int16", "string", "records", ...)."""

    name: str


@dataclass(frozen=True, slots=True)
class Since:
    """The first version that has this field."""

    version: int


@dataclass(frozen=True, slots=True)
class Until:
    """The last version that has this field."""

    version: int


@dataclass(frozen=True, slots=True)
class Nullable:
    """The value may be null on the wire, from version `since` on."""

    since: int = 0


@dataclass(frozen=True, slots=True)
class Tag:
    """A tagged field (KIP-482): its number, and the first version that knows it."""

    number: int
    since: int = 0


OWN_TAG = 10_000
"""The number of our own tagged fields, far above Kafka's; its clients and brokers skip it."""

Bool = Annotated[bool, Wire("bool")]
Int8 = Annotated[int, Wire("int8")]
Int16 = Annotated[int, Wire("int16")]
Int32 = Annotated[int, Wire("int32")]
Int64 = Annotated[int, Wire("int64")]
Uint16 = Annotated[int, Wire("uint16")]
Uint32 = Annotated[int, Wire("uint32")]
Float64 = Annotated[float, Wire("float64")]
String = Annotated[str, Wire("string")]
Bytes = Annotated[bytes, Wire("bytes")]

Uuid = Annotated[bytes, Wire("uuid")]
"""Sixteen raw bytes, most significant first."""

ZERO_UUID = bytes(16)
"""Kafka's Uuid.ZERO_UUID: no id."""

Records = Annotated[Buffer | None, Wire("records")]
"""Whole record batches. Decoded without a copy: a view of the frame, writable if the frame is.

Always nullable, as in Kafka.
"""


@dataclass(frozen=True, slots=True)
class MessageSpec:
    """The declaration of `@message`: the API or record type of a class, and its versions.

    `api_key` is the API's key for requests and responses; for `data` it is the record type.
    `flexible_since` is the first version with compact forms and tagged fields; None: never.
    """

    api_key: int
    kind: MessageKind
    version_min: int
    version_max: int
    flexible_since: int | None

    @property
    def versions(self) -> tuple[int, int]:
        """The first and the last version, both inclusive."""
        return (self.version_min, self.version_max)

    def is_flexible(self, version: int) -> bool:
        """Say whether `version` uses compact forms and tagged fields (KIP-482)."""
        return self.flexible_since is not None and version >= self.flexible_since


def _equal(one: Any, other: Any) -> Any:
    if other.__class__ is not one.__class__:
        return NotImplemented
    return all(getattr(one, name) == getattr(other, name) for name in one.__slots__)


def _shown(one: Any) -> str:
    shown = ", ".join(
        f"{each.name}={getattr(one, each.name)!r}" if each.repr else f"{each.name}=[hidden]"
        for each in fields(one)
    )
    return f"{type(one).__qualname__}({shown})"


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def structure(cls: _Class) -> _Class:
    """Make a class a dataclass with slots, whose fields are given by keyword.

    `==` and `repr` are those of a dataclass, but written once here: compiling them for each of
    the classes that a start imports, and inspecting their signatures for want of a docstring, took
    an eighth of the start. `repr` hides the value of a `field(repr=False)`: a secret.
    """
    cls.__eq__ = _equal  # type: ignore[assignment]
    cls.__repr__ = _shown  # type: ignore[assignment]
    cls.__doc__ = cls.__doc__ or cls.__name__
    return dataclass(slots=True, kw_only=True, eq=False, repr=False)(cls)  # type: ignore[return-value]


def message(
    *,
    api_key: int,
    kind: MessageKind,
    versions: tuple[int, int],
    flexible_since: int | None,
) -> Callable[[_Class], _Class]:
    """Declare a structure to be a message; stands above `@structure`.

    `versions` is the first and the last version, both inclusive. The class gets `MESSAGE`, a
    MessageSpec, which `message_spec` returns. Raises TypeError for a class that is no dataclass
    and ValueError for an empty range: both are mistakes in the declaration.
    """
    version_min, version_max = versions
    if not 0 <= version_min <= version_max:
        raise ValueError(f"versions must be 0 <= first <= last, found {versions}")
    spec = MessageSpec(api_key, kind, version_min, version_max, flexible_since)

    def mark(cls: _Class) -> _Class:
        if not is_dataclass(cls):
            raise TypeError(f"@message must stand above @structure: {cls.__name__} is none")
        cls.MESSAGE = spec  # type: ignore[attr-defined]
        return cls

    return mark


def message_spec(cls: type[Any]) -> MessageSpec:
    """Return what `@message` said of `cls`; TypeError if it is not a message."""
    spec = cls.__dict__.get("MESSAGE")
    if not isinstance(spec, MessageSpec):
        raise TypeError(f"{cls.__name__} is not a message: it has no @message above it")
    return spec
