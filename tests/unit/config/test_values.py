"""Texts to values and back, as Kafka reads them (tried against its ConfigDef)."""

import pytest

from config.values import Kind, parse, text_of

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
    (Kind.INT, "٣"),  # a digit to int(), not to Kafka
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
def test_a_text_is_read(kind, text, value):
    assert parse(kind, text) == value
    assert type(parse(kind, text)) is type(value)


@pytest.mark.parametrize(("kind", "text"), REFUSED)
def test_a_text_that_says_no_value_is_refused(kind, text):
    with pytest.raises(ValueError, match=r"^not "):
        parse(kind, text)


@pytest.mark.parametrize(("value", "text"), SHOWN)
def test_a_value_is_shown_as_kafka_shows_it(value, text):
    assert text_of(value) == text
