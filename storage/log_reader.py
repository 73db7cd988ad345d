"""Reading a log: whole batches below the high watermark, and where an offset or a time lies.

Reads change nothing that other readers could notice. Nothing here waits for the disk except for
pages that are not in memory (`storage.segments.cold`). How a batch is found is in
`storage.segments.row`.
"""

from __future__ import annotations

from collections.abc import Iterator

from storage.errors import OffsetOutOfRange
from storage.log_state import LogState
from storage.segments.log_file import LogSlice
from storage.segments.row import HoleInLogError
from storage.segments.timestamp_lookup import TimestampCandidate


class LogReader(LogState):
    """One log, for reading."""

    __slots__ = ()

    def read(
        self,
        start_offset: int,
        size_max: int,
        *,
        at_least_one_batch: bool = True,
        end_offset: int | None = None,
    ) -> LogSlice | None:
        """Return whole batches from the one that holds `start_offset` on, `size_max` bytes at most.

        The first batch may begin before `start_offset`: readers skip records, as Kafka's clients
        do. With `at_least_one_batch` the first batch is returned even if larger (KIP-74).
        Only batches below `end_offset` (default: the high watermark) are returned, and only
        from one segment; None if there are none yet.

        Raises OffsetOutOfRange if `start_offset` is outside [start, end] of the log, or in a hole
        between two segments; DamagedLog, LogFailed if the bytes cannot be served.
        """
        limit = self.high_watermark if end_offset is None else end_offset
        if start_offset >= limit:
            if start_offset > self.end_offset:
                raise OffsetOutOfRange(start_offset, self.start_offset, self.end_offset)
            return None
        if start_offset < self.start_offset:
            raise OffsetOutOfRange(start_offset, self.start_offset, self.end_offset)
        segments = self.segments
        active = segments.active
        if start_offset >= active.base_offset:
            position_end = segments.position_of_end(active, limit, self.end_offset)
            found = active.read(
                start_offset,
                size_max,
                position_end,
                at_least_one_batch=at_least_one_batch,
                offset_end=limit,
            )
            if found is None:
                return None
            return segments.soundness.checked(active, found, start_offset, self.end_offset)
        try:
            return segments.read(
                start_offset,
                size_max,
                limit=limit,
                end_offset=self.end_offset,
                at_least_one_batch=at_least_one_batch,
            )
        except HoleInLogError:
            raise OffsetOutOfRange(start_offset, self.start_offset, self.end_offset) from None

    def available_bytes(self, start_offset: int) -> int:
        """How many bytes there are to read from `start_offset` on, over all segments."""
        limit = self.high_watermark
        if start_offset >= limit or start_offset < self.start_offset:
            return 0
        return self.segments.available_bytes(start_offset, limit, self.end_offset)

    def timestamp_candidates(self, timestamp: int | None) -> Iterator[TimestampCandidate]:
        """Yield where the first record with a timestamp >= `timestamp` (None: the largest) may be.

        The first that, looked into to its end, has `found` something holds it.
        """
        return self.segments.timestamp_candidates(timestamp, self.start_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Answer OffsetForLeaderEpoch: (epoch, end offset), (-1, -1) if undefined."""
        return self.epochs.end_offset_for(epoch, self.end_offset)
