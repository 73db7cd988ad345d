"""The page of a report: complete, well-formed, and loading nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from test_batch_tally import records, tally_of

from pyspark_barnabas.jobs.batch_tally import Tally
from pyspark_barnabas.jobs.page import bars, histogram, nice, over_time, page, time_text
from pyspark_barnabas.jobs.report import figures
from pyspark_barnabas.wire.encode import build_batch

MINUTE = 60_000
EMPTY = {"meta", "rect", "line", "polygon"}


class Checker(HTMLParser):
    """Follows the tags of a page and fails if one is not closed."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def facts(**more):
    tallies = [
        tally_of(build_batch(records(1, 2, 70_000)), topic="a<b>"),
        tally_of(build_batch(records(5), codec=4), topic="a<b>", partition=1),
    ]
    given = {
        "keys": {"distinct": 2, "without_key": 1, "records": 4, "top": [
            {"topic": "a<b>", "key": "<script>alert(1)</script>", "records": 3, "share": 0.75}]},
        "groups": [{"group": "g&h", "topic": "a<b>", "lag": 7, "lag_max": 5, "partitions": 2}],
        "source": "host:9092", "written": "2026-11-22 12:00 UTC",
    }  # fmt: skip
    return figures(tallies) | given | more


def words_of(html):
    checker = Checker()
    checker.feed(html)
    assert checker.open == []
    return checker.text


def text_of(html):
    return " ".join(words_of(html))


def test_it_has_every_figure_and_loads_nothing():
    html = page(facts())
    text = text_of(html)
    assert {"a<b>-1", "g&h: a<b>", "zstd", "Records per minute", "Bytes per minute"} <= {
        words.split(" (")[0] for words in words_of(html)
    }
    for words in ("2 distinct keys", "<script>alert(1)</script>", "host:9092"):
        assert words in text
    assert "<script" not in html
    assert re.findall(r"https?:|src=|href=|@import|url\(", html) == []


@pytest.mark.parametrize(
    ("more", "words"), [({"keys": None}, "Codecs"), ({"groups": []}, "No group has committed")]
)
def test_what_was_not_asked_for_is_not_there(more, words):
    text = text_of(page(facts(**more)))
    assert ("The most frequent keys" in text) == ("keys" not in more)
    assert words in text


def test_a_topic_without_records_has_a_page():
    empty = figures([Tally("t", 0)])
    more = {name: facts()[name] for name in ("groups", "source", "written")}
    keys = {"distinct": 0, "without_key": 0, "records": 0, "top": []}
    text = text_of(page(empty | more | {"keys": keys}))
    assert "Records per minute" not in text
    assert "0 distinct keys" in text


# -- plots -----------------------------------------------------------------------------------------


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
    svg = histogram("x", [("1 KiB", 100), ("2 KiB", 50)], "batches")
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
