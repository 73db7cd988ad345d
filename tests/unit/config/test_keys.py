"""Declarations, and the parsing of a key's text under its own name or a synonym."""

from dataclasses import dataclass

import pytest

from config.checks import at_least
from config.errors import ConfigError
from config.keys import HOUR_MS, Synonym, key, keys_of, read_value
from config.values import Kind

HOURS = Synonym("old.hours", HOUR_MS, Kind.INT, lowest=1)
PLAIN = Synonym("old.ms")


@dataclass(frozen=True, slots=True)
class Declared:
    other: int = 3
    age_ms: int = key(
        "age.ms", 5, Kind.LONG, unit="ms", check=at_least(-1), synonyms=(PLAIN, HOURS), doc="Age."
    )
    secret: str = key("secret", "", Kind.PASSWORD, sensitive=True, doc="A secret.")
    count: int = key("count", 1, Kind.INT, sensitive=True, doc="A hidden count.")


KEYS = keys_of(Declared)


def test_keys_are_the_declared_fields_in_order():
    assert list(KEYS) == ["age.ms", "secret", "count"]
    assert KEYS["age.ms"].attribute == "age_ms"
    assert Declared().age_ms == KEYS["age.ms"].default == 5
    assert keys_of(Declared) is KEYS


@pytest.mark.parametrize(
    ("text", "synonym", "value"),
    [
        ("7", None, 7),
        ("-1", None, -1),
        ("7", PLAIN, 7),
        ("2", HOURS, 2 * HOUR_MS),
        ("-1", HOURS, -1),
        ("-7", HOURS, -1),  # Kafka: any negative age means "no limit"
        ("2147483647", HOURS, 2147483647 * HOUR_MS),
    ],
)
def test_a_value_is_read_and_converted(text, synonym, value):
    assert read_value(KEYS["age.ms"], text, "f:1", synonym) == value


@pytest.mark.parametrize(
    ("text", "synonym", "name", "allowed"),
    [
        ("-2", None, "age.ms", "-1 or more"),
        ("x", None, "age.ms", "-1 or more"),
        ("-2", PLAIN, "old.ms", "-1 or more"),
        ("0", HOURS, "old.hours", "1 or more, or -1 for no limit"),
        ("2147483648", HOURS, "old.hours", "-1 or more"),  # the synonym's own kind has 32 bits
    ],
)
def test_a_refusal_names_the_key_that_was_given(text, synonym, name, allowed):
    with pytest.raises(ConfigError) as caught:
        read_value(KEYS["age.ms"], text, "f:1", synonym)
    error = caught.value
    assert (error.key, error.value, error.source, error.allowed) == (name, text, "f:1", allowed)


def test_a_secret_is_not_shown():
    with pytest.raises(ConfigError) as caught:
        read_value(KEYS["count"], "hunter2", "f:1")
    assert "hunter2" not in str(caught.value)
