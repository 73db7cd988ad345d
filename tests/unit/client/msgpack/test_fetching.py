"""Fetching: the body of a request, and records from raw batches."""

import pytest

from client.msgpack.batch_openers import RecordOpener
from client.msgpack.fetching import (
    FETCH_BYTES,
    PARTITION_BYTES,
    READ_COMMITTED,
    end_of,
    fetch_body,
    opened,
)
from protocol.control_records import Marker, build_marker
from protocol.record_errors import RecordError
from protocol.records import Record, build
from tests.support.old_messages import message


def batch(base_offset, *texts, codec=0, control=False):
    records = [Record(0, 5, None, text) for text in texts]
    return bytes(build(records, base_offset=base_offset, codec=codec, control=control))


def test_a_fetch_asks_for_raw_batches_from_each_offset_in_order():
    body = fetch_body({b"b" * 16: [(1, 5), (0, 7)], b"a" * 16: [(3, 0)]}, 500)
    assert (body["raw"], body["max_wait_ms"], body["max_bytes"]) == (True, 500, FETCH_BYTES)
    assert [topic["topic_id"] for topic in body["topics"]] == [b"b" * 16, b"a" * 16]
    assert body["topics"][0]["partitions"] == [
        {"partition": 1, "fetch_offset": 5, "partition_max_bytes": PARTITION_BYTES},
        {"partition": 0, "fetch_offset": 7, "partition_max_bytes": PARTITION_BYTES},
    ]


def read(raw, position):
    """Return everything that `opened` yields."""
    found = []
    for records, batch in opened(raw, position):
        found += records
        position = batch.next_offset
    return found, position


@pytest.mark.parametrize("codec", range(5))
def test_records_before_the_position_are_skipped(codec):
    raw = batch(10, b"a", b"b", b"c", codec=codec) + batch(20, b"d", codec=codec)
    records, position = read(raw, 11)
    assert [(one.offset, one.value) for one in records] == [(11, b"b"), (12, b"c"), (20, b"d")]
    assert position == 21


@pytest.mark.parametrize(
    ("raw", "position", "found", "next_position"),
    [
        (b"", 7, [], 7),
        (batch(0, b"a")[:-1], 0, [], 0),
        (batch(0, b"a") + batch(1, b"b")[:30], 0, [0], 1),
        (batch(0, b"\0\0\0\0", control=True), 0, [], 1),
        (batch(0, b"a"), 5, [], 5),
    ],
)
def test_positions_advance_only_past_whole_batches(raw, position, found, next_position):
    records, moved = read(raw, position)
    assert [one.offset for one in records] == found
    assert moved == next_position


def test_a_damaged_batch_is_not_read():
    raw = bytearray(batch(0, b"a"))
    raw[-2] ^= 1
    with pytest.raises(RecordError):
        read(raw, 0)


def written(base_offset, producer_id, text, *, transactional=True):
    return bytes(
        build(
            [Record(0, 5, None, text)],
            base_offset=base_offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=transactional,
        )
    )


def marker(offset, producer_id, *, is_commit):
    raw = build_marker(Marker(producer_id, 1, is_commit, 0), 5)
    raw[:8] = offset.to_bytes(8, "big")
    return bytes(raw)


# Producer 1 aborts, commits, aborts again; producer 2 commits beside it; 3 writes without any.
LOG = (
    written(0, 1, b"aborted")
    + written(1, 2, b"committed")
    + written(2, 3, b"plain", transactional=False)
    + marker(3, 1, is_commit=False)
    + written(4, 1, b"kept")
    + marker(5, 2, is_commit=True)
    + marker(6, 1, is_commit=True)
    + written(7, 1, b"aborted too")
    + marker(8, 1, is_commit=False)
    + written(9, 1, b"the next")
)
ABORTED = [{"producer_id": 1, "first_offset": 7}, {"producer_id": 1, "first_offset": 0}]


@pytest.mark.parametrize(
    ("position", "aborted", "offsets"),
    [
        (0, ABORTED, [1, 2, 4, 9]),
        (4, ABORTED[:1], [4, 9]),
        (1, ABORTED, [1, 2, 4, 9]),
        (8, ABORTED[:1], [9]),
        (0, [], [0, 1, 2, 4, 7, 9]),
    ],
)
def test_what_was_aborted_is_left_out_up_to_its_marker(position, aborted, offsets):
    found = []
    for records, batch in opened(LOG, position, aborted):
        found += [one.offset for one in records]
        position = batch.next_offset
    assert found == offsets
    assert position == 10


def test_an_isolation_is_asked_for():
    assert fetch_body({}, 1)["isolation_level"] == 0
    assert fetch_body({}, 1, READ_COMMITTED)["isolation_level"] == 1


class Nothing(RecordOpener):
    """Looks for what no answer has, and opens nothing but what is compressed."""

    def has_nothing(self, raw):
        return True


@pytest.mark.parametrize("position", [0, 2, 5, 99])
def test_an_answer_that_has_nothing_is_checked_and_passed(position):
    raw = batch(0, b"a", b"b") + batch(2, b"c", codec=1) + batch(3, b"m", control=True)
    raw += batch(4, b"d") + batch(9, b"e") + batch(10, b"f")[:-1]
    slowly = [(one.value, header) for found, header in opened(raw, position) for one in found]
    fast = list(opened(raw, position, (), Nothing()))
    assert [one.value for found, _ in fast for one in found] == [b"c"] * (position <= 2)
    assert [header for _, header in fast] == [header for _, header in opened(raw, position)]
    assert len(slowly) == sum(offset >= position for offset in (0, 1, 2, 4, 9))
    for at in (70, len(batch(0, b"a", b"b")) + 70):  # damage is found, wherever it is
        damaged = bytearray(raw)
        damaged[at] ^= 1
        with pytest.raises(RecordError):
            list(opened(bytes(damaged), 0, (), Nothing()))


def test_the_end_of_an_answer_is_that_of_its_last_whole_batch():
    raw = batch(5, b"a", b"b") + batch(9, b"c", codec=4)
    old = message(20, b"old")
    assert [end_of(b""), end_of(raw[:-1]), end_of(raw), end_of(raw + raw[:40])] == [None, 7, 10, 10]
    assert end_of(raw + old) == 21
    with pytest.raises(RecordError):
        end_of(raw[:8] + bytes(100))
