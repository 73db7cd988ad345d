"""The fields of messages by version, and strategies that fill them.

Reads the marks of `protocol.wire` itself, not through the codec, so that a test notices a codec
that overlooks a field. `messages(cls, version)` draws instances with any value that the wire can
carry in the fields of that version and defaults in the others, so that a round trip gives an equal
message.
"""

import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

import protocol.messages
from protocol import consumer_protocol, metadata_records
from protocol.wire import OWN_TAG, Nullable, Since, Tag, Until, Wire, message_spec

INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}

# Returns the strategy of a leaf field; None: the default strategy of its wire type.
Leaf = Callable[["MessageField"], st.SearchStrategy[Any] | None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class MessageField:
    """One field: `wire` is the wire type of the value or of list items; "" for a struct."""

    name: str
    default: Any
    since: int = 0
    until: int = 2**15
    tag: int | None = None
    nullable_since: int | None = None
    is_list: bool = False
    wire: str = ""
    struct: type | None = None

    def is_in(self, version: int) -> bool:
        return self.since <= version <= self.until

    @property
    def is_own(self) -> bool:
        """Whether it is a tagged field of ours, which no other program knows."""
        return self.tag == OWN_TAG

    def is_nullable_in(self, version: int) -> bool:
        return self.nullable_since is not None and version >= self.nullable_since


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _known_from(mark: object) -> dict[str, Any]:
    match mark:
        case Wire("records"):
            return {"wire": "records", "nullable_since": 0}
        case Wire(wire):
            return {"wire": wire}
        case Since(version):
            return {"since": version}
        case Until(version):
            return {"until": version}
        case Tag(number, version):
            return {"tag": number, "since": version}
        case Nullable(version):
            return {"nullable_since": version}
    raise AssertionError(f"an unknown mark: {mark!r}")


def _read(name: str, default: Any, annotation: Any) -> MessageField:
    known: dict[str, Any] = {"name": name, "default": default}
    while get_origin(annotation) in (Annotated, UnionType, Union, list):
        if get_origin(annotation) is Annotated:
            annotation, *marks = get_args(annotation)
            for mark in marks:
                known |= _known_from(mark)
        elif get_origin(annotation) is list:
            known["is_list"] = True
            (annotation,) = get_args(annotation)
        elif known.get("wire") == "records":
            annotation = bytes
        else:
            (annotation,) = (arg for arg in get_args(annotation) if arg is not NoneType)
    if dataclasses.is_dataclass(annotation):
        known["struct"] = annotation
    return MessageField(**known)


@functools.cache
def fields_of(cls: type) -> tuple[MessageField, ...]:
    """Return the fields of a message or structure, in the order of their declaration."""
    hints = get_type_hints(cls, include_extras=True)
    return tuple(
        _read(field.name, _default(field), hints[field.name]) for field in dataclasses.fields(cls)
    )


def fields_in(cls: type, version: int) -> list[MessageField]:
    """Return the fields that `version` has."""
    return [field for field in fields_of(cls) if field.is_in(version)]


def kafkas_fields_in(cls: type, version: int) -> list[MessageField]:
    """Return the fields that `version` has in Kafka's schemas."""
    return [field for field in fields_in(cls, version) if not field.is_own]


@functools.cache
def api_messages() -> tuple[type, ...]:
    """Return every request and response of `protocol.messages`."""
    found = []
    for module_info in pkgutil.iter_modules(protocol.messages.__path__):
        module = importlib.import_module(f"protocol.messages.{module_info.name}")
        found += [cls for cls in vars(module).values() if hasattr(cls, "MESSAGE")]
    return tuple(found)


def record_messages() -> tuple[type, ...]:
    """Return every class of `protocol.metadata_records`."""
    return messages_of(metadata_records)


def messages_of(module: ModuleType) -> tuple[type, ...]:
    """Return every class of a message in a module."""
    return tuple(cls for cls in vars(module).values() if hasattr(cls, "MESSAGE"))


def embedded_messages() -> tuple[type, ...]:
    """Return every class of `protocol.consumer_protocol`."""
    return messages_of(consumer_protocol)


def versions_of(cls: type) -> range:
    """Return all versions of a message."""
    spec = message_spec(cls)
    return range(spec.version_min, spec.version_max + 1)


def each_version(classes: tuple[type, ...]) -> Iterator[tuple[type, int]]:
    """Iterate over (class, version) of all versions of the classes."""
    return ((cls, version) for cls in classes for version in versions_of(cls))


def _leaf(field: MessageField) -> st.SearchStrategy[Any]:
    match field.wire:
        case "bool":
            return st.booleans()
        case "string":
            return st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
        case "bytes" | "records":
            return st.binary(max_size=40)
        case "uuid":
            return st.binary(min_size=16, max_size=16)
        case "uint16":
            return st.integers(0, 2**16 - 1)
        case "float64":
            return st.floats(allow_nan=False)
    bits = INTEGER_BITS[field.wire]
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _value(field: MessageField, version: int, leaf: Leaf, *, own: bool) -> st.SearchStrategy[Any]:
    if field.struct:
        value = messages(field.struct, version, leaf, own=own)
    else:
        narrowed = leaf(field)
        value = _leaf(field) if narrowed is None else narrowed
    if field.is_list:
        value = st.lists(value, max_size=2)
    if field.is_nullable_in(version):
        value = st.none() | value
    if field.tag is not None:
        if field.struct and not field.is_list:
            # Kafka omits a structure of defaults, but where our default is None the two differ.
            value = value.filter(lambda struct: struct != field.struct())
        value = st.just(field.default) | value
    return value


@functools.cache
def messages(
    cls: type, version: int, leaf: Leaf = lambda _field: None, *, own: bool = True
) -> st.SearchStrategy[Any]:
    """Draw instances of `cls` that `version` carries without loss; `own`: with our own fields."""
    drawn = fields_in(cls, version) if own else kafkas_fields_in(cls, version)
    return st.builds(cls, **{field.name: _value(field, version, leaf, own=own) for field in drawn})
