"""Kinds of values, from text and to text, as Kafka's ConfigDef.parseType reads them.

Sizes are plain integers (no `1k`, no `1_000`), booleans are true or false in any case, lists are
divided by commas. A None value is "not set"; it has no text. The numbers of the kinds are those of
DescribeConfigsResponse.ConfigType, so that they need no second table.
"""

from __future__ import annotations

import enum
import re

Parsed = bool | int | float | str | tuple[str, ...]
Value = Parsed | None

INTEGER = re.compile(r"[+-]?[0-9]+\Z")


class Kind(enum.IntEnum):
    """What a key's text means. On the wire: never renumber."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


INTEGER_BITS = {Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}

MEANINGS = {
    Kind.BOOLEAN: "true or false",
    Kind.STRING: "text",
    Kind.SHORT: "a whole number of 16 bits",
    Kind.INT: "a whole number of 32 bits",
    Kind.LONG: "a whole number of 64 bits",
    Kind.DOUBLE: "a number",
    Kind.LIST: "a list divided by commas",
    Kind.CLASS: "the name of a class",
    Kind.PASSWORD: "text, never shown",
}


def parse(kind: Kind, text: str) -> Parsed:
    """Return the value that `text` says; ValueError, with the kind's meaning, if it says none."""
    text = text.strip()
    if kind is Kind.BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise ValueError(f"not {MEANINGS[kind]}")
        return text.lower() == "true"
    if kind in INTEGER_BITS:
        return _parse_integer(kind, text)
    if kind is Kind.DOUBLE:
        try:
            return float(text)
        except ValueError:
            raise ValueError(f"not {MEANINGS[kind]}") from None
    if kind is Kind.LIST:
        return tuple(item.strip() for item in text.split(",")) if text else ()
    return text


def _parse_integer(kind: Kind, text: str) -> int:
    bound = 1 << (INTEGER_BITS[kind] - 1)
    if not INTEGER.match(text) or len(text) > 20 or not -bound <= int(text) < bound:
        raise ValueError(f"not {MEANINGS[kind]}")
    return int(text)


def text_of(value: Value) -> str | None:
    """Return the text of `value` as Kafka shows it, or None for "not set"."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return repr(value).upper().replace("E+", "E")
    return str(value)
