"""Kinds of values, from text and to text, as Kafka's ConfigDef.parseType reads them.

Sizes are plain integers (no `1k`, no `1_000`), booleans are true or false in any case, lists are
separated by commas. Numbers are read as Java's parsers read them: an integer in any decimal digits
of Unicode's first plane; a double in ASCII only, but also with a suffix (`1d`) or in hexadecimal
(`0x1p3`). tests/golden/kafka_values.jsonl holds the results of Kafka's own parser. None means "not
set" and has no text. The numbers of the kinds are those of DescribeConfigsResponse.ConfigType.
"""

from __future__ import annotations

import enum
import math
import re
import unicodedata

Parsed = bool | int | float | str | tuple[str, ...]
Value = Parsed | None

# What String.trim takes away, and what Java's regular expressions take for a blank.
_TRIMMED = "".join(map(chr, range(0x21)))
_COMMA = re.compile(r"[ \t\n\v\f\r]*,[ \t\n\v\f\r]*")
_DOUBLE = re.compile(
    r"""(?P<sign>[+-]?)(?:(?P<name>NaN|Infinity)
        |(?P<decimal>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?
        |(?P<hexadecimal>0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?)
        \Z""",
    re.VERBOSE,
)
_PLANE_MAX = 0xFFFF  # Integer.parseInt asks each UTF-16 unit whether it is a digit
_DIGITS_MAX = 19  # of a number of 64 bits


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
    text = text.strip(_TRIMMED)
    if kind is Kind.BOOLEAN:
        for word in ("true", "false"):
            if len(text) == len(word) and text.upper() == word.upper():
                return word == "true"
        raise ValueError(f"not {MEANINGS[kind]}")
    if kind in INTEGER_BITS:
        return _parse_integer(kind, text)
    if kind is Kind.DOUBLE:
        return _parse_double(text)
    if kind is Kind.LIST:
        return tuple(_COMMA.split(text)) if text else ()
    return text


def _parse_integer(kind: Kind, text: str) -> int:
    """Read a number as Integer.parseInt does, by its kind's bits."""
    bound = 1 << (INTEGER_BITS[kind] - 1)
    digits = text[1:] if text[:1] in ("+", "-") else text
    if digits and digits.isdecimal() and ord(max(digits)) <= _PLANE_MAX:
        digits = "".join(str(unicodedata.decimal(digit)) for digit in digits).lstrip("0") or "0"
        if len(digits) <= _DIGITS_MAX:
            value = -int(digits) if text[0] == "-" else int(digits)
            if -bound <= value < bound:
                return value
    raise ValueError(f"not {MEANINGS[kind]}")


def _parse_double(text: str) -> float:
    """Read a number as Double.parseDouble does."""
    found = _DOUBLE.match(text)
    if found is None:
        raise ValueError(f"not {MEANINGS[Kind.DOUBLE]}")
    if found["hexadecimal"]:
        try:
            value = float.fromhex(found["hexadecimal"])
        except OverflowError:
            value = math.inf
    else:
        value = float(found["name"] or found["decimal"])
    return -value if found["sign"] == "-" else value


def text_of(value: Value) -> str | None:
    """Return the text of `value` as Kafka shows it, or None for "not set"."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return _double_text(value)
    return str(value)


def _double_text(value: float) -> str:
    """Write a number as Double.toString does."""
    if not math.isfinite(value):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = repr(value)
        return text if "." in text else f"{text}.0"
    from decimal import Decimal  # seldom needed, and not at every start

    mantissa, _, exponent = f"{Decimal(repr(value)):e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}{'' if '.' in mantissa else '.0'}E{int(exponent)}"
