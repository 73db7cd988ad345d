"""Offset maps, limits, splits and places, with a cluster that answers from a table."""

from __future__ import annotations

import pytest

from pyspark_barnabas.offsets import (
    Range,
    batch_ranges,
    from_json,
    limited,
    partitions_of,
    split,
    to_json,
)
from pyspark_barnabas.options import source_options
from pyspark_barnabas.wire.errors import BadOption, DataLost, UnknownTopic
from pyspark_barnabas.wire.protocol import EARLIEST, LATEST

A, B = ("t", 0), ("t", 1)
HELD = {A: (10, 100), B: (0, 50)}


class Table:
    """A cluster with one topic; a record at every offset, a millisecond each."""

    def __init__(self, held=HELD):
        self.held = held

    def topics(self, names):
        if set(names) - {"t"}:
            raise UnknownTopic("no such topic")
        return {"t": [index for _, index in self.held]}

    def all_topics(self):
        return {"t": [0, 1], "other": [0]}

    def list_offsets(self, times, _isolation=0):
        found = {}
        for at, time in times.items():
            start, end = self.held[at]
            ends = {EARLIEST: start, LATEST: end}
            found[at] = ends.get(time, -1 if time >= end else max(time, start))
        return found


def ranges(**options):
    given = {"kafka.bootstrap.servers": "a:1", "subscribe": "t", **options}
    if "assign" in options or "subscribePattern" in options:
        del given["subscribe"]
    found = batch_ranges(Table(), source_options(given, streaming=False))
    return [(part.partition, part.start, part.end) for part in found]


def test_an_offset_map_has_one_form():
    offsets = {B: 7, A: 23, ("a", 3): 0}
    assert str(to_json(offsets)) == "{'a': {'3': 0}, 't': {'0': 23, '1': 7}}"
    assert from_json(to_json(offsets)) == offsets
    assert from_json('{"t": {"0": 23}}') == {A: 23}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [(0, 10, 100), (1, 0, 50)]),
        ({"assign": '{"t": [1]}'}, [(1, 0, 50)]),
        ({"subscribePattern": "t"}, [(0, 10, 100), (1, 0, 50)]),
        ({"subscribePattern": "x"}, []),
        ({"startingOffsets": '{"t": {"0": 20, "1": -2}}'}, [(0, 20, 100), (1, 0, 50)]),
        ({"endingOffsets": '{"t": {"0": -1, "1": 5}}'}, [(0, 10, 100), (1, 0, 5)]),
        ({"endingOffsets": '{"t": {"0": 10, "1": 0}}'}, []),
        ({"startingTimestamp": "20", "endingTimestamp": "40"}, [(0, 20, 40), (1, 20, 40)]),
        ({"endingTimestamp": "70"}, [(0, 10, 70), (1, 0, 50)]),
        (
            {"startingTimestamp": "70", "startingOffsetsByTimestampStrategy": "latest"},
            [(0, 70, 100)],
        ),
        ({"startingOffsetsByTimestamp": '{"t": {"0": 50, "1": 49}}'}, [(0, 50, 100), (1, 49, 50)]),
        (
            {"startingOffsets": '{"t": {"0": 3, "1": 60}}', "failOnDataLoss": "false"},
            [(0, 10, 100)],
        ),
        ({"endingOffsets": '{"t": {"0": 99, "1": 60}}', "failOnDataLoss": "false"},
         [(0, 10, 99), (1, 0, 50)]),
    ],
)  # fmt: skip
def test_what_a_batch_reads(options, expected):
    assert ranges(**options) == expected


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"startingOffsets": '{"t": {"0": 20}}'}, BadOption, "it lacks t-1. Use -1 for latest"),
        ({"startingOffsets": '{"t": {"0": 20, "1": 0, "2": 0}}'}, BadOption, "it also has t-2"),
        ({"startingTimestamp": "70"}, BadOption, "t-1 has no record at or after 70 ms"),
        ({"startingOffsets": '{"t": {"0": 3, "1": 0}}'}, DataLost,
         r"t-0 holds offsets 10 to 100 \(exclusive\), but startingOffsets asks for 3.*=false"),
        ({"startingOffsets": '{"t": {"0": 10, "1": 51}}'}, DataLost, "startingOffsets asks for 51"),
        ({"endingOffsets": '{"t": {"0": 10, "1": 51}}'}, DataLost, "endingOffsets asks for 0"),
        ({"assign": '{"t": [0, 9]}'}, UnknownTopic, "assign names partition 9 of t"),
    ],
)  # fmt: skip
def test_what_a_batch_cannot_read(options, error, words):
    with pytest.raises(error, match=words):
        ranges(**options)


def test_a_pattern_matches_whole_names():
    options = {"kafka.bootstrap.servers": "a:1", "subscribePattern": "oth.r|t.+"}
    subscription = source_options(options, streaming=False).subscription
    assert partitions_of(Table(), subscription) == [("other", 0)]


@pytest.mark.parametrize(
    ("start", "latest", "limit", "expected"),
    [
        ({A: 0, B: 0}, {A: 100, B: 50}, 1000, {A: 100, B: 50}),
        ({A: 0, B: 0}, {A: 100, B: 50}, 150, {A: 100, B: 50}),
        ({A: 0, B: 0}, {A: 100, B: 50}, 30, {A: 20, B: 10}),
        ({A: 0, B: 0}, {A: 1000, B: 1}, 10, {A: 9, B: 1}),  # the small one is not starved
        ({A: 100, B: 0}, {A: 100, B: 50}, 10, {A: 100, B: 10}),
        ({A: 0}, {A: 10, B: 30}, 8, {A: 4, B: 20 + 4}),  # B is new and begins at 20
        ({A: 5, B: 0}, {A: 3, B: 50}, 10, {A: 3, B: 10}),  # A went back: data lost, not read
    ],
)
def test_a_limit_is_shared_out_as_in_sparks_source(start, latest, limit, expected):
    assert limited(start, latest, {B: 20}, limit) == expected


def test_ranges_are_cut_in_proportion_and_stay_whole():
    whole = [Range("t", 0, 0, 900), Range("t", 1, 10, 110)]
    cut = split(whole, 10, None)
    assert len(cut) == 10
    assert [part.end for part in cut[:-2]] == [part.start for part in cut[1:-1]]
    assert sum(part.count for part in cut) == 1000
    assert split(whole, 2, None) == whole
    assert split(whole, None, None) == whole
    assert [part.count for part in split(whole, None, 300)] == [300, 300, 300, 100]
    tiny = split([Range("t", 0, 0, 2)], 5, None)
    assert [part.count for part in tiny] == [1, 1]
