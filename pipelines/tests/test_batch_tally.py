"""Tallies of batches: summed, spread over time, merged, always small."""

from __future__ import annotations

import pickle

import pytest
from topics import Topic

from pyspark_barnabas.jobs import batch_tally
from pyspark_barnabas.jobs.batch_tally import Tally, merged, tally_range
from pyspark_barnabas.offsets import Range
from pyspark_barnabas.options import source_options
from pyspark_barnabas.source.reader import WireReader
from pyspark_barnabas.wire.batches import CONTROL, LOG_APPEND_TIME, read_batches
from pyspark_barnabas.wire.encode import Record, build_batch

MINUTE = 60_000


def tally_of(*batches, topic="t", partition=0):
    tally = Tally(topic, partition)
    for data in batches:
        tally.add(data, list(read_batches(data)))
    return tally


def records(*times, value=b"v" * 400):
    return [Record(b"k", value, time) for time in times]


def test_a_batch_is_spread_over_the_minutes_of_its_records():
    data = build_batch(records(0, 1 * MINUTE, 2 * MINUTE, 2 * MINUTE + 5))
    tally = tally_of(data)
    assert [count for count, _ in (tally.times[n] for n in range(3))] == [1, 1, 2]
    assert sum(size for _, size in tally.times.values()) == len(data)
    assert (tally.time_min, tally.time_max) == (0, 2 * MINUTE + 5)
    none = tally_of(build_batch(records(-1)))
    assert (none.timeless_count, none.times, none.time_min) == (1, {}, -1)


@pytest.mark.parametrize("codec", [0, 4])
def test_a_minute_has_the_records_of_its_times_however_they_are_batched(codec):
    """6,000 a minute; batches end anywhere, one has a gap, one goes backwards."""
    times = [10 * number for number in range(18_000)] + [9 * MINUTE] * 10 + [4 * MINUTE] * 20
    tally = Tally("t", 0)
    for first in range(0, len(times), 4999):
        data = build_batch(records(*times[first : first + 4999], value=b""), codec=codec)
        tally.add(data, list(read_batches(data)))
    assert {minute: count for minute, (count, _) in tally.times.items()} == {
        0: 6000, 1: 6000, 2: 6000, 9: 10, 4: 20,
    }  # fmt: skip
    assert sum(size for _, size in tally.times.values()) == tally.size_bytes
    assert (tally.time_min, tally.time_max) == (0, 9 * MINUTE)


def test_records_older_than_the_first_of_their_batch_are_in_their_own_minute():
    """The header has only the first and the largest timestamp."""
    tally = tally_of(build_batch(records(5 * MINUTE, 3 * MINUTE, 5 * MINUTE + 1)))
    assert {minute: count for minute, (count, _) in tally.times.items()} == {3: 1, 5: 2}
    assert tally.time_min == 3 * MINUTE


def test_the_time_of_the_log_is_that_of_all_records_of_a_batch():
    data = build_batch(records(1, 7 * MINUTE), attributes=LOG_APPEND_TIME)
    assert tally_of(data).times == {7: [2, len(data)]}


def test_sizes_codecs_and_control_batches():
    plain = build_batch(records(1, 2, 3))
    packed = build_batch(records(4, 5, 6, 7, 8), codec=4, base_offset=3)
    control = build_batch(records(9), attributes=CONTROL, base_offset=8)
    tally = tally_of(plain, packed, control)
    assert (tally.record_count, tally.batch_count, tally.control_count) == (8, 2, 1)
    assert (tally.start_offset, tally.end_offset) == (0, 9)
    assert (tally.batch_records_max, tally.counts) == (5, {4: 1, 8: 1})
    assert tally.sizes[2048] == 1
    assert tally.codecs["none"].unpacked_bytes == len(plain)
    assert tally.codecs["zstd"].unpacked_bytes == len(build_batch(records(4, 5, 6, 7, 8)))
    assert tally.ratio == pytest.approx(
        (len(plain) + len(build_batch(records(4, 5, 6, 7, 8)))) / (len(plain) + len(packed))
    )


def test_a_batch_that_does_not_unpack_is_counted_all_the_same():
    data = build_batch(records(1), codec=4)
    (one,) = read_batches(data)
    tally = Tally("t", 0)
    sound = build_batch(records(MINUTE), base_offset=1)
    damaged = bytes(data[:61]) + b"?" * (len(data) - 61)
    tally.add(damaged + sound, [one, *read_batches(damaged + sound, len(damaged))])
    assert (tally.batch_count, tally.ratio) == (2, 1.0)
    assert (tally.timeless_count, tally.times) == (1, {1: [1, len(sound)]})


def test_parts_are_merged_by_partition_and_travel():
    first = tally_of(build_batch(records(1), codec=1))
    other = tally_of(build_batch(records(MINUTE), codec=1, base_offset=7))
    far = tally_of(build_batch(records(9)), partition=1)
    sent = pickle.loads(pickle.dumps([other, far, first]))  # as Spark does
    one, two = merged([*sent, Tally("t", 1)])
    assert (one.partition, one.start_offset, one.end_offset, one.batch_count) == (0, 0, 8, 2)
    assert sorted(one.times) == [0, 1]
    assert one.codecs["gzip"].batch_count == 2
    assert (two.partition, two.record_count, two.time_min) == (1, 1, 9)


def test_many_times_widen_the_intervals(monkeypatch):
    monkeypatch.setattr(batch_tally, "INTERVALS_MAX", 10)
    minutes = tally_of(*(build_batch(records(n * MINUTE)) for n in range(30)))
    assert (minutes.width_ms, minutes.times.keys()) == (60 * MINUTE, {0})
    few = tally_of(build_batch(records(61 * MINUTE)))
    few.merge(minutes)
    assert few.width_ms == 60 * MINUTE
    assert [count for count, _ in (few.times[n] for n in (0, 1))] == [30, 1]
    days = tally_of(*(build_batch(records(n * 86_400_000)) for n in range(30)))
    assert (days.width_ms, len(days.times)) == (86_400_000, 30)


def test_a_topic_is_tallied_over_the_wire(broker):
    with Topic(broker.address) as topic:
        for codec in range(5):
            topic.append(codec % 3, records(*range(codec * 100, codec * 100 + 50)), codec=codec)
        options = source_options(topic.options(startingOffsets="earliest"), streaming=False)
        parts = WireReader(["offset"], options).partitions()
        found = merged(tally_range(options, part.range) for part in parts)
    assert [(one.record_count, one.batch_count) for one in found] == [(100, 2), (100, 2), (50, 1)]
    assert [sorted(one.codecs) for one in found] == [["lz4", "none"], ["gzip", "zstd"], ["snappy"]]
    assert [(one.start_offset, one.end_offset) for one in found] == [(0, 100), (0, 100), (0, 50)]


def test_batches_outside_the_range_are_left_out(broker):
    with Topic(broker.address) as topic:
        for _ in range(4):
            topic.append(0, records(*range(10)))
        options = source_options(topic.options(), streaming=False)
        found = tally_range(options, Range(topic.name, 0, 15, 30))
    assert (found.start_offset, found.end_offset, found.batch_count) == (10, 30, 2)
