"""The first record at or after a timestamp: where it may be, and whether it is there.

Which batch may hold it is known from the time index and the batches' headers, in microseconds and
on the caller's thread (`Segment.timestamp_candidates`). Whether it does takes opening the batch:
reading it, decompressing it, going over its records. That may take a tenth of a second, so it is
a step of its own, which a thread of the pool can run. A batch nearly always holds what its header
promises; only where the log begins inside it may the next candidate be needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from protocol.record_batch import BatchHeader
from protocol.records import offset_of_timestamp, read_records
from storage.log_file import LogFile

DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024  # of one batch, in memory while it is looked into


class TimestampOffset(NamedTuple):
    """A record found by its timestamp (ms); the epoch is its batch's leader epoch."""

    timestamp: int
    offset: int
    leader_epoch: int


class TimestampCandidate:
    """A batch that may hold the first record with a timestamp of at least `timestamp`."""

    __slots__ = ("_header", "_log_file", "_position", "_start_offset", "_timestamp", "found")

    def __init__(
        self,
        log_file: LogFile,
        position: int,
        header: BatchHeader,
        timestamp: int,
        start_offset: int,
    ) -> None:
        self._log_file = log_file
        self._position = position
        self._header = header
        self._timestamp = timestamp
        self._start_offset = start_offset
        self.found: TimestampOffset | None = None

    def open(self) -> None:
        """Look into the batch and set `found`. May block; touches only the log file.

        Raises OSError, LogFailed, and record errors for a batch that cannot be opened.
        """
        batch = self._log_file.read(self._position, self._header.size)
        found = offset_of_timestamp(batch, 0, self._timestamp, DECOMPRESSED_BYTES_MAX)
        if found is not None and found[0] < self._start_offset:  # the log begins inside the batch
            found = None
            for record in read_records(batch, 0, size_max=DECOMPRESSED_BYTES_MAX):
                if record.timestamp >= self._timestamp and record.offset >= self._start_offset:
                    found = record.offset, record.timestamp
                    break
        if found is not None:
            self.found = TimestampOffset(found[1], found[0], self._header.leader_epoch)


def first_found(candidates: Iterable[TimestampCandidate]) -> TimestampOffset | None:
    """Open candidates here and now until one holds the record."""
    for candidate in candidates:
        candidate.open()
        if candidate.found is not None:
            return candidate.found
    return None
