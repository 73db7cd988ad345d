"""Sizes, counts and durations as people read them."""

import pytest

from client.units import count_text, duration_text, size_text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"),
     (1.98, "2 B"), (5 << 60, "5120.0 PiB")],
)  # fmt: skip
def test_sizes_have_one_decimal(count: float, text: str) -> None:
    assert size_text(count) == text


@pytest.mark.parametrize(("count", "text"), [(7, "7"), (1.98, "1.98"), (2760, "2.76 k")])
def test_counts_have_three_digits(count: float, text: str) -> None:
    assert count_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (3_700, "1 h 1 min"), (180_000, "2 d 2 h")],
)
def test_durations_have_their_two_largest_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
