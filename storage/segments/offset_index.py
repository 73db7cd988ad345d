"""Sparse map from offset to position in one `.log` file.

    entry (8 bytes, big-endian):  int32 last offset of a batch - base offset
                                  int32 position of that batch's first byte

Entries rise in both columns. A batch gets one when more than `index.interval.bytes` were appended
since the last entry (Kafka: LogSegment.append, OffsetIndex). The file is a cache without checksums:
callers check the batch at the position, and a missing or wrong file is rebuilt from the log.

`storage.segments.index_file` keeps the file. It is read 4 KiB at a time; the first guess is
interpolated, since entries are evenly spread.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable

from storage.files.filesystem import Buffer, File
from storage.segments import cold
from storage.segments.index_file import Entry, IndexFile

_ENTRY = struct.Struct(">ii")
ENTRY_SIZE = _ENTRY.size
assert ENTRY_SIZE == 8
BLOCK_ENTRIES = 512  # 4 KiB: one page of the file
RELATIVE_OFFSET_MAX = POSITION_MAX = 2**31 - 1

_OFFSET, _POSITION = 0, 1  # columns
_NONE = (-1, 0)

_pack = _ENTRY.pack
_unpack = _ENTRY.unpack_from


class OffsetIndex(IndexFile):
    """The `.index` file of the segment that begins at `base_offset`."""

    __slots__ = ()

    layout = _ENTRY
    none = _NONE
    spare_entries = 1

    @property
    def last_entry(self) -> tuple[int, int] | None:
        """(offset, position) of the newest entry."""
        if not self.entry_count:
            return None
        return self.base_offset + self._last[0], self._last[1]

    def append(self, offset: int, position: int) -> None:
        """Add an entry for the batch at `position` whose last offset is `offset`.

        Does nothing if the entry would not rise above the last one, or does not fit the columns:
        the file or the log is damaged then.
        """
        if self._count < 0:
            self._load()
        relative = offset - self.base_offset
        last = self._last
        if relative <= last[0] or position < last[1]:
            return
        if relative > RELATIVE_OFFSET_MAX or position > POSITION_MAX:
            return
        self._tail += _pack(relative, position)
        self._last = (relative, position)
        self._count += 1

    def lookup(self, offset: int) -> tuple[int, int] | None:
        """Return (offset, position) of the last entry with an offset <= `offset`, or None.

        A damaged file may return anything: the caller must check the batch at the position.
        """
        return self._find(_OFFSET, offset - self.base_offset)

    def lookup_behind(self, offset: int) -> tuple[int, int] | None:
        """Return (offset, position) of the first entry with an offset >= `offset`, or None.

        It reads entry by entry: for the rare look-up that damage has stopped.
        """
        relative = offset - self.base_offset
        slot = bisect_left(range(self.entry_count), relative, key=lambda slot: self._at(slot)[0])
        if slot == self.entry_count:
            return None
        found = self._at(slot)
        return self.base_offset + found[0], found[1]

    def _at(self, slot: int) -> Entry:
        if slot < self._written:
            return self._read(self._files.get(self.path), slot)
        first, second = _unpack(self._tail, (slot - self._written) * ENTRY_SIZE)
        return first, second

    def lookup_position(self, position: int) -> tuple[int, int] | None:
        """Return (offset, position) of the last entry with a position <= `position`, or None."""
        return self._find(_POSITION, position)

    def _find(self, column: int, target: int) -> tuple[int, int] | None:
        if self._count < 0:
            self._load()
        if not self._count:
            return None
        tail = self._tail
        if target >= self._last[column]:
            found = self._last
        elif tail and _unpack(tail)[column] <= target:
            found = search(tail, len(tail) // ENTRY_SIZE, column, target)
        elif not self._written:
            return None
        else:
            found = self._find_in_file(column, target)
        if found is _NONE:
            return None
        return self.base_offset + found[0], found[1]

    def _find_in_file(self, column: int, target: int) -> Entry:
        """Find the block that holds the entry: guess, then halve what is left."""
        file = self._files.get(self.path)
        low, high = 0, (self._written - 1) // BLOCK_ENTRIES  # blocks that may hold it
        guess = self._written * target // max(1, self._last[column]) // BLOCK_ENTRIES
        best = _NONE
        while low <= high:
            block = min(max(guess, low), high)
            entries, count = self._read_block(file, block)
            if count == 0 or _unpack(entries)[column] > target:
                high = block - 1
            else:
                best = search(entries, count, column, target)
                if count < BLOCK_ENTRIES or _unpack(entries, (count - 1) * 8)[column] > target:
                    return best
                low = block + 1
            guess = (low + high) // 2
        return best

    def _read_block(self, file: File, block: int) -> tuple[bytes, int]:
        count = min(BLOCK_ENTRIES, self._written - block * BLOCK_ENTRIES)
        entries = cold.read(file, count * ENTRY_SIZE, block * BLOCK_ENTRIES * ENTRY_SIZE)
        return entries, len(entries) // ENTRY_SIZE

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of batches that do not lie wholly below `offset`."""
        found = self.lookup(offset - 1)
        if found is None:
            self.clear()
            return
        kept = (found[0] - self.base_offset, found[1])
        if kept == self._last:
            return
        self.write_tail()
        file = self._files.get(self.path)
        count = self._count
        while count and self._read(file, count - 1) != kept:
            count -= 1
        self._keep(count, kept)


def search(entries: Buffer, count: int, column: int, target: int) -> Entry:
    """Return the last of `count` packed entries whose column is <= target; (-1, 0) if none."""
    key: Callable[[int], int] = lambda slot: _unpack(entries, slot * ENTRY_SIZE)[column]  # noqa: E731
    slot = bisect_right(range(count), target, key=key) - 1
    if slot < 0:
        return _NONE
    relative, position = _unpack(entries, slot * ENTRY_SIZE)
    return relative, position
