"""From a message class to the function that reads it from a map.

A body is a map of field names to values: the names are the class's own, at one version of the
message. A missing field takes its default; one that the class gives no default must be there. An
unknown or repeated field is refused. Null is nil, where the version allows it.

`decoder` walks the class once and leaves closures; a request meets no schema. The layout of a
version is read by `protocol.kafka.schema`: it is the message's, not the Kafka dialect's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final

from protocol.kafka.schema import Array, Fixed, Sized, Struct, WireType, has_default, read_layout
from protocol.msgpack.reader import BodyError, Reader

Read = Callable[[Reader], Any]
Decode = Callable[[Reader], tuple[Any, dict[str, Any]]]

RANGES: Final = {
    "b": (-(1 << 7), (1 << 7) - 1),
    "h": (-(1 << 15), (1 << 15) - 1),
    "i": (-(1 << 31), (1 << 31) - 1),
    "q": (-(1 << 63), (1 << 63) - 1),
    "H": (0, (1 << 16) - 1),
    "I": (0, (1 << 32) - 1),
}
_UUID_BYTES: Final = 16
_UNKNOWN: Final = ("", None)


def integer_reader(first: int, last: int) -> Read:
    """Return the function that reads an integer from `first` to `last`."""

    def read(reader: Reader) -> int:
        number = reader.integer()
        if not first <= number <= last:
            raise BodyError(f"found {number}, expected an integer from {first} to {last}")
        return number

    return read


read_int64: Final = integer_reader(*RANGES["q"])


def decoder(
    cls: type[Any], version: int, read_records: Read, more: tuple[tuple[str, Read], ...] = ()
) -> Decode:
    """Return the function that reads a body of `version` of `cls`.

    `read_records` reads the values of records fields; `more` are fields that only this dialect
    has, returned apart. The function raises BodyError, IndexError and struct.error.
    """
    layout = read_layout(cls, version)
    read = _struct(layout, read_records, dict(more))

    def decode(reader: Reader) -> tuple[Any, dict[str, Any]]:
        extras: dict[str, Any] = {}
        return read(reader, extras), extras

    return decode


def _struct(
    layout: Struct, read_records: Read, more: dict[str, Read]
) -> Callable[[Reader, dict[str, Any]], Any]:
    cls = layout.cls
    declared = {field.name: field for field in dataclasses.fields(cls)}
    fields: dict[str, Read] = dict(more)
    for field in (*layout.fields, *layout.tagged):
        read = _value(field.type, read_records)
        # A tagged field that is None is absent; nil is accepted for it.
        nil = field.tag is not None and declared[field.name].default is None
        fields[field.name] = or_nil(read) if nil and not is_nullable(field.type) else read
    required = {field.name for field in layout.fields if not has_default(declared[field.name])}

    by_bytes = {name.encode(): (name, read) for name, read in fields.items()}

    def decode(reader: Reader, extras: dict[str, Any]) -> Any:
        values: dict[str, Any] = {}
        data = reader.data
        for _ in range(reader.map()):
            head = data[reader.position]
            if 0xA0 <= head <= 0xBF:  # as Reader.name, without a call for each field
                start = reader.position + 1
                reader.position = end = start + head - 0xA0
                raw = bytes(data[start:end])
            else:
                raw = reader.name()
            name, read = by_bytes.get(raw, _UNKNOWN)
            if read is None:
                raise BodyError(f"unknown field {raw[:100].decode(errors='replace')!r}")
            if name in values:
                raise BodyError(f"field {name!r} stands twice")
            try:
                values[name] = read(reader)
            except BodyError as error:
                raise error.within(name) from None
        missing = required - values.keys()
        if missing:
            raise BodyError(f"field {min(missing)!r} is missing, and has no default")
        for name in more:  # empty for all but one
            if name in values:
                extras[name] = values.pop(name)
        return cls(**values)

    return decode


def _value(wire_type: WireType, read_records: Read) -> Read:
    match wire_type:
        case Fixed():
            return _fixed(wire_type.format)
        case Sized():
            if wire_type.name == "records":
                return or_nil(read_records)
            read: Read = Reader.string if wire_type.name == "string" else Reader.binary
        case Array():
            read = _array(_value(wire_type.element, read_records))
        case Struct():
            struct = _struct(wire_type, read_records, {})

            def read(reader: Reader) -> Any:
                return struct(reader, {})

    return or_nil(read) if is_nullable(wire_type) else read


def is_nullable(wire_type: WireType) -> bool:
    """Say whether nil may stand for this value."""
    return not isinstance(wire_type, Fixed) and wire_type.nullable


def _fixed(form: str) -> Read:
    if form == "?":
        return Reader.boolean
    if form == "d":
        return Reader.number
    if form in RANGES:
        return integer_reader(*RANGES[form])
    return _uuid


def _uuid(reader: Reader) -> bytes:
    value = reader.binary()
    if len(value) != _UUID_BYTES:
        raise BodyError(f"found {len(value)} bytes, expected a uuid of {_UUID_BYTES}")
    return value


def or_nil(read: Read) -> Read:
    """Return the function that reads nil, as None, or what `read` reads."""
    return lambda reader: None if reader.take_nil() else read(reader)


def _array(read: Read) -> Read:
    return lambda reader: [read(reader) for _ in range(reader.array())]
