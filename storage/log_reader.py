"""Reading a log: whole batches below the high watermark, by offset, time or leader epoch.

Reads do not change the log. They wait for the disk only for pages that are not in memory
(`storage.segments.cold`). `storage.segments.row` finds the batches.
"""

from __future__ import annotations

from collections.abc import Iterator

from protocol.record_batch import Buffer
from storage.errors import LogFailed, OffsetOutOfRange
from storage.log_state import LogState
from storage.segments.log_file import MAP_BYTES_MIN, LogSlice
from storage.segments.order import BATCHES_MAX, Look, is_cut_off, is_in_order, look
from storage.segments.reading_on import known_place
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
        """Return whole batches from the one that holds `start_offset`, at most `size_max` bytes.

        The first batch may begin before `start_offset`: readers skip records, as Kafka's clients
        do. With `at_least_one_batch` the first batch is returned even if it is larger (KIP-74).
        All batches are below `end_offset` (default: the high watermark), and in one segment.
        Returns None if there are none yet.

        Raises OffsetOutOfRange if `start_offset` is outside the log, or in a hole between two
        segments; DamagedLog or LogFailed if the bytes cannot be served.
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
            return segments.soundness.checked(
                active, found, start_offset, self.end_offset, segments.cleaned.offset
            )
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

    def read_on(self, start_offset: int, size_max: int, limit: int) -> Buffer | None:
        """Return the bytes of what `read` finds, for a reader that comes back where it stopped.

        As `read(…, end_offset=limit)` and `load_hot`, in one read of the file, which does not wait.
        None where that is not enough, and for whatever is not as it should be: a look-up, large
        slices, a first batch above `size_max`, holes, what is not in memory or checked yet, damage.
        Nothing has changed then, and `read` sees to it.
        """
        if start_offset < self.start_offset:
            return None
        place = known_place(self.segments, start_offset, limit, self.end_offset)
        if place is None:
            return None
        segment, position, position_end, limit = place
        available = position_end - position
        size = min(available, size_max)
        if not 0 < size < MAP_BYTES_MIN:
            return None
        if not self.segments.soundness.is_sound(segment, position, size):
            return None
        try:
            data = segment.log_file.file().pread_nowait(size, position)
        except (OSError, LogFailed):
            return None
        if data is None or len(data) != size or data[:8] != start_offset.to_bytes(8):
            return None
        found = look(data, start_offset, limit, 0, self.epochs)
        if found is None:
            return None
        if found.size < size:
            if size < available:
                if not found.size or not is_cut_off(data, found):
                    return None
                data = _beginning(data, found.size)
            elif found.batch_count < BATCHES_MAX:
                return None
            else:
                found = Look(size, limit, found.batch_count)
        segment.remember_end(found.next_offset, position + found.size)
        return data

    def is_in_order(self, piece: LogSlice, batches: Buffer, start_offset: int) -> bool:
        """Whether the batches of a slice, read for `start_offset` and loaded, may be served.

        If not, a bit may have flipped since the file was written or checked: `distrust` the slice,
        and read again. Not for mapped bytes.
        """
        segments, end_offset = self.segments, self.high_watermark
        holes_below = segments.holes_below
        if holes_below:  # the active segment has none, unless it was closed once
            cleaned_before = max(segments.active.base_offset, segments.cleaned.offset)
            holes_below = min(holes_below, cleaned_before)
            if start_offset < holes_below:
                end_offset = min(end_offset, segments.end_of(piece, start_offset))
        return is_in_order(batches, start_offset, end_offset, holes_below, self.epochs)

    def distrust(self, piece: LogSlice) -> None:
        """Have the file of a slice checked anew by the reads that follow."""
        self.segments.distrust(piece)

    def available_bytes(self, start_offset: int, end_offset: int | None = None) -> int:
        """Return the bytes from `start_offset` to `end_offset`, over all segments.

        `end_offset` is not above the high watermark, its default.
        """
        limit = self.high_watermark if end_offset is None else end_offset
        if start_offset >= limit or start_offset < self.start_offset:
            return 0
        return self.segments.available_bytes(start_offset, limit, self.end_offset)

    def timestamp_candidates(
        self, timestamp: int | None, from_offset: int = 0
    ) -> Iterator[TimestampCandidate]:
        """Yield the places where the first record with a timestamp >= `timestamp` (ms) may be.

        None asks for the largest timestamp of what the segments hold: as in Kafka, that record may
        lie below the start offset. The caller searches one after the other; the first with a result
        has the record. After one without, a look-up may go on from its `end_offset`.
        """
        start_offset = from_offset if timestamp is None else max(from_offset, self.start_offset)
        return self.segments.timestamp_candidates(timestamp, start_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the answer to OffsetForLeaderEpoch: (epoch, end offset), (-1, -1) if undefined."""
        return self.epochs.end_offset_for(epoch, self.end_offset)


def _beginning(data: Buffer, size: int) -> Buffer:
    """Return the first bytes of what was read; the rest takes no memory while they are sent.

    A view would keep all of `data`, and the answers' bound count its own size, or nothing.
    """
    if type(data) is bytearray:
        del data[size:]  # copies nothing, and gives memory back above twice the size
        return data
    return bytes(data[:size])
