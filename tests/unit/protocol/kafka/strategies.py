"""Hypothesis strategies for any message class, read from its layout."""

from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from protocol.kafka.schema import Array, Fixed, Sized, Struct, WireType, read_layout
from tests.support.thorough import examples

MANY = settings(max_examples=examples(40))
FEW = settings(MANY, max_examples=examples(6))

SIGNED = {"b": 8, "h": 16, "i": 32, "q": 64}
UNSIGNED = {"H": 16, "I": 32}
FIXED: dict[str, st.SearchStrategy[Any]] = {
    "?": st.booleans(),
    "16s": st.binary(min_size=16, max_size=16),
    "d": st.floats(allow_nan=False),
    **{form: st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for form, bits in SIGNED.items()},
    **{form: st.integers(0, (1 << bits) - 1) for form, bits in UNSIGNED.items()},
}
SIZED: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=20) | st.text(alphabet="a", min_size=126, max_size=130),
    "bytes": st.binary(max_size=20) | st.binary(min_size=126, max_size=130),
    "records": st.binary(max_size=20) | st.sampled_from([bytes(1023), bytes(1024), bytes(20_000)]),
}


def messages(cls: type[Any], version: int) -> st.SearchStrategy[Any]:
    """Draw any message of this version; fields that it lacks have their defaults."""
    return values(read_layout(cls, version))


def values(wire_type: WireType) -> st.SearchStrategy[Any]:
    match wire_type:
        case Fixed():
            return FIXED[wire_type.format]
        case Sized():
            found = SIZED[wire_type.name]
        case Array():
            found = st.lists(values(wire_type.element), max_size=3)
        case Struct():
            defaults = {field.name: field for field in fields(wire_type.cls)}
            present = {field.name: values(field.type) for field in wire_type.fields}
            for field in wire_type.tagged:
                declared = defaults[field.name]
                default = (
                    declared.default_factory()
                    if declared.default_factory is not MISSING
                    else declared.default
                )
                present[field.name] = st.just(default) | values(field.type)
            found = st.builds(wire_type.cls, **present)
    return st.none() | found if wire_type.nullable else found


def structs_of(wire_type: WireType) -> Iterator[Struct]:
    """Yield every struct in a layout, including the layout itself."""
    if isinstance(wire_type, Array):
        yield from structs_of(wire_type.element)
    elif isinstance(wire_type, Struct):
        yield wire_type
        for field in wire_type.fields + wire_type.tagged:
            yield from structs_of(field.type)
