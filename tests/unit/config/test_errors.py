"""A refusal states the key, value, origin and allowed values, and omits unknown parts."""

import pytest

from config.errors import ConfigError

CASES = [
    ({}, "bad"),
    ({"key": "a", "value": "1"}, "a=1: bad"),
    ({"key": "a", "value": "1", "allowed": "2 or more"}, "a=1: bad; allowed: 2 or more"),
    ({"key": "a", "value": "1", "source": "f:3"}, "a=1: bad (from f:3)"),
]


@pytest.mark.parametrize(("parts", "text"), CASES)
def test_the_text_contains_the_known_parts(parts, text):
    error = ConfigError("bad", **parts)
    assert str(error) == text
    assert error.key == parts.get("key", "")
