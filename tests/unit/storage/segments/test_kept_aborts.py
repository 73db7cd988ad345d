"""What look-ups of aborted transactions have found: kept for others, within bounds."""

import pytest

from storage.segments import kept_aborts
from storage.segments.kept_aborts import OWN_BYTES, KeptAborts


def key(number):
    return (0, number, number + 1)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(kept_aborts, "KEPT_BYTES_MAX", 3 * (OWN_BYTES + 10))
    monkeypatch.setattr(kept_aborts, "ONE_BYTES_MAX", 20)


def test_what_is_kept_is_found_by_its_range():
    kept = KeptAborts()
    kept.keep(key(1), b"one")
    assert (kept.get(key(1)), kept.get(key(2))) == (b"one", None)


def test_the_oldest_make_room():
    kept = KeptAborts()
    for number in range(5):
        kept.keep(key(number), bytes(10))
        assert kept.size_bytes <= kept_aborts.KEPT_BYTES_MAX
    assert [kept.get(key(number)) is not None for number in range(5)] == [False] * 2 + [True] * 3


def test_the_same_is_counted_once():
    kept = KeptAborts()
    for _ in range(9):
        kept.keep(key(1), b"one")
    assert kept.size_bytes == OWN_BYTES + 3


def test_one_that_is_large_is_not_kept():
    kept = KeptAborts()
    kept.keep(key(1), bytes(21))
    assert (kept.get(key(1)), kept.size_bytes) == (None, 0)
