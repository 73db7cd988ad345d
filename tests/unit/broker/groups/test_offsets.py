"""Committed offsets as their records make them, and how they expire."""

import pytest

from broker.groups.committed import Committed
from broker.groups.group import Expiry
from broker.groups.offsets import Offsets
from protocol.group_records import OffsetCommitKey, OffsetCommitValue
from protocol.wire import ZERO_UUID

ID, OTHER = b"1" * 16, b"2" * 16


def key(group="g", topic="t", partition=0):
    return OffsetCommitKey(group=group, topic=topic, partition=partition)


def value(offset=1, **fields):
    return OffsetCommitValue(offset=offset, commit_timestamp=fields.pop("at", 1_000), **fields)


def test_the_last_record_of_a_key_wins():
    offsets = Offsets()
    offsets.apply(key(), value(1), 0)
    offsets.apply(key(), value(2, metadata="m", leader_epoch=4), 1)
    offsets.apply(key(partition=1), value(3), 2)
    committed = offsets.get("g", "t", 0)
    assert committed is not None
    assert (committed.offset, committed.metadata, committed.leader_epoch) == (2, "m", 4)
    assert offsets.get("g", "t", 2) is offsets.get("g", "u", 0) is offsets.get("h", "t", 0) is None


def test_a_tombstone_removes_the_offset_and_empty_containers():
    offsets = Offsets()
    offsets.apply(key(), value(), 0)
    offsets.apply(key(topic="u"), value(), 1)
    offsets.apply(key(), None, 2)
    assert list(offsets.topics("g")) == ["u"]
    offsets.apply(key(topic="u"), None, 3)
    offsets.apply(key(topic="u"), None, 3)
    assert offsets.topics("g") == {}


@pytest.mark.parametrize(
    ("stored", "asked", "shown"),
    [
        (ZERO_UUID, ZERO_UUID, True),
        (ID, ZERO_UUID, True),
        (ZERO_UUID, ID, True),
        (ID, ID, True),
        (ID, OTHER, False),
    ],
)
def test_an_offset_of_an_earlier_topic_with_the_same_name_is_not_shown(stored, asked, shown):
    assert Committed(1, 0, "", 0, topic_id=stored).is_of(asked) is shown


EXPIRIES = [
    ("young", Expiry(None), {}, 1_999, False),
    ("old", Expiry(None), {}, 2_000, True),
    ("old, but its group has just lost its last member", Expiry(1_500), {}, 2_000, False),
    ("old, as its group", Expiry(1_000), {}, 2_000, True),
    ("a retention of its own, not over", Expiry(None), {"expire_timestamp": 9_000}, 8_999, False),
    ("a retention of its own, over", Expiry(9_999), {"expire_timestamp": 1_500}, 1_500, True),
]


@pytest.mark.parametrize(("name", "expiry", "fields", "now_ms", "gone"), EXPIRIES)
def test_offsets_expire(name, expiry, fields, now_ms, gone):
    offsets = Offsets()
    offsets.apply(key(), value(**fields), 0)
    places = list(offsets.places("g"))
    records = offsets.expired("g", places, expiry, lambda _: False, now_ms, 1_000)
    assert bool(records) is gone, name
    assert offsets.expired("g", places, expiry, lambda _: True, now_ms, 1_000) == []


def test_tombstones_cover_a_whole_group_or_a_whole_topic():
    offsets = Offsets()
    for group, topic, partition in (("g", "t", 0), ("g", "t", 1), ("g", "u", 0), ("h", "t", 0)):
        offsets.apply(key(group, topic, partition), value(), 0)
    assert [(one.topic, one.partition, gone) for one, gone in offsets.tombstones("g")] == [
        ("t", 0, None),
        ("t", 1, None),
        ("u", 0, None),
    ]
    taken = offsets.take_topic("t")
    assert {group: list(of) for group, of in taken.items()} == {"g": [0, 1], "h": [0]}
    assert {group: list(offsets.topics(group)) for group in ("g", "h")} == {"g": ["u"], "h": []}
    assert offsets.take_topic("t") == {}
