"""Candidates are opened one by one until one holds the record; a bomb is stopped at its bound."""

import pytest

from protocol.record_batch import read_header
from protocol.record_errors import DecompressedTooLarge, RecordError
from protocol.records import Record, build
from storage import timestamp_lookup
from storage.timestamp_lookup import TimestampCandidate


class OneBatch:
    """A log file that holds one batch, and a slice of it."""

    def __init__(self, batch: bytearray) -> None:
        self.batch = batch

    def slice(self, position: int, size: int) -> "OneBatch":
        assert (position, size) == (0, len(self.batch))
        return self

    def read(self) -> bytes:
        return bytes(self.batch)


def candidate(timestamps, wanted, start_offset=0, codec=0, value=b"v") -> TimestampCandidate:
    records = [Record(0, timestamp, None, value) for timestamp in timestamps]
    batch = build(records, base_offset=100, codec=codec, leader_epoch=7)
    return TimestampCandidate(OneBatch(batch), 0, read_header(batch), wanted, start_offset)


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
def test_open_finds_the_first_record_as_late_and_not_before_the_start(
    wanted, start_offset, expected
):
    under_test = candidate([10, 30, 20], wanted, start_offset)
    under_test.open()
    assert under_test.found == expected


def test_what_a_batch_becomes_is_bounded(monkeypatch):
    monkeypatch.setattr(timestamp_lookup, "DECOMPRESSED_BYTES_MAX", 100_000)
    with pytest.raises(DecompressedTooLarge):
        candidate([1], 1, codec=4, value=bytes(1_000_000)).open()


def test_a_batch_that_cannot_be_opened_is_a_record_error():
    under_test = candidate([1, 2, 3], 2, codec=1)
    under_test._place.batch[70:80] = b"garbage..."
    with pytest.raises(RecordError):
        under_test.open()
