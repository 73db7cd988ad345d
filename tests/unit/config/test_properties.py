"""Java's properties format: lines, separators, continuations, escapes."""

import pytest

from config.errors import ConfigError
from config.properties import decode, parse_properties

CASES = [
    ("", []),
    ("\n\n  \t\n", []),
    ("# a=1\n! b=2\n  # c=3", []),
    ("a=1", [("a", "1", 1)]),
    ("a = 1", [("a", "1", 1)]),
    ("a: 1", [("a", "1", 1)]),
    ("a 1", [("a", "1", 1)]),
    ("a\t=\t1", [("a", "1", 1)]),
    ("a", [("a", "", 1)]),
    ("a=", [("a", "", 1)]),
    ("=1", [("", "1", 1)]),
    ("a==1", [("a", "=1", 1)]),
    ("a=b=c", [("a", "b=c", 1)]),
    ("a = 1 ", [("a", "1 ", 1)]),
    ("a=#1", [("a", "#1", 1)]),
    ("listeners=A://:1,B://:2", [("listeners", "A://:1,B://:2", 1)]),
    ("a=1\r\nb=2\rc=3", [("a", "1", 1), ("b", "2", 2), ("c", "3", 3)]),
    ("a=1,\\\n   2,\\\n   3\nb=4", [("a", "1,2,3", 1), ("b", "4", 4)]),
    ("a=1\\\\\nb=2", [("a", "1\\", 1), ("b", "2", 2)]),  # an even number does not join
    ("a=1\\", [("a", "1", 1)]),
    ("a=1\\\n# not a comment", [("a", "1# not a comment", 1)]),
    ("a\\ b=1", [("a b", "1", 1)]),
    ("a\\=b=1", [("a=b", "1", 1)]),
    ("a=\\t\\n\\r\\f\\q", [("a", "\t\n\r\fq", 1)]),
    ("a=\\u00e9", [("a", "é", 1)]),
    ("a=C:\\\\data", [("a", "C:\\data", 1)]),
    ("a=1\na=2", [("a", "1", 1), ("a", "2", 2)]),
]


@pytest.mark.parametrize(("text", "entries"), CASES)
def test_a_text_is_parsed_as_in_java(text, entries):
    assert [tuple(entry) for entry in parse_properties(text)] == entries


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uzzzz", "\\u=1", "a=1\nb=\\u+123"])
def test_a_malformed_escape_is_refused_with_its_place(text):
    with pytest.raises(ConfigError) as caught:
        parse_properties(text, "f")
    assert caught.value.source == f"f:{text.count(chr(10)) + 1}"


def test_bytes_are_utf_8_or_else_latin_1():
    assert decode("é".encode()) == "é"
    assert decode(b"\xef\xbb\xbfa") == "a"
    assert decode(b"\xe9") == "é"
