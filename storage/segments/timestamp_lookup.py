"""The first record at or after a timestamp: where it may be, and whether it is there.

Which segments may hold it, and from which batch on, is known from the time indexes, in
microseconds and on the caller's thread (`Segment.timestamp_candidates`). Whether one does takes
going over its batches, whose headers say their largest timestamps, and opening those that promise
one as late. A batch nearly always holds what its header promises, but the log may begin inside it,
and a client may have lied. Either walk may be as long as the segment. So it is a step of its own,
which a thread of the pool can run, a piece at a time: up to one batch opened or `BATCHES_MAX`
passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from protocol.legacy_batches import LegacyHeader, read_records_any
from protocol.record_batch import BatchHeader
from protocol.record_walks import STEP_COUNT, Rest, no_rest, offset_of_timestamp
from storage.segments.log_file import LogFile

DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024  # of one batch, in memory while it is looked into
BATCHES_MAX = 64 * 1024  # some tenths of a second of a thread


class TimestampOffset(NamedTuple):
    """A record found by its timestamp (ms); the epoch is its batch's leader epoch."""

    timestamp: int
    offset: int
    leader_epoch: int


class TimestampCandidate:
    """A part of a segment that may hold the first record with a timestamp of at least `timestamp`.

    `found` and `is_over` say how far it has been looked into.
    """

    __slots__ = (
        "_batches",
        "_log_file",
        "_position",
        "_start_offset",
        "_timestamp",
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
        """Begin at `position`; `batches` are those of the part from a position on."""
        self._log_file = log_file
        self._position = position
        self._batches = batches
        self._timestamp = timestamp
        self._start_offset = start_offset
        self.found: TimestampOffset | None = None
        self.is_over = False

    def look_on(self, rest: Rest = no_rest) -> None:
        """Look into the next piece, and set `found`, or `is_over` if there is none in this part.

        May block; touches only the log file. In a thread, `rest` lets others run. Raises OSError,
        LogFailed, DamagedLog, and record errors for a batch that cannot be opened.
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
