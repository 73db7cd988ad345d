"""From a message class to the compiled function that makes a map of it, ready to be packed.

The map has all fields of the version, tagged ones too, by the class's names; None is nil.
Scalars are taken as they are, since msgpack packs them by their type; records and uuids are bytes,
and so bin. Made once per class and version, as straight-line source: a dictionary for each struct,
a loop for each list of them. `ProduceResponse` becomes::

    def encode(m):
        v1 = m.responses
        if v1:
            a1 = []
            for e1 in v1:
                v2 = e1.partition_responses
                ...
                a1.append({'topic_id': e1.topic_id, 'partition_responses': v2})
            v1 = a1
        ...
        return {'responses': v1, 'throttle_time_ms': m.throttle_time_ms, ...}

A large answer is made and packed in steps: `step_encoder` makes the map as a generator, and
`packed_in_steps` packs it a few values at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, TypeAlias

import msgpack

from protocol.kafka.schema import Array, Struct, WireType, read_layout
from protocol.kafka.source import GeneratedCode

Encode: TypeAlias = Callable[[Any], dict[str, Any]]
StepEncode: TypeAlias = Callable[[Any], Generator[int, None, dict[str, Any]]]

# Elements of a list between two steps. Lists lie in lists, so a step may have this much squared.
ELEMENTS_A_STEP: Final = 16


def encoder(cls: type[Any], version: int) -> Encode:
    """Return the function that turns a message of `cls` into a map, at `version`."""
    made: Encode = _compile(cls, version, "", [])
    return made


def step_encoder(cls: type[Any], version: int) -> StepEncode:
    """Return what `encoder` does as a generator: it yields 0 within long lists."""
    after_element = [f"if not len({{items}}) % {ELEMENTS_A_STEP}:", "    yield 0"]
    made: StepEncode = _compile(cls, version, " in steps", after_element)
    return made


def _compile(cls: type[Any], version: int, how: str, after_element: list[str]) -> Any:
    source = GeneratedCode()
    with source.block("def encode(m):"):
        if after_element:
            source.add("yield 0")  # a message may have no list
        source.add(f"return {_map(read_layout(cls, version), 'm', source, after_element)}")
    return source.compile(f"<msgpack encoder of {cls.__name__} {version}{how}>", "encode")


def packed_in_steps(value: list[Any]) -> Generator[int, None, bytearray]:
    """Return `value` packed, yielding by how many bytes; raises as `Packer.pack` does.

    Lists are packed by their elements, and maps in them by their values, as far down as there are
    long lists.
    """
    packer = msgpack.Packer()
    packed = bytearray()
    said = 0
    for count, piece in enumerate(_pieces(packer, value), 1):
        packed += piece
        if not count % ELEMENTS_A_STEP:
            yield len(packed) - said
            said = len(packed)
    return packed


def _pieces(packer: msgpack.Packer, value: Any) -> Generator[bytes, None, None]:
    if type(value) is list and (len(value) > ELEMENTS_A_STEP or any(map(_has_lists, value))):
        yield packer.pack_array_header(len(value))
        for element in value:
            yield from _pieces(packer, element)
    elif _has_lists(value):
        yield packer.pack_map_header(len(value))
        for name, of in value.items():
            yield packer.pack(name)
            yield from _pieces(packer, of)
    else:
        yield packer.pack(value)


def _has_lists(value: Any) -> bool:
    """Whether it is a map with a list that is long, or that may have long ones below."""
    return type(value) is dict and any(
        type(of) is list and (len(of) > ELEMENTS_A_STEP or any(type(one) is dict for one in of[:1]))
        for of in value.values()
    )


def _map(layout: Struct, item: str, source: GeneratedCode, after_element: list[str]) -> str:
    """Return the expression for a struct; what must be made before it is written to `source`."""
    pairs = [
        f"{field.name!r}: {_value(field.type, f'{item}.{field.name}', source, after_element)}"
        for field in (*layout.fields, *layout.tagged)
    ]
    return f"{{{', '.join(pairs)}}}"


def _value(
    wire_type: WireType, expression: str, source: GeneratedCode, after_element: list[str]
) -> str:
    """Return the expression for a value; None and an empty list are taken as they are."""
    if isinstance(wire_type, Array) and isinstance(wire_type.element, Struct):
        made, items, item = source.name("v"), source.name("a"), source.name("e")
        source.add(f"{made} = {expression}")
        with source.block(f"if {made}:"):
            source.add(f"{items} = []")
            with source.block(f"for {item} in {made}:"):
                made_item = _map(wire_type.element, item, source, after_element)
                source.add(f"{items}.append({made_item})")
                source.add(*(line.format(items=items) for line in after_element))
            source.add(f"{made} = {items}")
        return made
    if isinstance(wire_type, Struct):
        made = source.name("v")
        source.add(f"{made} = {expression}")
        with source.block(f"if {made} is not None:"):
            source.add(f"{made} = {_map(wire_type, made, source, after_element)}")
        return made
    return expression
