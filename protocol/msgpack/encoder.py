"""From a message class to the compiled function that makes a map of it, ready to be packed.

All fields of the version stand in the map, tagged ones too, under the class's names; None is nil.
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
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from protocol.kafka.schema import Array, Struct, WireType, read_layout
from protocol.kafka.source import Source

Encode: TypeAlias = Callable[[Any], dict[str, Any]]


def encoder(cls: type[Any], version: int) -> Encode:
    """Return the function that turns a message of `cls` into a map, at `version`."""
    source = Source()
    with source.block("def encode(m):"):
        source.add(f"return {_map(read_layout(cls, version), 'm', source)}")
    made: Encode = source.compile(f"<msgpack encoder of {cls.__name__} {version}>", "encode")
    return made


def _map(layout: Struct, item: str, source: Source) -> str:
    """Return the expression for a struct; what must be made before it is written to `source`."""
    pairs = [
        f"{field.name!r}: {_value(field.type, f'{item}.{field.name}', source)}"
        for field in (*layout.fields, *layout.tagged)
    ]
    return f"{{{', '.join(pairs)}}}"


def _value(wire_type: WireType, expression: str, source: Source) -> str:
    """Return the expression for a value; None and an empty list are taken as they are."""
    if isinstance(wire_type, Array) and isinstance(wire_type.element, Struct):
        made, items, item = source.name("v"), source.name("a"), source.name("e")
        source.add(f"{made} = {expression}")
        with source.block(f"if {made}:"):
            source.add(f"{items} = []")
            with source.block(f"for {item} in {made}:"):
                source.add(f"{items}.append({_map(wire_type.element, item, source)})")
            source.add(f"{made} = {items}")
        return made
    if isinstance(wire_type, Struct):
        made = source.name("v")
        source.add(f"{made} = {expression}")
        with source.block(f"if {made} is not None:"):
            source.add(f"{made} = {_map(wire_type, made, source)}")
        return made
    return expression
