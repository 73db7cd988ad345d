"""The search finds the next batch with a valid CRC after damage, and nothing else."""

import pytest

from storage.opening.batch_search import find_batch
from tests.support.batches import batch
from tests.support.log_house import House, flush


def segment_of(data: bytes):
    house = House()
    house.open()
    log = house.log(internal_segment_bytes=0)
    segment = log.segments.active
    segment.log_file.append(data)
    flush(log)
    return segment


@pytest.mark.parametrize("at", range(12))
def test_the_batch_after_a_damaged_one_is_found(at):
    first, second = batch(0, 3), batch(3, 2)
    first[at] ^= 0x41
    segment = segment_of(bytes(first + second))
    assert find_batch(segment, 1, 0) == len(first)


def test_a_batch_below_the_wanted_offset_is_skipped():
    batches = [batch(0, 3), batch(3, 2), batch(5)]
    segment = segment_of(b"".join(bytes(one) for one in batches))
    assert find_batch(segment, 1, 5) == len(batches[0]) + len(batches[1])


def test_a_torn_batch_is_not_found():
    segment = segment_of(b"\x02" * 100 + bytes(batch(7, 3))[:-1])
    assert find_batch(segment, 0, 0) is None
