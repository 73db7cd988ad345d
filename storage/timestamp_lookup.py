"""The first record at or after a timestamp: where it may be, and whether it is there.

Which batch may hold it is known from the time index and the batches' headers, in microseconds and
on the caller's thread (`Segment.timestamp_candidates`). Whether it does takes opening the batch:
reading it, decompressing it, going over its records. That may take a tenth of a second, so it is
a step of its own, which a thread of the pool can run. A batch nearly always holds what its header
promises; only where the log begins inside it may the next candidate be needed.
"""

from __future__ import annotations

from typing import NamedTuple

from protocol.legacy_batches import LegacyHeader, read_records_any
from protocol.record_batch import BatchHeader
from protocol.records import offset_of_timestamp
from storage.log_file import LogFile

DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024  # of one batch, in memory while it is looked into


class TimestampOffset(NamedTuple):
    """A record found by its timestamp (ms); the epoch is its batch's leader epoch."""

    timestamp: int
    offset: int
    leader_epoch: int


class TimestampCandidate:
    """A batch that may hold the first record with a timestamp of at least `timestamp`."""

    __slots__ = ("_header", "_place", "_start_offset", "_timestamp", "found")

    def __init__(
        self,
        log_file: LogFile,
        position: int,
        header: BatchHeader,
        timestamp: int,
        start_offset: int,
    ) -> None:
        self._place = log_file.slice(position, header.size)
        self._header = header
        self._timestamp = timestamp
        self._start_offset = start_offset
        self.found: TimestampOffset | None = None

    def open(self) -> None:
        """Look into the batch and set `found`. May block; touches only the log file.

        Raises OSError, LogFailed, and record errors for a batch that cannot be opened.
        """
        batch = self._place.read()
        found = None
        is_legacy = isinstance(self._header, LegacyHeader)
        if not is_legacy:
            found = offset_of_timestamp(batch, 0, self._timestamp, DECOMPRESSED_BYTES_MAX)
        # The log may begin inside the batch.
        if is_legacy or (found is not None and found[0] < self._start_offset):
            found = None
            for record in read_records_any(batch, 0, size_max=DECOMPRESSED_BYTES_MAX):
                if record.timestamp >= self._timestamp and record.offset >= self._start_offset:
                    found = record.offset, record.timestamp
                    break
        if found is not None:
            self.found = TimestampOffset(found[1], found[0], self._header.leader_epoch)
