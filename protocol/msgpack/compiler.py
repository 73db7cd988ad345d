r"""From a message class to the compiled function that reads it from a map, if it comes as usual.

Programs send the same request over and over, its fields in the order in which Kafka's schema has
them. So the function is straight-line Python source, as the Kafka dialect's codecs are: at each
field it compares the bytes that come next with the field's name, and reads the value, or takes the
default and tries the next name. `TopicProduceData` of Produce becomes::

    n = data[pos]
    if 128 <= n < 144:
        left2 = n - 128
        pos += 1
    else:
        left2, pos = read_count(data, pos, 222)
    o2 = new(TopicProduceData)
    o2.name = ''
    if data[pos:pos + 9] == b'\xa8topic_id':
        left2 -= 1
        pos += 9
        start = pos + 2
        pos += 18
        if data[start - 2:start] != b'\xc4\x10' or pos > limit:
            raise Irregular
        o2.topic_id = data[start:pos]
    else:
        o2.topic_id = ZERO_UUID
    ...
    if left2:
        raise Irregular

A map with a pair left at its end has a field that is unknown, repeated or out of order. That, and
all else that is not plainly good, makes the function give up (`protocol.msgpack.primitives`), and
the walking reader reads the frame again: it takes fields in any order, and knows what to say. What
this function does return is what the walking reader would return; a property test holds them equal.

`data` is the frame, or its beginning, as bytes; `frame` is all of it, as a view. Only records may
stand, or end, behind `data`: they become parts of `frame`.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from protocol.kafka.schema import (
    Array,
    Fixed,
    Sized,
    Struct,
    WireType,
    has_default,
    read_layout,
)
from protocol.kafka.source import GeneratedCode
from protocol.msgpack import primitives
from protocol.msgpack.decoder import RANGES, is_nullable

ReadRecords: TypeAlias = Callable[[memoryview, int], tuple[memoryview, int]]
CompiledDecode: TypeAlias = Callable[[bytes, memoryview, int], tuple[Any, dict[str, Any], int]]

_BOOLEAN: Final = Fixed("?", 1)
_UUID_HEAD: Final = b"\xc4\x10"
_ARRAY, _MAP = (0x90, 0xDC), (0x80, 0xDE)  # the heads of a count in 4 bits, and in 16


def compile_decoder(
    cls: type[Any], version: int, read_records: ReadRecords, flags: tuple[str, ...] = ()
) -> CompiledDecode:
    """Return `decode(data, frame, pos) -> (message, flags that were said, pos)`.

    `flags` are booleans that only this dialect has; they stand behind all fields. Records that are
    no bin of less than 256 bytes are read by `read_records(frame, pos) -> (records, pos)`.
    Elements are not counted: the caller bounds `data`, of which each takes a byte.
    """
    writer = _Writer(read_layout(cls, version), read_records, flags)
    title = f"<msgpack decoder of {cls.__name__} {version}>"
    decode: CompiledDecode = writer.source.compile(title, "decode")
    return decode


class _Writer:
    """Goes through a layout once and writes the reader of each field."""

    def __init__(self, layout: Struct, read_records: ReadRecords, flags: tuple[str, ...]) -> None:
        self.source = source = GeneratedCode()
        source.namespace.update(
            new=object.__new__,
            unpack_double=struct.Struct(">d").unpack_from,
            read_records=read_records,
            Irregular=primitives.Irregular,
            read_integer=primitives.read_integer,
            read_binary_size=primitives.read_binary_size,
            read_string_size=primitives.read_string_size,
            read_count=primitives.read_count,
        )
        with source.block("def decode(data, frame, pos):"):
            source.add("limit = len(data)", "flags = {}")
            message = source.name("o")
            self._struct(layout, message, flags)
            source.add(f"return {message}, flags, pos")

    def _struct(self, layout: Struct, target: str, flags: tuple[str, ...] = ()) -> None:
        source, cls = self.source, layout.cls
        if hasattr(cls, "__post_init__"):
            raise TypeError(f"{cls.__name__} has a __post_init__, which decoding would pass over")
        left = source.name("left")
        self._count(left, _MAP)
        source.add(f"{target} = new({source.bind(cls.__name__, cls)})")
        declared = {field.name: field for field in dataclasses.fields(cls)}
        for name in layout.absent:
            source.add(f"{target}.{name} = {source.default_of(cls, name)}")
        for field in (*layout.fields, *layout.tagged):
            place = f"{target}.{field.name}"
            with self._named(field.name, left):
                # A tagged field that is None is absent; nil is accepted for it.
                nil = field.tag is not None and declared[field.name].default is None
                self._value(field.type, place, may_be_nil=nil)
            with source.block("else:"):
                if has_default(declared[field.name]):
                    source.add(f"{place} = {source.default_of(cls, field.name)}")
                else:
                    source.add("raise Irregular")
        for name in flags:
            with self._named(name, left):
                self._value(_BOOLEAN, f"flags[{name!r}]")
        self._refuse_if(left)

    @contextmanager
    def _named(self, name: str, left: str) -> Iterator[None]:
        """Write the code for the field `name`, if it comes next; `left` counts it down."""
        head = bytes([0xA0 + len(name)]) if len(name) < 32 else bytes([0xD9, len(name)])
        packed = head + name.encode()
        with self.source.block(f"if data[pos:pos + {len(packed)}] == {packed!r}:"):
            self.source.add(f"{left} -= 1", f"pos += {len(packed)}")
            yield

    def _value(self, wire_type: WireType, target: str, *, may_be_nil: bool = False) -> None:
        source = self.source
        if may_be_nil or is_nullable(wire_type):
            with source.block("if data[pos] == 0xC0:"):
                source.add(f"{target} = None", "pos += 1")
            with source.block("else:"):
                self._some(wire_type, target)
        else:
            self._some(wire_type, target)

    def _some(self, wire_type: WireType, target: str) -> None:
        match wire_type:
            case Fixed():
                self._fixed(wire_type.format, target)
            case Sized():
                self._sized(wire_type.name, target)
            case Array():
                self._array(wire_type.element, target)
            case Struct():
                item = self.source.name("o")
                self._struct(wire_type, item)
                self.source.add(f"{target} = {item}")

    def _refuse_if(self, condition: str) -> None:
        with self.source.block(f"if {condition}:"):
            self.source.add("raise Irregular")

    def _fixed(self, form: str, target: str) -> None:
        source = self.source
        if form == "?":
            source.add("n = data[pos]", "pos += 1", f"{target} = n == 0xC3")
            self._refuse_if("n != 0xC3 and n != 0xC2")
        elif form == "d":
            self._refuse_if("data[pos] != 0xCB")
            source.add(f"{target} = unpack_double(data, pos + 1)[0]", "pos += 9")
        elif form in RANGES:
            first, last = RANGES[form]
            source.add("n = data[pos]")
            with source.block("if n < 128:"):
                source.add(f"{target} = n", "pos += 1")
            if last >= 0xFFFF:
                with source.block("elif n == 0xCD:"):
                    source.add(f"{target} = data[pos + 1] << 8 | data[pos + 2]", "pos += 3")
            with source.block("else:"):
                source.add(f"{target}, pos = read_integer(data, pos, {first}, {last})")
        else:
            source.add("start = pos + 2", "pos += 18")
            self._refuse_if(f"data[start - 2:start] != {_UUID_HEAD!r} or pos > limit")
            source.add(f"{target} = data[start:pos]")

    def _sized(self, name: str, target: str) -> None:
        source = self.source
        if name == "string":
            source.add("n = data[pos]")
            with source.block("if 160 <= n < 192:"):
                source.add("start = pos + 1", "pos = start + n - 160")
                self._refuse_if("pos > limit")
            with source.block("else:"):
                source.add("start, pos = read_string_size(data, pos)")
            source.add(f"{target} = data[start:pos].decode()")
        elif name == "bytes":
            source.add("start, pos = read_binary_size(data, pos)", f"{target} = data[start:pos]")
        else:
            with source.block("if data[pos] == 0xC4:"):
                source.add("start = pos + 2", "pos = start + data[pos + 1]")
                self._refuse_if("pos > len(frame)")
                source.add(f"{target} = frame[start:pos]")
            with source.block("else:"):
                source.add(f"{target}, pos = read_records(frame, pos)")

    def _array(self, element: WireType, target: str) -> None:
        source = self.source
        items, item = source.name("a"), source.name("e")
        self._count("n", _ARRAY)
        source.add(f"{target} = {items} = []")
        with source.block("for _ in range(n):"):
            self._value(element, item)
            source.add(f"{items}.append({item})")

    def _count(self, target: str, heads: tuple[int, int]) -> None:
        fixed, short = heads
        source = self.source
        source.add("n = data[pos]")
        with source.block(f"if {fixed} <= n < {fixed + 16}:"):
            source.add(f"{target} = n - {fixed}", "pos += 1")
        with source.block("else:"):
            source.add(f"{target}, pos = read_count(data, pos, {short})")
