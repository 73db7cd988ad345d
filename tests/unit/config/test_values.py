"""Texts to values and back, as Kafka parses them (compared with its ConfigDef)."""

import json
from pathlib import Path

import pytest

from config.values import Kind, parse, text_of

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka_values.jsonl"
ROWS = [json.loads(line) for line in GOLDEN.read_text("ascii").splitlines()]
GOLDEN_KINDS = ("boolean", "string", "int", "short", "long", "double", "list", "password")
READ = [
    (Kind.BOOLEAN, "TRUE", True),
    (Kind.BOOLEAN, " false ", False),
    (Kind.INT, "+2000000", 2000000),
    (Kind.INT, " -1 ", -1),
    (Kind.INT, "2147483647", 2147483647),
    (Kind.LONG, "9223372036854775807", 9223372036854775807),
    (Kind.SHORT, "-32768", -32768),
    (Kind.DOUBLE, "0.5", 0.5),
    (Kind.LIST, "", ()),
    (Kind.LIST, "compact , delete", ("compact", "delete")),
    (Kind.STRING, " a b ", "a b"),
    (Kind.PASSWORD, "x", "x"),
]
REFUSED = [
    (Kind.BOOLEAN, "yes"),
    (Kind.BOOLEAN, ""),
    (Kind.INT, ""),
    (Kind.INT, "1_000"),
    (Kind.INT, "1k"),
    (Kind.INT, "1.0"),
    (Kind.INT, "0x10"),
    (Kind.INT, "²"),  # a digit, but not a decimal one
    (Kind.INT, "2147483648"),
    (Kind.INT, "-2147483649"),
    (Kind.INT, "9" * 5000),  # int() itself refuses so many digits
    (Kind.LONG, "9223372036854775808"),
    (Kind.SHORT, "32768"),
    (Kind.DOUBLE, "0x1"),
    (Kind.DOUBLE, "half"),
]
SHOWN = [
    (None, None),
    (True, "true"),
    (False, "false"),
    (7, "7"),
    (("a", "b"), "a,b"),
    ((), ""),
    (0.5, "0.5"),
    (1.7976931348623157e308, "1.7976931348623157E308"),
    ("x", "x"),
]


@pytest.mark.parametrize(("kind", "text", "value"), READ)
def test_a_text_is_parsed(kind, text, value):
    assert parse(kind, text) == value
    assert type(parse(kind, text)) is type(value)


@pytest.mark.parametrize(("kind", "text"), REFUSED)
def test_an_invalid_text_is_refused(kind, text):
    with pytest.raises(ValueError, match=r"^not "):
        parse(kind, text)


@pytest.mark.parametrize(("value", "text"), SHOWN)
def test_a_value_is_shown_as_kafka_shows_it(value, text):
    assert text_of(value) == text


@pytest.mark.parametrize("name", GOLDEN_KINDS)
def test_each_text_is_parsed_as_by_kafka(name):
    """Compares with ConfigDef.parseType of Kafka 4.3.0; a kind that refuses the text is absent."""
    kind = Kind[name.upper()]
    said = {row["text"]: row.get(name) for row in ROWS}
    found = {}
    for text in said:
        try:
            value = parse(kind, text)
        except ValueError:
            found[text] = None
        else:
            shown = text_of(value) if kind is Kind.DOUBLE else value
            found[text] = list(shown) if isinstance(shown, tuple) else shown
    assert found == said
