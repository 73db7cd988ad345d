"""Finding and reading batches in one segment.

A look-up takes the last index entry at or below the offset, then walks over batch headers to the
batch that contains it. It checks what it finds. If the entry does not lead to a matching batch, the
index is damaged: that is reported once (`SegmentIndexes.report`), and the walk starts at the
beginning of the file instead. So a wrong index costs time, and never gives a wrong answer. A header
that does not fit its neighbours raises `DamagedLog`: the log is damaged.

The positions of the last few appended batches, and those where the last few reads ended, are
remembered: a consumer that reads on needs no look-up, only the header at that position. The last
look-up is remembered too and used once more, since a fetch asks for the available bytes first.

`storage.segments.segment` changes a segment.
"""

from __future__ import annotations

from collections.abc import Iterator

from protocol.legacy_batches import LegacyHeader
from protocol.record_batch import HEADER_SIZE, MAGIC, BatchHeader, read_header
from storage.errors import DamagedLog
from storage.segments.log_file import LogFile, LogSlice
from storage.segments.segment_indexes import SegmentIndexes

LOOKUP_CHUNK_BYTES = 4096  # Kafka's default of index.interval.bytes: what a look-up walks
HINTS_MAX = 16  # remembered positions of each kind


class SegmentReader:
    """One segment, for reading. `next_offset` is the offset after its last batch, -1 if unknown."""

    __slots__ = (
        "_appended", "_found", "_read_ends", "base_offset", "indexes", "log_file", "next_offset",
    )  # fmt: skip

    def __init__(self, base_offset: int, log_file: LogFile, indexes: SegmentIndexes) -> None:
        self.base_offset = base_offset
        self.log_file = log_file
        self.indexes = indexes
        self.next_offset = base_offset if log_file.size == 0 else -1
        self._appended: dict[int, int] = {}  # base offset of a batch -> its position
        self._read_ends: dict[int, int] = {}  # offset a read ended before -> the position
        self._found: tuple[int, int, BatchHeader] | None = None  # the last look-up, for one more

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.log_file.path}, size={self.size})"

    @property
    def size(self) -> int:
        """Bytes in the log file."""
        return self.log_file.size

    def position_of(
        self, offset: int, end_position: int | None = None
    ) -> tuple[int, BatchHeader] | None:
        """Return (position, header) of the batch that holds `offset`, or of the next one.

        Compaction leaves gaps, hence the next one. Returns None if every batch before
        `end_position` (default: the end of the file) is below the offset. May block. Raises
        DamagedLog.
        """
        end = self.log_file.size if end_position is None else end_position
        last, self._found = self._found, None
        if last is not None and last[0] == offset and last[1] + last[2].size <= end:
            return last[1], last[2]
        found = self._find(offset, end)
        if found is not None:
            self._found = (offset, *found)
        return found

    def _find(self, offset: int, end: int) -> tuple[int, BatchHeader] | None:
        position = self._appended.get(offset)
        if position is None:
            position = self._read_ends.get(offset)
        if position is not None:
            if position >= end:
                return None
            if position + HEADER_SIZE <= end:
                header = read_header(self.log_file.read(position, HEADER_SIZE))
                if header.base_offset == offset and self._is_sound(position, header, end):
                    return position, header
            # A gap, or damage: look properly.
        entry = self.indexes.lookup(offset)
        if entry is None:
            return self._walk(0, end, offset)
        size = self.log_file.size
        if 0 <= entry[1] < size:
            if entry[1] >= end and self.leads_to_batch(entry):
                return None
            try:
                return self._walk(entry[1], end, offset, entry[0])
            except DamagedLog as damage:
                if damage.position != entry[1]:
                    raise
        found = self._walk(0, end, offset)  # raises if it is the log that is damaged
        self.indexes.report(f"the offset index leads to no batch at entry {entry}")
        return found

    def walk_start(self, offset: int) -> int:
        """Return the position of a batch at or before `offset`, not far from it."""
        entry = self.indexes.lookup(offset)
        return entry[1] if entry is not None and self.leads_to_batch(entry) else 0

    def _walk(
        self, position: int, end: int, offset: int, indexed_offset: int | None = None
    ) -> tuple[int, BatchHeader] | None:
        """Walk to the first batch that ends at or behind `offset`.

        If that batch begins behind the offset, the batch after it is checked as well: only if it
        follows is the first one's offset a gap and not damage. With `indexed_offset`, an index
        entry led to `position`: the batch there must end at or below that offset. (Not exactly at
        it: for several batches appended at once, older Kafkas made one entry, with the last offset
        and the first position.)
        """
        behind = None
        for at, header in self._scan(position, end):
            if indexed_offset is not None:
                self._check_indexed(at, header, indexed_offset)
                indexed_offset = None
            if behind is not None:
                return behind
            if header.base_offset + header.last_offset_delta >= offset:
                if header.base_offset <= offset:
                    return at, header
                behind = at, header
        return behind

    def _check_indexed(self, position: int, header: BatchHeader, offset: int) -> None:
        """Raise DamagedLog if the batch at an index entry's position ends above its offset."""
        if not _is_at_most(header, offset):
            raise DamagedLog(
                self.log_file.path,
                position,
                header.base_offset,
                found=f"last offset {header.last_offset}",
                wanted=f"at most {offset}, as the index says",
            )

    def _scan(
        self, position: int, end: int, offset_min: int | None = None
    ) -> Iterator[tuple[int, BatchHeader]]:
        return self.log_file.scan(
            position,
            end,
            offset_min=self.base_offset if offset_min is None else offset_min,
            offset_end=self.next_offset if self.next_offset >= 0 else None,
            chunk_bytes=LOOKUP_CHUNK_BYTES,
        )

    def _is_sound(self, position: int, header: BatchHeader, end: int) -> bool:
        """Whether a header by itself is possible for a batch of this segment."""
        return (
            ((header.magic == MAGIC and header.size >= HEADER_SIZE) or _is_legacy(header))
            and position + header.size <= end
            and header.last_offset_delta >= 0
            and header.base_offset >= self.base_offset
            and (self.next_offset < 0 or header.last_offset < self.next_offset)
        )

    def leads_to_batch(self, entry: tuple[int, int]) -> bool:
        """Whether an offset index entry points at a batch that matches its offset (see `_walk`)."""
        offset, position = entry
        header = self.log_file.read_header_at(position) if position >= 0 else None
        return (
            header is not None
            and self._is_sound(position, header, self.log_file.size)
            and _is_at_most(header, offset)
        )

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
        if end - position <= size_max:
            size = end - position
            if offset_end is not None:
                self._remember_end(offset_end, end)
        elif header.size >= size_max:
            size = header.size
            if size > size_max and not at_least_one_batch:
                return None
            self._remember_end(header.next_offset, position + size)
        else:
            size = self._whole_batches_end(position, header, position + size_max) - position
        return self.log_file.slice(position, size)

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
        """Walk to the last batch end at or before `limit`; `indexed_offset` as in `_walk`."""
        for at, header in self._scan(position, self.log_file.size, offset_min):
            if indexed_offset is not None:
                self._check_indexed(at, header, indexed_offset)
                indexed_offset = None
            position = at + header.size
            if position > limit:
                self._remember_end(header.base_offset, at)
                return at
        return position

    def _remember_end(self, offset: int, position: int) -> None:
        ends = self._read_ends
        if len(ends) >= HINTS_MAX:
            ends.clear()
        ends[offset] = position


def _is_legacy(header: BatchHeader) -> bool:
    return isinstance(header, LegacyHeader)


def _is_at_most(header: BatchHeader, offset: int) -> bool:
    """Whether an index entry of that offset may point at the batch.

    Kafkas that wrote messages of magic 0 and 1 indexed the first offset of what they appended.
    """
    return (header.base_offset if _is_legacy(header) else header.last_offset) <= offset
