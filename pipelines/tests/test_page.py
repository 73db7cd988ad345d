"""The page of a report: whole, well-formed, and loading nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from test_batch_tally import records, tally_of

from pyspark_barnabas.jobs.batch_tally import Tally
from pyspark_barnabas.jobs.page import page
from pyspark_barnabas.jobs.report import figures
from pyspark_barnabas.wire.encode import build_batch

EMPTY = {"meta", "rect", "line", "polygon"}


class Checker(HTMLParser):
    """Follows the tags of a page, and fails where they do not close."""

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
        "groups_note": "", "source": "host:9092", "written": "2026-11-22 12:00 UTC",
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
    "more", [{"keys": None}, {"groups": []}, {"groups": None, "groups_note": "Nobody asked"}]
)
def test_what_was_not_asked_for_is_not_there(more):
    text = text_of(page(facts(**more)))
    assert ("The most frequent keys" in text) == ("keys" not in more)
    assert more.get("groups_note", "") in text


def test_a_topic_without_records_has_a_page():
    empty = figures([Tally("t", 0)])
    more = {name: facts()[name] for name in ("groups", "groups_note", "source", "written")}
    keys = {"distinct": 0, "without_key": 0, "records": 0, "top": []}
    text = text_of(page(empty | more | {"keys": keys}))
    assert "Records per minute" not in text
    assert "0 distinct keys" in text
