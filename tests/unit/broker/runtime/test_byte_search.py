"""Bytes are found as `bytes.find` finds them, and other threads run meanwhile."""

import random

import pytest

from broker.runtime import byte_search
from broker.runtime.byte_search import has_bytes


@pytest.mark.parametrize("library", ["memmem", "none"])
def test_it_finds_what_python_finds(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if library == "none":
        monkeypatch.setattr(byte_search, "_memmem", None)
    source = random.Random(1)
    for _ in range(3_000):
        found = bytes(source.choices(b"\x00ab", k=source.randrange(40)))
        needle = bytes(source.choices(b"\x00ab", k=source.randrange(6)))
        begin = source.randint(0, len(found))
        end = source.randint(begin, len(found))
        assert has_bytes(found, needle, begin, end) == (needle in found[begin:end])


def test_a_range_beyond_the_bytes_is_a_defect() -> None:
    with pytest.raises(AssertionError):
        has_bytes(b"abc", b"c", 1, 4)
