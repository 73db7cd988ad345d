"""The partition of a group. test_groups.py tests with real logs that its records are there."""

import pytest

from broker.groups.group_log import java_hash, java_length, partition_of

# By Java's String.hashCode (jshell).
HASHES = [
    ("", 0),
    ("a", 97),
    ("hello", 99162322),
    ("polygenelubricants", -(2**31)),
    ("😀", 1772899),
]


@pytest.mark.parametrize(("text", "value"), HASHES)
def test_the_hash_is_javas(text, value):
    assert java_hash(text) == value


def by_the_book(text: str) -> int:
    """The definition: the sum of unit * 31^(n-1-i), as a signed int of 32 bits."""
    units = text.encode("utf-16-be")
    pairs = [units[at] << 8 | units[at + 1] for at in range(0, len(units), 2)]
    value = sum(unit * 31 ** (len(pairs) - 1 - at) for at, unit in enumerate(pairs)) % 2**32
    return value - 2**32 if value >= 2**31 else value


@pytest.mark.parametrize("text", ["connect-cluster", "grün", "😀ü", "x" * 300, "schema-registry"])
def test_the_hash_is_its_definition(text):
    assert java_hash(text) == by_the_book(text)


@pytest.mark.parametrize(
    ("text", "count", "number"),
    [("a", 50, 47), ("polygenelubricants", 50, 0), ("hello", 1, 0), ("hello", 50, 22)],
)
def test_the_partition_is_kafkas(text, count, number):
    assert partition_of(text, count) == number


@pytest.mark.parametrize(("text", "length"), [("", 0), ("abc", 3), ("grün", 4), ("😀", 2)])
def test_the_length_is_javas(text, length):
    assert java_length(text) == length
