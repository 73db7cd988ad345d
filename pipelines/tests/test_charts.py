"""Plots: well-formed SVG that says its numbers, whatever the names in it are."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from pyspark_barnabas.jobs.charts import bars, columns, nice, over_time, time_text

MINUTE = 60_000


def titles(svg):
    return [one.text for one in ElementTree.fromstring(svg).iter("title")]


def test_intervals_without_records_are_empty_and_not_left_out():
    svg = over_time("x", [0, 3 * MINUTE], [5, 20], MINUTE, str)
    assert titles(svg) == [
        "1970-01-01 00:00 UTC: 5.0",
        "1970-01-01 00:01 UTC: 0.0",
        "1970-01-01 00:02 UTC: 0.0",
        "1970-01-01 00:03 UTC: 20.0",
    ]
    assert ">00:00</text>" in svg
    assert ">20.0</text>" in svg  # the top of the axis


def test_a_long_time_is_put_together_to_means():
    days = 400
    times = [n * MINUTE for n in range(0, days * 1440, 60)]
    svg = over_time("x", times, [60] * len(times), MINUTE, lambda value: f"{value:.2f}")
    assert len(titles(svg)) <= 360
    assert "1970-01-01 00:00 UTC: 1.0" in titles(svg)[0]
    assert ">1970-01-01</text>" in svg


def test_a_name_cannot_become_markup():
    svg = bars('"><script>', [("<b>&", 3, "3"), ("n" * 90, 0, "0")])
    assert titles(svg) == ["<b>&: 3", "n" * 90 + ": 0"]
    assert "<script" not in svg
    assert "n" * 29 + "…" in svg
    assert ElementTree.fromstring(bars("nothing", [])) is not None


def test_columns_are_as_tall_as_they_are_many():
    svg = columns("x", [("1 KiB", 100), ("2 KiB", 50)], "batches")
    assert titles(svg) == ["1 KiB: 100 batches", "2 KiB: 50 batches"]
    tall, half = (float(found) for found in re.findall(r'class="bar".*? height="([\d.]+)"', svg))
    assert tall == 2 * half


@pytest.mark.parametrize(
    ("value", "base", "top"),
    [(0, 1000, 1), (7, 1000, 10), (1, 1000, 1), (1200, 1000, 2000), (5e6, 1000, 5e6),
     (1500, 1024, 2048), (700 * 1024, 1024, 1000 * 1024), (3 << 20, 1024, 5 << 20)],
)  # fmt: skip
def test_an_axis_ends_at_a_round_number(value, base, top):
    assert nice(value, base) == top


def test_a_time_that_no_calendar_has():
    assert time_text(1_763_800_000_000) == "2025-11-22 08:26 UTC"
    assert time_text(1 << 62) == f"{1 << 62} ms"
