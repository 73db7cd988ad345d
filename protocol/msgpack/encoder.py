"""From a message class to the function that makes a map of it, ready to be packed.

All fields of the version stand in the map, tagged ones too, under the class's names; None is nil.
The function is one Python expression, made once per class and version: lists and nested maps are
comprehensions and calls, scalars are taken as they are, since msgpack packs them by their type.
Records and uuids are bytes, and so bin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from protocol.kafka.schema import Array, Struct, WireType, read_layout

Encode: TypeAlias = Callable[[Any], dict[str, Any]]


def encoder(cls: type[Any], version: int) -> Encode:
    """Return the function that turns a message of `cls` into a map, at `version`."""
    return _struct(read_layout(cls, version))


def _struct(layout: Struct) -> Encode:
    namespace: dict[str, Any] = {}
    pairs = []
    for field in (*layout.fields, *layout.tagged):
        expression = _value(field.type, f"m.{field.name}", namespace)
        if expression != f"m.{field.name}":
            expression = f"None if m.{field.name} is None else {expression}"
        pairs.append(f"{field.name!r}: {expression}")
    source = f"lambda m: {{{', '.join(pairs)}}}"
    made: Encode = eval(source, namespace)  # noqa: S307 - names of ours
    return made


def _value(wire_type: WireType, expression: str, namespace: dict[str, Any]) -> str:
    """Return the expression for a value; what it calls is put into `namespace`."""
    if isinstance(wire_type, Array):
        element = _value(wire_type.element, "e", namespace)
        return expression if element == "e" else f"[{element} for e in {expression}]"
    if isinstance(wire_type, Struct):
        name = f"f{len(namespace)}"
        namespace[name] = _struct(wire_type)
        return f"{name}({expression})"
    return expression
