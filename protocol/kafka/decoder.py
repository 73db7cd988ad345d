"""Writes the decoder of one version of a message, as Python source.

The source is straight-line: no schema is looked at when it runs. Neighbouring fields of fixed
width are read by one `struct.Struct`, which also reads the length (or the first byte of a compact
length) that follows them; a length of one byte costs one comparison. `TopicProduceData` of
Produce 9 becomes, inside the loop over `topic_data`::

    o2 = new(TopicProduceData)
    a1.append(o2)
    n = buf[pos]
    pos += 1
    if not 0 < n < 128:
        n, pos = read_string_size(buf, pos - 1, 'TopicProduceData.name')
    end = pos + n - 1
    if end > limit:
        refuse_size(n - 1, 'TopicProduceData.name', limit - pos)
    o2.name = buf[pos:end].tobytes().decode()
    pos = end
    o2.topic_id = ZERO_UUID
    n = buf[pos]
    pos += 1
    ...
    for _ in range(n):
        o3 = new(PartitionProduceData)
        a2.append(o3)
        o3.index, n = unpack_iB(buf, pos)
        pos += 5

Objects are made by `object.__new__` and every field is assigned, which is twice as fast as the
dataclass's `__init__`; so a message class has no `__post_init__`. Only frozen ones are called.

Against hostile bytes: a size is compared with what is left before anything is sliced, a count
(times the least size of an element) before a list is begun, and all counts of a message together
with `ELEMENTS_MAX`. What runs off the end raises in `struct` or by index; that becomes the
DecodeError that the function promises.

Text that is not UTF-8 is read as Java reads it (`protocol.java_text`), by another function, which
is compiled when such a message comes: an error handler costs each string a tenth of a microsecond.
"""

import dataclasses
import struct
from typing import Any

from protocol.errors import DecodeError
from protocol.java_text import JAVA
from protocol.kafka import primitives
from protocol.kafka.schema import Array, Field, Fixed, Sized, Struct, WireType, size_min
from protocol.kafka.source import GeneratedCode

_HELPERS = (
    primitives.read_string_size,
    primitives.read_tag,
    primitives.read_uvarint,
    primitives.refuse_count,
    primitives.refuse_null,
    primitives.refuse_size,
    primitives.refuse_tag,
    primitives.refuse_tag_size,
    primitives.skip_tags,
)


def write_decoder(layout: Struct, title: str) -> GeneratedCode:
    """Return the source of `decode(buf, pos) -> (message, pos)`; errors name `title`."""
    return _DecoderWriter(layout, title, as_java=False).source


class _DecoderWriter:
    """Goes through a layout once; `_run` holds fixed-width fields that are not yet written."""

    def __init__(self, layout: Struct, title: str, *, as_java: bool) -> None:
        self.source = GeneratedCode()
        self._decode = f"decode('utf-8', {JAVA!r})" if as_java else "decode()"
        self._run: list[tuple[str, str]] = []
        self._compact = layout.flexible
        source = self.source
        source.namespace.update(
            {helper.__name__: helper for helper in _HELPERS},
            new=object.__new__,
            struct_error=struct.error,
            unpack_from=struct.unpack_from,
            DecodeError=DecodeError,
            ELEMENTS_MAX=primitives.ELEMENTS_MAX,
        )
        with source.block("def decode(buf, pos):"):
            source.add("start = pos", "limit = len(buf)", "budget = ELEMENTS_MAX")
            with source.block("try:"):
                self._struct(layout, source.name("o"))
            with source.block("except (struct_error, IndexError):"):
                source.add(
                    f"raise DecodeError(f'{title} ends inside a field: {{limit}} bytes, read to "
                    "{pos}') from None"
                )
            if not as_java:
                with source.block("except UnicodeDecodeError:"):
                    source.add("return decode_as_java(buf, start)")
            source.add("return o1, pos")

    def _flush(self, trailing: tuple[str, str] | None = None) -> None:
        """Read the run, and with it one value more: a length, say."""
        run = [*self._run, trailing] if trailing else self._run
        self._run = []
        if not run:
            return
        formats = "".join(form for form, _ in run)
        targets = ", ".join(target for _, target in run)
        if formats == "B":
            self.source.add(f"{targets} = buf[pos]", "pos += 1")
            return
        reader = struct.Struct(">" + formats)
        name = "unpack_" + formats.replace("?", "t")
        if name not in self.source.namespace:
            self.source.bind(name, reader.unpack_from)
        comma = "," if len(run) == 1 else ""
        self.source.add(f"{targets}{comma} = {name}(buf, pos)", f"pos += {reader.size}")

    def _value(self, wire_type: WireType, target: str, where: str) -> None:
        match wire_type:
            case Fixed():
                self._run.append((wire_type.format, target))
            case Sized():
                self._sized(wire_type, target, where)
            case Array():
                self._array(wire_type, target, where)
            case Struct():
                self._nested(wire_type, target)

    def _struct(self, layout: Struct, target: str) -> None:
        source, cls = self.source, layout.cls
        if hasattr(cls, "__post_init__"):
            raise TypeError(f"{cls.__name__} has a __post_init__, which decoding would pass over")
        source.bind(cls.__name__, cls)
        # A frozen object is made when all of its fields are read; others are filled as they come.
        is_frozen = cls.__dataclass_params__.frozen
        place = f"{target}_" if is_frozen else f"{target}."
        if not is_frozen:
            source.add(f"{target} = new({cls.__name__})")
        for field in layout.fields:
            self._value(field.type, place + field.name, f"{cls.__name__}.{field.name}")
        for name in layout.absent:
            source.add(f"{place}{name} = {source.default_of(cls, name)}")
        for field in layout.tagged:
            source.add(f"{place}{field.name} = {source.default_of(cls, field.name)}")
        if layout.flexible:
            self._tags(layout.tagged, place, cls.__name__)
        self._flush()
        if is_frozen:
            names = [field.name for field in dataclasses.fields(cls)]
            arguments = ", ".join(f"{name}={place}{name}" for name in names)
            source.add(f"{target} = {cls.__name__}({arguments})")

    def _nested(self, layout: Struct, target: str, mark_min: int = 0) -> None:
        """Read a structure; if it may be null, it is when the mark is below `mark_min`."""
        name = self.source.name("o")
        if not layout.nullable:
            self._struct(layout, name)
            self.source.add(f"{target} = {name}")
            return
        self._flush(("b", "mark"))
        with self.source.block(f"if mark < {mark_min}:"):
            self.source.add(f"{target} = None")
        with self.source.block("else:"):
            self._struct(layout, name)
            self.source.add(f"{target} = {name}")

    def _tags(self, tagged: tuple[Field, ...], place: str, where: str) -> None:
        source = self.source
        self._flush(("B", "n"))
        with source.block("if n:"):
            with source.block("if n > 127:"):
                source.add("n, pos = read_uvarint(buf, pos - 1)")
            source.add("budget -= n")
            with source.block("if budget < 0 or n > limit - pos:"):
                source.add(f"refuse_count(n, 'the tagged fields of {where}', limit - pos)")
            if not tagged:
                source.add(f"pos = skip_tags(buf, pos, limit, n, {where!r})")
                return
            tag, start, stop, seen = (source.name(p) for p in ("tag", "start", "stop", "seen"))
            source.add(f"{seen} = set()")
            with source.block("for _ in range(n):"):
                source.add(f"{tag}, pos, {stop} = read_tag(buf, pos, limit)")
                with source.block(f"if {tag} in {seen}:"):
                    source.add(f"refuse_tag({tag}, {where!r})")
                source.add(f"{seen}.add({tag})", f"{start} = pos")
                for index, field in enumerate(tagged):
                    with source.block(f"{'elif' if index else 'if'} {tag} == {field.tag}:"):
                        if isinstance(field.type, Struct):
                            self._nested(field.type, place + field.name, mark_min=1)
                        else:
                            self._value(field.type, place + field.name, f"{where}.{field.name}")
                        self._flush()
                with source.block("else:"):
                    source.add(f"pos = {stop}")
                with source.block(f"if pos != {stop}:"):
                    source.add(
                        f"refuse_tag_size({tag}, {where!r}, pos - {start}, {stop} - {start})"
                    )

    def _sized(self, wire_type: Sized, target: str, where: str) -> None:
        source, is_string = self.source, wire_type.name == "string"
        self._flush(("B" if self._compact else "h" if is_string else "i", "n"))
        if self._compact and is_string and not wire_type.nullable:
            with source.block("if not 0 < n < 128:"):
                source.add(f"n, pos = read_string_size(buf, pos - 1, {where!r})")
        elif self._compact:
            read = "read_string_size" if is_string else "read_uvarint"
            more = f", {where!r}" if is_string else ""
            with source.block("if n > 127:"):
                source.add(f"n, pos = {read}(buf, pos - 1{more})")
        if not wire_type.nullable:
            self._slice(wire_type, target, where)
            return
        with source.block(f"if n == {0 if self._compact else -1}:"):
            source.add(f"{target} = None")
        with source.block("else:"):
            self._slice(wire_type, target, where)

    def _slice(self, wire_type: Sized, target: str, where: str) -> None:
        size = "n - 1" if self._compact else "n"
        slices = {
            "string": "buf[pos:end].tobytes()." + self._decode,
            "bytes": "buf[pos:end].tobytes()",
            "records": "buf[pos:end]",
        }
        # A compact string was checked against null above, and a nullable value is not null here.
        is_positive = self._compact and (wire_type.nullable or wire_type.name == "string")
        self.source.add(f"end = pos + {size}")
        with self.source.block("if end > limit:" if is_positive else "if not pos <= end <= limit:"):
            self.source.add(f"refuse_size({size}, {where!r}, limit - pos)")
        self.source.add(f"{target} = {slices[wire_type.name]}", "pos = end")

    def _array(self, wire_type: Array, target: str, where: str) -> None:
        source = self.source
        self._flush(("B" if self._compact else "i", "n"))
        if self._compact:
            with source.block("if n > 127:"):
                source.add("n, pos = read_uvarint(buf, pos - 1)")
        if not wire_type.nullable:
            self._elements(wire_type.element, target, where)
            return
        with source.block(f"if n == {0 if self._compact else -1}:"):
            source.add(f"{target} = None")
        with source.block("else:"):
            self._elements(wire_type.element, target, where)

    def _elements(self, element: WireType, target: str, where: str) -> None:
        source = self.source
        if self._compact:
            source.add("n -= 1")
        least = max(1, size_min(element, flexible=self._compact))
        needed = "n" if least == 1 else f"n * {least}"
        source.add("budget -= n")
        with source.block(f"if n < 0 or budget < 0 or {needed} > limit - pos:"):
            source.add(f"refuse_count(n, {where!r}, limit - pos)")
        if isinstance(element, Fixed) and len(element.format) == 1:
            source.add(
                f"{target} = list(unpack_from(f'>{{n}}{element.format}', buf, pos))",
                f"pos += {needed}",
            )
            return
        items = source.name("a")
        source.add(f"{target} = {items} = []")
        with source.block("for _ in range(n):"):
            if isinstance(element, Struct) and not element.nullable:
                item = source.name("o")
                self._struct(element, item)
            else:
                item = source.name("e")
                self._value(element, item, f"{where}[]")
                self._flush()
            source.add(f"{items}.append({item})")


def decoder_filename(title: str) -> str:
    """Return the name under which tracebacks show the source."""
    return f"<decoder of {title}>"


def compile_decoder(layout: Struct, title: str) -> Any:
    """Return the function that `write_decoder` wrote."""
    as_java: list[Any] = []

    def decode_as_java(buf: memoryview, pos: int) -> Any:
        if not as_java:
            lenient_title = f"{title} as Java"
            source = _DecoderWriter(layout, title, as_java=True).source
            as_java.append(source.compile(decoder_filename(lenient_title), "decode"))
        return as_java[0](buf, pos)

    source = write_decoder(layout, title)
    source.namespace["decode_as_java"] = decode_as_java
    return source.compile(decoder_filename(title), "decode")
