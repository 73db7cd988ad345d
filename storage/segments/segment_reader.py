"""Reading batches of one segment: whole ones, as many as fit.

`storage.segments.batch_lookup` finds where they begin; `storage.segments.segment` changes a
segment.
"""

from __future__ import annotations

from protocol.record_batch import BatchHeader
from storage.errors import DamagedLog
from storage.segments.batch_lookup import HINTS_MAX, LOOKUP_CHUNK_BYTES, BatchLookup
from storage.segments.log_file import LogSlice


class SegmentReader(BatchLookup):
    """One segment, for reading."""

    __slots__ = ()

    def read_next_offset(self) -> int:
        """Return the offset after the last batch, and remember it as `next_offset`.

        Walks from the last index entry to the end of the file. Raises DamagedLog if the file does
        not end with a whole batch.
        """
        self.next_offset = -1  # the walk must not check against the old value
        entry = self.indexes.last_offset_entry()
        start = entry[1] if entry is not None and self.leads_to_batch(entry) else 0
        next_offset = self.base_offset
        for _, header in self._scan(start, self.log_file.size):
            next_offset = header.next_offset
        self.next_offset = next_offset
        return next_offset

    def read(
        self,
        start_offset: int,
        size_max: int,
        position_end: int | None = None,
        *,
        at_least_one_batch: bool = True,
        offset_end: int | None = None,
    ) -> LogSlice | None:
        """Return whole batches from the one that holds `start_offset`, at most `size_max` bytes.

        The first batch may begin before `start_offset`: readers skip records, as Kafka's
        clients do. With `at_least_one_batch` the first is returned even if it is larger (KIP-74).
        The batches end at `position_end`, a batch's end (default: the file's). `offset_end`, if
        given, is the offset there; a reader that comes back with it needs no look-up. Returns None
        if there is no batch yet, or none that fits. Raises DamagedLog.
        """
        end = self.log_file.size if position_end is None else position_end
        found = self.position_of(start_offset, end)
        if found is None:
            return None
        position, header = found
        hole_from = self._hole_from
        if hole_from < 0 and header.base_offset > start_offset:
            hole_from = start_offset
        if end - position <= size_max:
            size = end - position
            if offset_end is not None:
                self.remember_end(offset_end, end)
        elif header.size >= size_max:
            size = header.size
            if size > size_max and not at_least_one_batch:
                return None
            self.remember_end(header.next_offset, position + size)
        else:
            size = self._whole_batches_end(position, header, position + size_max) - position
        return self.log_file.slice(position, size, hole_from)

    def _whole_batches_end(self, position: int, first: BatchHeader, limit: int) -> int:
        """Return the last batch end at or before `limit`, at least that of the first batch.

        If the log is damaged before that, the slice ends there, and the next read raises.
        """
        start = position + first.size
        entry = None
        if limit - start > LOOKUP_CHUNK_BYTES:
            entry = self.indexes.lookup_position(limit)
        try:
            if entry is not None and start < entry[1] < self.log_file.size:
                try:
                    return self._walk_to(entry[1], limit, first.next_offset, entry[0])
                except DamagedLog as damage:
                    if damage.position != entry[1]:
                        raise
            return self._walk_to(start, limit, first.next_offset)
        except DamagedLog as damage:
            return damage.position

    def _walk_to(
        self, position: int, limit: int, offset_min: int, indexed_offset: int | None = None
    ) -> int:
        """Walk to the last batch end at or before `limit`; `indexed_offset` as in `_walk`.

        Damage ends the walk; at the first batch it is raised. If a batch is sound by itself and
        does not follow the one before, either may have rotted: the walk ends before both.
        """
        before, due = -1, offset_min if indexed_offset is None else -1
        try:
            for at, header in self._scan(position, self.log_file.size, offset_min):
                is_in_place = header.base_offset == due
                if indexed_offset is not None:
                    self._check_indexed(at, header, indexed_offset)
                    is_in_place = header.last_offset == indexed_offset
                    indexed_offset = None
                if at + header.size > limit:
                    if is_in_place:
                        self.remember_end(header.base_offset, at)
                    return at
                before, position, due = at, at + header.size, header.next_offset
        except DamagedLog:
            if before < 0:
                raise
            if self._is_possible(position, self.log_file.size):
                return before
        return position

    def end_offset_at(self, start: int, end: int) -> int:
        """Return the offset after the last batch between two positions, each a batch's bound.

        Raises DamagedLog, Cold.
        """
        if self._last_end[0] == end:  # usually: the slice was read in this turn of the loop
            return self._last_end[1]
        entry = self.indexes.lookup_position(end - 1)
        position = entry[1] if entry is not None and self.leads_to_batch(entry) else start
        end_offset = self.base_offset
        for _, header in self._scan(max(start, position), end):
            end_offset = header.next_offset
        return end_offset

    def remember_end(self, offset: int, position: int) -> None:
        """Note where a read ended: a reader that comes back with that offset reads on there."""
        self._last_end = (position, offset)
        ends = self._read_ends
        if len(ends) >= HINTS_MAX:
            ends.clear()
        ends[offset] = position
