"""Offset resets of a group: each rule, at the bounds and beyond them."""

from __future__ import annotations

import pytest

from client.kafka.connection import BrokerError
from client.kafka.resets import (
    Bounds,
    Reset,
    parse_topics,
    plan,
    shift_by,
    to_earliest,
    to_found,
    to_latest,
    to_offset,
)
from client.places import Place

ONE, TWO = Place("t", 0), Place("t", 1)
BOUNDS = Bounds(5, 20)


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        (to_earliest, None, 5),
        (to_latest, 7, 20),
        (to_offset(9), None, 9),
        (to_offset(3), None, 5),
        (to_offset(30), 9, 20),
        (to_found({ONE: 11}), 9, 11),
        (to_found({ONE: -1}), 9, 20),
        (shift_by(3), 9, 12),
        (shift_by(-3), 9, 6),
        (shift_by(-30), 9, 5),
        (shift_by(30), 9, 20),
    ],
)
def test_a_rule_gives_an_offset_within_the_log(rule, before, after):
    known = {} if before is None else {ONE: before}
    assert plan(rule, known, {ONE: BOUNDS}) == [Reset(ONE, before, after, BOUNDS)]


def test_offsets_are_set_in_order_and_only_for_partitions_with_bounds():
    found = plan(to_earliest, {Place("gone", 0): 3}, {TWO: BOUNDS, ONE: BOUNDS})
    assert [one.place for one in found] == [ONE, TWO]


def test_a_missing_offset_cannot_be_shifted():
    with pytest.raises(BrokerError, match="t-1 has no committed offset"):
        plan(shift_by(1), {ONE: 7}, {ONE: BOUNDS, TWO: BOUNDS})


def test_topics_are_parsed():
    assert parse_topics(("a", "b:0,2")) == {"a": None, "b": [0, 2]}


def test_a_topic_named_again_adds_its_partitions():
    assert parse_topics(("a:1", "a:0", "a:1,3")) == {"a": [0, 1, 3]}
    assert parse_topics(("a:1", "a")) == {"a": None}
    assert parse_topics(("a", "a:1")) == {"a": None}


@pytest.mark.parametrize("text", ["", ":1", "a:", "a:x", "a:1,", "a:-1"])
def test_a_text_without_a_topic_is_refused(text):
    with pytest.raises(ValueError, match="is not TOPIC"):
        parse_topics((text,))
