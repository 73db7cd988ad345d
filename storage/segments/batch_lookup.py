"""Finding batches in one segment, by offset.

A look-up takes the last index entry at or below the offset, then walks over batch headers to the
batch that contains it. It checks what it finds. If the entry does not lead to a matching batch, the
index is damaged: that is reported once (`SegmentIndexes.report`), and the walk starts at the
beginning of the file instead. So a wrong index costs time, and never gives a wrong answer. A header
that does not fit its neighbours raises `DamagedLog`: the log is damaged.

The positions of the last few appended batches, and those where the last few reads ended, are
remembered: a consumer that reads on needs no look-up, only the header at that position. The last
look-up is remembered too and used once more, since a fetch asks for the available bytes first.

`storage.segments.segment_reader` reads what was found.
"""

from __future__ import annotations

from collections.abc import Iterator

from protocol.legacy_batches import LegacyHeader
from protocol.record_batch import HEADER_SIZE, MAGIC, BatchHeader, read_header
from storage.errors import DamagedLog
from storage.segments.log_file import LogFile
from storage.segments.segment_indexes import SegmentIndexes

LOOKUP_CHUNK_BYTES = 4096  # Kafka's default of index.interval.bytes: what a look-up walks
HINTS_MAX = 16  # remembered positions of each kind


class BatchLookup:
    """One segment, to search. `next_offset` is the offset after its last batch, -1 if unknown."""

    __slots__ = (
        "_appended", "_found", "_hole_from", "_last_end", "_read_ends", "base_offset", "indexes",
        "log_file", "next_offset",
    )  # fmt: skip

    def __init__(self, base_offset: int, log_file: LogFile, indexes: SegmentIndexes) -> None:
        self.base_offset = base_offset
        self.log_file = log_file
        self.indexes = indexes
        self.next_offset = base_offset if log_file.size == 0 else -1
        self._appended: dict[int, int] = {}  # base offset of a batch -> its position
        self._read_ends: dict[int, int] = {}  # offset a read ended before -> the position
        self._last_end = (-1, -1)  # that position, and the offset, of the newest of them
        self._found: tuple[int, int, BatchHeader] | None = None  # the last look-up, for one more
        self._hole_from = -1  # where a hole begins before the batch of that look-up, -1: none seen

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

    def known_position(self, offset: int) -> int | None:
        """Return where a batch that begins with `offset` was, or would come, if it is known."""
        position = self._appended.get(offset)
        return self._read_ends.get(offset) if position is None else position

    def _find(self, offset: int, end: int) -> tuple[int, BatchHeader] | None:
        self._hole_from = -1
        position = self.known_position(offset)
        if position is not None:
            if position >= end:
                return None
            if position + HEADER_SIZE <= end:
                header = read_header(self.log_file.read(position, HEADER_SIZE))
                if header.base_offset == offset and self._is_sound(position, header, end):
                    return position, header
            # A gap, or damage: look properly.
        try:
            return self._look_up(offset, end)
        except DamagedLog:
            found = self._behind_damage(offset, end)
            if found is None:
                raise
            return found

    def _look_up(self, offset: int, end: int) -> tuple[int, BatchHeader] | None:
        """Find a batch by the last index entry before it."""
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

    def _behind_damage(self, offset: int, end: int) -> tuple[int, BatchHeader] | None:
        """Return the batch that holds `offset` if the next index entry points at it.

        That entry has the batch's last offset, so the look-up began at the entry before.
        """
        entry = self.indexes.lookup_behind(offset)
        if entry is None or entry[1] >= end or not self.leads_to_batch(entry):
            return None
        header = self.log_file.read_header_at(entry[1])
        if header is None or not header.base_offset <= offset <= header.last_offset == entry[0]:
            return None
        return entry[1], header

    def walk_start(self, offset: int) -> int:
        """Return the position of a batch at or before `offset`, not far from it."""
        entry = self.indexes.lookup(offset)
        return entry[1] if entry is not None and self.leads_to_batch(entry) else 0

    def _walk(
        self, position: int, end: int, offset: int, indexed_offset: int | None = None
    ) -> tuple[int, BatchHeader] | None:
        """Walk to the first batch that ends at or behind `offset`.

        If that batch begins behind the offset, the batch after it is checked as well: if it is
        sound by itself, but does not follow, the first one's offset is damage and no gap.

        With `indexed_offset`, an index entry led to `position`: the batch there must end at or
        below that offset. (Not exactly at it: for several batches appended at once, older Kafkas
        made one entry, with the last offset and the first position.)
        """
        behind = None
        due = self.base_offset if position == 0 else -1
        try:
            for at, header in self._scan(position, end):
                if indexed_offset is not None:
                    self._check_indexed(at, header, indexed_offset)
                    indexed_offset = None
                if behind is not None:
                    return behind
                following = header.base_offset + header.last_offset_delta + 1
                if following > offset:
                    if header.base_offset > due:
                        self._hole_from = due
                    if header.base_offset <= offset:
                        return at, header
                    behind = at, header
                due = following
        except DamagedLog as damage:
            if behind is None or self._is_possible(damage.position, end):
                raise
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

    def _is_possible(self, position: int, end: int) -> bool:
        """Whether what is at a position is sound by itself."""
        header = self.log_file.read_header_at(position)
        return header is not None and self._is_sound(position, header, end)

    def leads_to_batch(self, entry: tuple[int, int]) -> bool:
        """Whether an offset index entry points at a batch that matches its offset (see `_walk`)."""
        offset, position = entry
        header = self.log_file.read_header_at(position) if position >= 0 else None
        return (
            header is not None
            and self._is_sound(position, header, self.log_file.size)
            and _is_at_most(header, offset)
        )


def _is_legacy(header: BatchHeader) -> bool:
    return isinstance(header, LegacyHeader)


def _is_at_most(header: BatchHeader, offset: int) -> bool:
    """Whether an index entry of that offset may point at the batch.

    Kafkas that wrote messages of magic 0 and 1 indexed the first offset of what they appended.
    """
    return (header.base_offset if _is_legacy(header) else header.last_offset) <= offset
