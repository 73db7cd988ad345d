"""The search for the first record at or after a timestamp, in steps.

The time indexes tell in microseconds which segments may hold the record, and from which batch on
(`Segment.timestamp_candidates`). To find it, the batches from there on are walked, and those whose
header has a largest timestamp that is late enough are opened. Such a batch nearly always holds the
record, but the log may begin inside the batch, and a client may have lied in the header. Either
walk may be as long as the segment. So the search is done in steps that a thread of the pool can
run: up to one batch opened, or `BATCHES_MAX` batches passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from protocol.legacy_batches import LegacyHeader, read_records_any
from protocol.record_batch import BatchHeader
from protocol.record_walks import STEP_COUNT, Rest, no_rest, offset_of_timestamp
from storage.files.filenames import OFFSET_MAX
from storage.segments.log_file import LogFile

DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024  # of one batch, in memory while it is searched
BATCHES_MAX = 64 * 1024  # a few tenths of a second in a thread


class TimestampOffset(NamedTuple):
    """A record found by its timestamp (ms), with the leader epoch of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


class TimestampCandidate:
    """A range of a segment that may hold the first record with a timestamp >= `timestamp` (ms).

    `found` is the result, and `is_over` says whether the search has ended. If that found nothing,
    the record may be from `end_offset` on.
    """

    __slots__ = (
        "_batches",
        "_log_file",
        "_position",
        "_start_offset",
        "_timestamp",
        "end_offset",
        "found",
        "is_over",
    )

    def __init__(
        self,
        log_file: LogFile,
        position: int,
        batches: Callable[[int], Iterator[tuple[int, BatchHeader]]],
        timestamp: int,
        start_offset: int,
    ) -> None:
        """Search from `position` on; `batches` walks the range from a given position."""
        self._log_file = log_file
        self._position = position
        self._batches = batches
        self._timestamp = timestamp
        self._start_offset = start_offset
        self.end_offset = OFFSET_MAX
        self.found: TimestampOffset | None = None
        self.is_over = False

    def look_on(self, rest: Rest = no_rest) -> None:
        """Search one step further; set `found` and `is_over`, or only `is_over` at the end.

        May block; touches only the log file. In a thread, `rest` lets other threads run. Raises
        OSError, LogFailed, DamagedLog, and record errors for a batch that cannot be opened.
        """
        for count, (position, header) in enumerate(self._batches(self._position)):
            if count == BATCHES_MAX:
                self._position = position
                return
            if not count % STEP_COUNT:
                rest()
            if header.max_timestamp >= self._timestamp:
                self._open(position, header, rest)
                self._position = position + header.size
                return
        self.is_over = True

    def _open(self, position: int, header: BatchHeader, rest: Rest) -> None:
        batch = self._log_file.slice(position, header.size).read()
        start_offset = self._start_offset  # the log may begin inside the batch
        found = None
        if not isinstance(header, LegacyHeader):
            found = offset_of_timestamp(
                batch,
                self._timestamp,
                DECOMPRESSED_BYTES_MAX,
                from_offset=start_offset,
                rest=rest,
            )
        else:
            for record in read_records_any(batch, 0, size_max=DECOMPRESSED_BYTES_MAX):
                if record.timestamp >= self._timestamp and record.offset >= start_offset:
                    found = record.offset, record.timestamp
                    break
        if found is not None:
            self.found = TimestampOffset(found[1], found[0], header.leader_epoch)
            self.is_over = True
