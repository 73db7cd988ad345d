"""The small texts at the end of a run."""

from __future__ import annotations

import pytest

from pyspark_barnabas.jobs.summary import bytes_text, plural, table


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (3 << 40, "3.0 TiB"),
        (5 << 60, "5120.0 PiB"),
    ],
)
def test_bytes_have_a_unit(count, text):
    assert bytes_text(count) == text


def test_one_file_two_batches():
    assert [plural(1, "file"), plural(2000, "batch")] == ["1 file", "2,000 batches"]


def test_numbers_stand_to_the_right_and_nothing_is_blank():
    rows = [("a", 1000, 0.5, None), ("long", 2, 12.346, None)]
    assert table(["name", "n", "share", "x"], rows) == [
        "name      n  share  x",
        "a     1,000   0.50",
        "long      2  12.35",
    ]
    assert table(["a"], []) == ["a"]
