"""Writes the encoder of one version of a message, as Python source.

As for decoding, the source is straight-line, and neighbouring fixed-width fields are packed by one
`struct.Struct` together with the length that follows them, in its one-byte form where that will
do. A partition of a Produce 9 response becomes, inside the loop over `partition_responses`::

    a3 = o3.record_errors
    n1 = len(a3) + 1
    if n1 < 128:
        out += pack_ihqqqB(o3.index, o3.error_code, o3.base_offset, ..., n1)
    else:
        out += pack_ihqqq(o3.index, o3.error_code, o3.base_offset, ...) + uvarint(n1)
    for o4 in a3:
        ...

Bytes go to `out`, the last of the buffers in `parts`. Records of `RECORDS_APART_BYTES` and more
are appended to `parts` as they are, without a copy, and a new bytearray after them.

A null that is not allowed, a number out of its range, a string that is too long or an object of
another class raises EncodeError; what was appended to `parts` until then is of no use. Error
messages that are too long are cut: they quote what clients send.
"""

import struct
from typing import Any

from protocol.errors import EncodeError
from protocol.kafka import primitives
from protocol.kafka.schema import Array, Field, Fixed, Sized, Struct, WireType
from protocol.kafka.source import GeneratedCode
from protocol.packed_pairs import PackedPairs

# Below this a copy is cheaper than one more buffer for the socket.
RECORDS_APART_BYTES = 1024

_HELPERS = (
    primitives.check_string,
    primitives.check_uuid,
    primitives.cut_text,
    primitives.uvarint,
)
_FOR_PEOPLE = "error_message"  # how the names of fields end whose texts may be cut
_TAGGED_MAX = 127  # their count is written as one byte


# A stepwise encoder yields when it has written so many bytes more: half a millisecond, about.
STEP_BYTES = 8 * 1024


def write_encoder(layout: Struct, title: str, *, in_steps: bool = False) -> GeneratedCode:
    """Return the source of `encode(message, parts)`; errors name `title`.

    With `in_steps` it is a generator, which yields after elements of arrays, by how many bytes
    `out` has grown.
    """
    return _EncoderWriter(layout, title, in_steps=in_steps).source


class _EncoderWriter:
    """Goes through a layout once; `_run` holds fixed-width fields that are not yet written."""

    def __init__(self, layout: Struct, title: str, *, in_steps: bool) -> None:
        self.source = GeneratedCode()
        self._in_steps = in_steps
        self._run: list[tuple[str, str]] = []
        self._compact = layout.flexible
        self._inside_tag = False
        source = self.source
        source.namespace.update(
            {helper.__name__: helper for helper in _HELPERS},
            struct_error=struct.error,
            pack=struct.pack,
            EncodeError=EncodeError,
            PackedPairs=PackedPairs,
        )
        message = source.name("o")
        with source.block(f"def encode({message}, parts):"):
            source.add("out = parts[-1]")
            if in_steps:
                source.add("said = 0", "yield 0")  # a message may have no array
            with source.block("try:"):
                self._struct(layout, message)
            with source.block(
                "except (struct_error, AttributeError, TypeError, UnicodeEncodeError) as error:"
            ):
                source.add(f"raise EncodeError(f'{title} cannot be encoded: {{error}}') from error")

    def _flush(self) -> None:
        run, self._run = self._run, []
        match run:
            case []:
                pass
            case [("x", _)]:
                self.source.add("out.append(0)")
            case [("B", expression)]:
                self.source.add(f"out.append({expression})")
            case _:
                self.source.add(f"out += {self._packed(run)}")

    def _flush_length(self, name: str) -> None:
        """Write the run and the length in variable `name`, as an unsigned varint."""
        source, run = self.source, self._run
        self._run = []
        with source.block(f"if {name} < 128:"):
            source.add(
                f"out += {self._packed([*run, ('B', name)])}" if run else f"out.append({name})"
            )
        with source.block("else:"):
            before = f"{self._packed(run)} + " if run else ""
            source.add(f"out += {before}uvarint({name})")

    def _packed(self, run: list[tuple[str, str]]) -> str:
        formats = "".join(form for form, _ in run)
        name = f"pack_{formats}"
        if name not in self.source.namespace:
            self.source.bind(name, struct.Struct(">" + formats).pack)
        arguments = ", ".join(expression for form, expression in run if form != "x")
        return f"{name}({arguments})"

    def _value(self, wire_type: WireType, expression: str, where: str) -> None:
        match wire_type:
            case Fixed(format="16s"):
                uuid = self.source.name("u")
                self.source.add(f"{uuid} = {expression}")
                with self.source.block(f"if len({uuid}) != 16:"):
                    self.source.add(f"check_uuid({uuid}, {where!r})")
                self._run.append(("16s", uuid))
            case Fixed():
                # struct would write any object as a bool; as int8 it must be a number.
                self._run.append((wire_type.format.replace("?", "b"), expression))
            case Sized(name="records"):
                self._records(expression, where)
            case Sized():
                self._sized(wire_type, expression, where)
            case Array():
                self._array(wire_type, expression, where)
            case Struct():
                self._nested(wire_type, expression)

    def _struct(self, layout: Struct, name: str) -> None:
        cls = layout.cls
        for field in layout.fields:
            self._value(field.type, f"{name}.{field.name}", f"{cls.__name__}.{field.name}")
        if layout.tagged:
            self._tags(cls, layout.tagged, name)
        elif layout.flexible:
            self._run.append(("x", ""))  # no tagged fields: their count is 0
        self._flush()

    def _nested(self, layout: Struct, expression: str, null_mark: int = 255) -> None:
        """Write a structure, behind a mark if it may be null: 1, or `null_mark` (int8 -1)."""
        source = self.source
        name = source.name("o")
        source.add(f"{name} = {expression}")
        if not layout.nullable:
            self._struct(layout, name)
            return
        self._flush()
        with source.block(f"if {name} is None:"):
            source.add(f"out.append({null_mark})")
        with source.block("else:"):
            source.add("out.append(1)")
            self._struct(layout, name)

    def _tags(self, cls: type[Any], tagged: tuple[Field, ...], name: str) -> None:
        assert len(tagged) <= _TAGGED_MAX
        source = self.source
        present: list[tuple[Field, str, str]] = []
        for field in tagged:
            value = source.name("t")
            source.add(f"{value} = {name}.{field.name}")
            default = source.default_of(cls, field.name)
            if default.endswith("()"):
                default = source.bind(f"{default[:-2]}_made", source.namespace[default[:-2]]())
            test = f"{value} is not None" if default == "None" else f"{value} != {default}"
            if default.isidentifier() and default != "None":
                # A default object is shared, and to compare its fields costs more.
                test = f"{value} is not {default} and {test}"
            present.append((field, value, test))
        count = source.name("n")
        source.add(f"{count} = " + " + ".join(f"({test})" for _, _, test in present))
        self._run.append(("B", count))
        self._flush()
        with source.block(f"if {count}:"):
            for field, value, test in present:
                with source.block(f"if {test}:"):
                    self._tag(field, value, f"{cls.__name__}.{field.name}")

    def _tag(self, field: Field, value: str, where: str) -> None:
        source = self.source
        outer, was_inside = source.name("outer"), self._inside_tag
        self._inside_tag = True
        source.add(f"{outer} = out", "out = bytearray()")
        if isinstance(field.type, Struct):
            self._nested(field.type, value, null_mark=0)
        else:
            self._value(field.type, value, where)
        self._flush()
        source.add(f"{outer} += uvarint({field.tag}) + uvarint(len(out)) + out", f"out = {outer}")
        self._inside_tag = was_inside

    def _length(self, name: str, form: str) -> None:
        if self._compact:
            self._flush_length(name)
        else:
            self._run.append((form, name))
            self._flush()

    def _sized(self, wire_type: Sized, expression: str, where: str) -> None:
        source, is_string = self.source, wire_type.name == "string"
        value, size = source.name("b"), source.name("n")
        plus = " + 1" if self._compact else ""
        encode = ".encode()" if is_string else ""
        if wire_type.nullable:
            source.add(f"{value} = {expression}")
            with source.block(f"if {value} is None:"):
                source.add(f"{value} = b''", f"{size} = {0 if self._compact else -1}")
            with source.block("else:"):
                if is_string:
                    source.add(f"{value} = {value}.encode()")
                source.add(f"{size} = len({value}){plus}")
        else:
            source.add(f"{value} = {expression}{encode}", f"{size} = len({value}){plus}")
        if is_string:
            with source.block(f"if {size} > 127:"):
                if where.endswith(_FOR_PEOPLE):
                    source.add(f"{value} = cut_text({value})", f"{size} = len({value}){plus}")
                else:
                    source.add(f"check_string({value}, {where!r})")
        self._length(size, "h" if is_string else "i")
        source.add(f"out += {value}")

    def _records(self, expression: str, where: str) -> None:
        if self._inside_tag:
            raise TypeError(f"{where} is a tagged field: records cannot be one")
        source = self.source
        value, size = source.name("r"), source.name("n")
        source.add(f"{value} = {expression}")
        null, plus = (0, " + 1") if self._compact else (-1, "")
        source.add(f"{size} = {null} if {value} is None else len({value}){plus}")
        self._length(size, "i")
        with source.block(
            f"if {size} > {RECORDS_APART_BYTES if self._compact else RECORDS_APART_BYTES - 1}:"
        ):
            source.add("out = bytearray()", f"parts += ({value}, out)")
        with source.block(f"elif {value} is not None:"):
            source.add(f"out += {value}")

    def _array(self, wire_type: Array, expression: str, where: str) -> None:
        source, element = self.source, wire_type.element
        items, count = source.name("a"), source.name("n")
        null, plus = (0, " + 1") if self._compact else (-1, "")
        source.add(f"{items} = {expression}")
        if wire_type.nullable:
            source.add(f"{count} = {null} if {items} is None else len({items}){plus}")
            some = f"{items} or ()"
        else:
            source.add(f"{count} = len({items}){plus}")
            some = items
        self._length(count, "i")
        if isinstance(element, Fixed) and len(element.format) == 1:
            form = element.format.replace("?", "b")
            with source.block(f"if {items}:"):
                source.add(f"out += pack(f'>{{len({items})}}{form}', *{items})")
            return
        if isinstance(element, Struct) and not element.nullable:
            if _is_pair(element):
                with source.block(f"if type({items}) is PackedPairs:"):
                    source.add(f"out += {items}.encoded(is_flexible={element.flexible})")
                    source.add(f"{items} = ()")
            item = source.name("o")
            with source.block(f"for {item} in {some}:"):
                self._struct(element, item)
                self._step()
            return
        item = source.name("e")
        with source.block(f"for {item} in {some}:"):
            self._value(element, item, f"{where}[]")
            self._flush()
            self._step()

    def _step(self) -> None:
        if self._in_steps and not self._inside_tag:
            source = self.source
            with source.block(f"if not 0 <= len(out) - said < {STEP_BYTES}:"):
                source.add("yield max(0, len(out) - said)", "said = len(out)")


def _is_pair(layout: Struct) -> bool:
    """Whether a struct is two int64."""
    types = [field.type for field in layout.fields]
    return not layout.tagged and types == [Fixed("q", 8)] * 2


def encoder_filename(title: str) -> str:
    """Return the name under which tracebacks show the source."""
    return f"<encoder of {title}>"


def compile_encoder(layout: Struct, title: str, *, in_steps: bool = False) -> Any:
    """Return the function that `write_encoder` wrote."""
    name = encoder_filename(f"{title} in steps" if in_steps else title)
    return write_encoder(layout, title, in_steps=in_steps).compile(name, "encode")
