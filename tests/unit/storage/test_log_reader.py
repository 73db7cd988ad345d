"""Reading a log: where reads begin and end, and look-ups by time or leader epoch."""

import pytest

from protocol.record_batch import read_header
from storage.errors import OffsetOutOfRange
from tests.support.log_house import NOW, House, append, batch, delete_records, flush, read_all
from tests.support.lookups import first_found

SIZE = len(batch())


@pytest.fixture
def house():
    house = House()
    house.open()
    return house


def test_reads_stop_at_batches_segments_and_limits(house):
    log = house.log(internal_segment_bytes=5 * SIZE)
    append(log, 12)
    flush(log)
    assert len(log.read(0, 10**6)) == 5 * SIZE, "one segment at a time"
    assert len(log.read(0, 3 * SIZE + 5)) == 3 * SIZE, "whole batches"
    assert len(log.read(0, 1)) == SIZE, "at least one batch"
    assert log.read(0, 1, at_least_one_batch=False) is None
    assert log.read(6, 1, at_least_one_batch=False) is None
    assert len(log.read(1, 10**6, end_offset=3)) == 2 * SIZE
    assert log.read(12, 100) is None
    assert list(read_all(log, size_max=1)) == list(range(12))


def test_a_read_from_within_a_batch_returns_the_whole_batch(house):
    log = house.log()
    log.append(batch(count=5), NOW)
    log.append(batch(count=5), NOW)
    flush(log)
    assert read_header(log.read(7, 10**6).read()).base_offset == 5


@pytest.mark.parametrize("offset", [-1, 3, 21])
def test_reads_outside_are_refused_with_the_range(house, offset):
    log = house.log(internal_segment_bytes=5 * SIZE)
    append(log, 20)
    flush(log)
    delete_records(house, log, 4)
    with pytest.raises(OffsetOutOfRange) as caught:
        log.read(offset, 100)
    assert (caught.value.start, caught.value.end) == (4, 20)


def test_available_bytes(house):
    log = house.log(internal_segment_bytes=5 * SIZE)
    append(log, 12)
    flush(log)
    append(log, 2)
    sizes = [log.available_bytes(offset) for offset in (0, 4, 5, 11, 12, 13, 99)]
    assert sizes == [12 * SIZE, 8 * SIZE, 7 * SIZE, SIZE, 0, 0, 0]


def test_lookup_by_time(house):
    log = house.log(internal_segment_bytes=3 * SIZE)
    times = [10, 30, 20, 40, 35, 50, 45]
    for n in times:
        log.append(batch(timestamp=NOW + n), NOW)
    for asked in range(60):
        wanted = next((i for i, t in enumerate(times) if t >= asked), None)
        found = first_found(log.timestamp_candidates(NOW + asked))
        assert (found and found.offset) == wanted, asked
    assert first_found(log.timestamp_candidates(None))[:2] == (NOW + 50, 5)
    first = next(log.timestamp_candidates(NOW + 10))
    assert first.end_offset == 3  # of its segment
    assert first_found(log.timestamp_candidates(NOW + 10, first.end_offset)).offset == 3
    assert list(log.timestamp_candidates(None, 6)) == []  # the largest is before
    last = next(log.timestamp_candidates(NOW + 45, 6))
    assert list(log.timestamp_candidates(NOW, last.end_offset)) == []
    log.delete_records_before(0)
    assert first_found(house.log("empty").timestamp_candidates(None)) is None


def test_the_largest_timestamp_may_lie_below_the_start_as_in_kafka(house):
    log = house.log()
    for n in (10, 30, 20):
        log.append(batch(timestamp=NOW + n), NOW)
    flush(log)
    for start in (2, 3):
        delete_records(house, log, start)
        assert log.start_offset == start
        assert first_found(log.timestamp_candidates(None))[:2] == (NOW + 30, 1)
        assert first_found(log.timestamp_candidates(NOW + 21)) is None


def test_the_end_of_an_epoch(house):
    log = house.log(epoch=3)
    append(log, 4)
    log.leader_epoch = 5
    append(log, 2)
    assert log.end_offset_for_epoch(3) == (3, 4)
    assert log.end_offset_for_epoch(5) == (5, 6)
    assert log.end_offset_for_epoch(6) == (-1, -1)
    with pytest.raises(OffsetOutOfRange):
        log.delete_records_before(1)  # above the durable offset, which is 0
