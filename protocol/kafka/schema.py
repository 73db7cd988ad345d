"""From the marks on a message class to the wire layout of one version of it.

`read_layout(cls, version)` returns a `Struct`: the fields that this version has, in wire order,
with their types, and the tagged ones apart. It refuses impossible declarations with a TypeError
that names class and field, so the code generators need no checks.

It runs once per message and version, when a codec is made.
"""

import dataclasses
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from protocol.wire import Nullable, Since, Tag, Until, Wire, message_spec

# Wire type -> struct format and size (Kafka: big-endian throughout). Booleans are one byte, not 0
# for true; a Uuid is its 16 bytes.
FIXED_FORMATS = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "uint16": ("H", 2),
    "uint32": ("I", 4),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
_SIZED_NAMES = ("string", "bytes", "records")


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value of fixed width: `format` is its struct character."""

    format: str
    size: int


@dataclass(frozen=True, slots=True)
class Sized:
    """A string, bytes or records: a length and that many bytes."""

    name: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class Array:
    """A count and that many elements."""

    element: "WireType"
    nullable: bool


@dataclass(frozen=True, slots=True)
class Struct:
    """A class and the fields it has in this version; if flexible, tagged fields close it."""

    cls: type[Any]
    fields: tuple["Field", ...]
    tagged: tuple["Field", ...]
    absent: tuple[str, ...]
    flexible: bool
    nullable: bool


WireType: TypeAlias = Fixed | Sized | Array | Struct


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct; `tag` is None for all but tagged fields."""

    name: str
    type: WireType
    tag: int | None


def read_layout(cls: type[Any], version: int) -> Struct:
    """Return the layout of `version` of the message `cls`.

    Raises ValueError if the message has no such version, TypeError if the declaration of a field
    cannot be read.
    """
    spec = message_spec(cls)
    if not spec.version_min <= version <= spec.version_max:
        raise ValueError(
            f"{cls.__name__} has no version {version}: "
            f"versions {spec.version_min} to {spec.version_max} are declared"
        )
    return _read_struct(cls, version, flexible=spec.is_flexible(version), nullable=False)


def size_min(wire_type: WireType, *, flexible: bool) -> int:
    """Return the least number of bytes that a value of this type takes on the wire."""
    match wire_type:
        case Fixed():
            return wire_type.size
        case Sized():
            if flexible:
                return 1
            return 2 if wire_type.name == "string" else 4
        case Array():
            return 1 if flexible else 4
        case Struct():
            if wire_type.nullable:
                return 1
            size = sum(size_min(field.type, flexible=flexible) for field in wire_type.fields)
            return size + flexible


def _read_struct(cls: type[Any], version: int, *, flexible: bool, nullable: bool) -> Struct:
    hints = get_type_hints(cls, include_extras=True)
    fields: list[Field] = []
    tagged: list[Field] = []
    absent: list[str] = []
    for declared in dataclasses.fields(cls):
        where = f"{cls.__name__}.{declared.name}"
        base, marks = _split(hints[declared.name])
        tag = _the(marks, Tag)
        if not _is_present(marks, version, flexible=flexible):
            if not has_default(declared):
                raise TypeError(f"{where} must have a default: version {version} lacks the field")
            absent.append(declared.name)
        elif tag is None:
            fields.append(
                Field(declared.name, _read_type(base, marks, version, flexible, where), None)
            )
        else:
            if not has_default(declared):
                raise TypeError(f"{where} must have a default: it is tagged")
            wire_type = _read_type(base, marks, version, flexible, where)
            tagged.append(Field(declared.name, wire_type, tag.number))
    tagged.sort(key=lambda field: field.tag or 0)
    if len({field.tag for field in tagged}) != len(tagged):
        raise TypeError(f"{cls.__name__} gives one tag to two fields")
    return Struct(cls, tuple(fields), tuple(tagged), tuple(absent), flexible, nullable)


def _read_type(
    base: Any,
    marks: tuple[Any, ...],
    version: int,
    flexible: bool,  # noqa: FBT001
    where: str,
) -> WireType:
    optional, base, marks = _without_none(base, marks, where)
    null_mark = _the(marks, Nullable)
    nullable = null_mark is not None and version >= null_mark.since
    wire = _the(marks, Wire)
    if wire is not None and wire.name == "records":
        return Sized("records", nullable=True)
    if null_mark is not None and not optional:
        raise TypeError(f"{where} is marked Nullable, but its type has no None")
    if optional and null_mark is None and (_the(marks, Tag) is None or wire is not None):
        raise TypeError(f"{where} may be None, but is not marked Nullable")
    if wire is not None and wire.name in _SIZED_NAMES:
        return Sized(wire.name, nullable)
    if wire is not None and wire.name in FIXED_FORMATS and null_mark is None:
        return Fixed(*FIXED_FORMATS[wire.name])
    if get_origin(base) is list:
        element, element_marks = _split(get_args(base)[0])
        return Array(
            _read_type(element, element_marks, version, flexible, f"{where}[]"), nullable=nullable
        )
    if isinstance(base, type) and dataclasses.is_dataclass(base):
        return _read_struct(base, version, flexible=flexible, nullable=nullable)
    raise TypeError(f"{where} has no wire type: found {base!r} with marks {marks}")


def _split(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Take `Annotated` apart: the type and its marks."""
    if get_origin(hint) is Annotated:
        base, *marks = get_args(hint)
        return base, tuple(marks)
    return hint, ()


def _without_none(
    base: Any, marks: tuple[Any, ...], where: str
) -> tuple[bool, Any, tuple[Any, ...]]:
    """Take None out of a union; the marks of what is left (`String | None`) join the others."""
    if get_origin(base) not in (Union, UnionType) or _the(marks, Wire) is not None:
        return False, base, marks
    others = [member for member in get_args(base) if member is not NoneType]
    if len(others) != 1 or len(others) == len(get_args(base)):
        raise TypeError(f"{where} must be one type or None, found {base!r}")
    inner, inner_marks = _split(others[0])
    return True, inner, inner_marks + marks


def _is_present(marks: tuple[Any, ...], version: int, *, flexible: bool) -> bool:
    since, until, tag = _the(marks, Since), _the(marks, Until), _the(marks, Tag)
    if since is not None and version < since.version:
        return False
    if until is not None and version > until.version:
        return False
    return tag is None or (flexible and version >= tag.since)


def _the(marks: tuple[Any, ...], kind: type[Any]) -> Any:
    """Return the one mark of this kind, or None."""
    found = [mark for mark in marks if isinstance(mark, kind)]
    return found[0] if found else None


def has_default(declared: "dataclasses.Field[Any]") -> bool:
    """Say whether the class can make a value for this field by itself."""
    return not (
        declared.default is dataclasses.MISSING and declared.default_factory is dataclasses.MISSING
    )
