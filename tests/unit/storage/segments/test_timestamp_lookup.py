"""Batches are opened one by one until one holds the record; a decompression bomb is stopped."""

import struct

import pytest
from crc32c import crc32c

from protocol.record_batch import read_header
from protocol.record_errors import DecompressedTooLarge, RecordError
from protocol.records import Record, build
from storage.segments import timestamp_lookup
from storage.segments.timestamp_lookup import TimestampCandidate
from tests.support.lookups import first_found


class Batches:
    """A log file with batches, and a slice of it; notes which batches were opened."""

    def __init__(self, *batches: bytearray) -> None:
        self.data = bytearray().join(batches)
        self.opened: list[int] = []
        self.passed: list[int] = []

    def slice(self, position: int, size: int) -> "Batches":
        self.opened.append(position)
        return Batches(self.data[position : position + size])

    def read(self) -> bytes:
        return bytes(self.data)

    def from_position(self, position: int):
        while position < len(self.data):
            header = read_header(self.data, position)
            self.passed.append(position)
            yield position, header
            position += header.size


def candidate(timestamps, wanted, start_offset=0, codec=0, value=b"v") -> TimestampCandidate:
    records = [Record(0, timestamp, None, value) for timestamp in timestamps]
    file = Batches(build(records, base_offset=100, codec=codec, leader_epoch=7))
    return TimestampCandidate(file, 0, file.from_position, wanted, start_offset)


@pytest.mark.parametrize(
    ("wanted", "start_offset", "expected"),
    [
        (10, 0, (10, 100, 7)),
        (11, 0, (30, 101, 7)),
        (21, 0, (30, 101, 7)),  # timestamps need not rise with offsets
        (20, 102, (20, 102, 7)),
        (30, 102, None),  # the record is before the log's start
        (31, 0, None),
    ],
)
def test_the_first_record_not_before_the_timestamp_or_the_log_start_is_found(
    wanted, start_offset, expected
):
    under_test = candidate([10, 30, 20], wanted, start_offset)
    assert first_found([under_test]) == expected
    assert under_test.is_over


def test_the_decompressed_size_of_a_batch_is_bounded(monkeypatch):
    monkeypatch.setattr(timestamp_lookup, "DECOMPRESSED_BYTES_MAX", 100_000)
    with pytest.raises(DecompressedTooLarge):
        candidate([1], 1, codec=4, value=bytes(1_000_000)).look_on()


def test_an_undecodable_batch_is_a_record_error():
    under_test = candidate([1, 2, 3], 2, codec=1)
    under_test._log_file.data[70:80] = b"garbage..."
    with pytest.raises(RecordError):
        under_test.look_on()


def lying(base_offset: int) -> bytearray:
    """A batch at time 5 whose header promises 50."""
    batch = build([Record(0, 5, None, b"v")], base_offset=base_offset)
    struct.pack_into(">q", batch, 35, 50)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return batch


def test_a_step_opens_one_batch_and_skips_a_bounded_number(monkeypatch):
    """A stop waits for one step, and other look-ups take turns between the steps."""
    monkeypatch.setattr(timestamp_lookup, "BATCHES_MAX", 3)
    old = [build([Record(0, 5, None, b"v")], base_offset=offset) for offset in range(10)]
    last = build([Record(0, 9, None, b"v"), Record(0, 60, None, b"v")], base_offset=12)
    file = Batches(*old, lying(10), lying(11), last)
    under_test = TimestampCandidate(file, 0, file.from_position, 40, 0)
    pieces = []
    while not under_test.is_over:
        file.passed, file.opened = [], []
        under_test.look_on()
        pieces.append((len(file.passed), len(file.opened)))
    assert under_test.found == (60, 13, 0)
    assert pieces == [(4, 0), (4, 0), (4, 0), (2, 1), (1, 1), (1, 1)], pieces
