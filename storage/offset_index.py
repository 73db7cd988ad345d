"""Sparse map from offset to position in one `.log` file.

    entry (8 bytes, big-endian):  int32 last offset of a batch - base offset
                                  int32 position of that batch's first byte

Entries rise in both columns. One is made for a batch when more than `index.interval.bytes` were
appended since the one before (Kafka: LogSegment.append, OffsetIndex). Not checksummed: it is a
cache. Whoever looks something up checks what stands at the position, and a missing or wrong file
is rebuilt from the log.

Entries are collected in memory, packed, and written in one block at a checkpoint: an append of
a batch costs no system call here. So the newest entries of a crashed broker are missing from the
file, which recovery makes good. The file is read with pread and never mapped: 4 KiB at a time,
the first guess by interpolation, since entries lie evenly.

Kafka preallocates the file and leaves zeros behind the entries when it is killed; they are not
counted, and overwritten.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable

from storage.filesystem import Buffer, File
from storage.open_files import OpenFiles

_ENTRY = struct.Struct(">ii")
ENTRY_SIZE = _ENTRY.size
assert ENTRY_SIZE == 8
BLOCK_ENTRIES = 512  # 4 KiB: one page of the file
RELATIVE_OFFSET_MAX = 2**31 - 1

_OFFSET, _POSITION = 0, 1  # columns
_NONE = (-1, 0)

_pack = _ENTRY.pack
_unpack = _ENTRY.unpack_from


class OffsetIndex:
    """The `.index` file of the segment that begins at `base_offset`.

    The file is opened at the first use. Every method
    may raise OSError; a damaged file makes look-ups answer nonsense, but never raise.
    """

    __slots__ = ("_count", "_files", "_last", "_tail", "_written", "base_offset", "path",
                 "size_max")  # fmt: skip

    def __init__(self, files: OpenFiles, path: str, base_offset: int, size_max: int) -> None:
        self._files = files
        self.path = path
        self.base_offset = base_offset
        self.size_max = size_max  # segment.index.bytes
        self._tail = bytearray()  # entries not yet in the file
        self._written = -1  # entries in the file; -1: not looked yet
        self._count = -1
        self._last = _NONE  # (relative offset, position) of the last entry

    @property
    def entry_count(self) -> int:
        """Entries in the file and in memory."""
        if self._count < 0:
            self._load()
        return self._count

    @property
    def is_full(self) -> bool:
        """Whether the segment must be rolled before another entry."""
        return (self.entry_count + 1) * ENTRY_SIZE > self.size_max

    @property
    def last_entry(self) -> tuple[int, int] | None:
        """(offset, position) of the newest entry."""
        if not self.entry_count:
            return None
        return self.base_offset + self._last[0], self._last[1]

    def append(self, offset: int, position: int) -> None:
        """Add an entry for the batch at `position` whose last offset is `offset`.

        An entry that does not rise above the last one (the file is damaged) is left out.
        """
        if self._count < 0:
            self._load()
        relative = offset - self.base_offset
        last = self._last
        if relative <= last[0] or position < last[1]:
            return
        self._tail += _pack(relative, position)
        self._last = (relative, position)
        self._count += 1

    def lookup(self, offset: int) -> tuple[int, int] | None:
        """Return (offset, position) of the last entry with an offset <= `offset`, or None.

        A damaged file may give anything: the caller must look at what stands at the position.
        """
        return self._find(_OFFSET, offset - self.base_offset)

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

    def _find_in_file(self, column: int, target: int) -> tuple[int, int]:
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
        entries = file.pread(count * ENTRY_SIZE, block * BLOCK_ENTRIES * ENTRY_SIZE)
        return entries, len(entries) // ENTRY_SIZE

    def _load(self) -> None:
        """Count the entries of the file and read the last one."""
        count, last = 0, _NONE
        try:
            file = self._files.get(self.path)
        except FileNotFoundError:
            pass
        else:
            count = count_entries(file, ENTRY_SIZE)
            if count:
                relative, position = _ENTRY.unpack(file.pread(ENTRY_SIZE, (count - 1) * ENTRY_SIZE))
                last = (relative, position)
        self._written, self._count, self._last = count, count, last

    def write_tail(self) -> None:
        """Write the entries that only memory holds. On an OSError they stay in memory."""
        if self._tail:
            file = self._files.get(self.path, create=True)
            file.pwrite(self._tail, self._written * ENTRY_SIZE)
            self._written = self._count
            self._tail = bytearray()

    def sync(self) -> None:
        """Make what was written durable. Blocks; for a thread of the pool."""
        sync_if_dirty(self._files, self.path)

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
        while count and _ENTRY.unpack(file.pread(8, (count - 1) * 8)) != kept:
            count -= 1
        file.truncate(count * ENTRY_SIZE)
        self._written, self._count, self._last = count, count, kept

    def clear(self) -> None:
        """Drop every entry, to build the index again; make the file if it is missing."""
        clear_file(self._files, self.path)
        self._tail = bytearray()
        self._written, self._count, self._last = 0, 0, _NONE

    def sanity_check(self, log_size: int) -> str | None:
        """Say what is wrong with the file at first sight, or None.

        It looks at the size and the last entry, as Kafka's OffsetIndex.sanityCheck does; every
        look-up is verified against the log all the same.
        """
        if not self._files.filesystem.exists(self.path):
            return "missing"
        size = self._files.filesystem.size(self.path)
        if size % ENTRY_SIZE:
            return f"{size} bytes, which is no multiple of {ENTRY_SIZE}"
        if self.entry_count and not (self._last[0] >= 0 and 0 <= self._last[1] < log_size):
            return f"last entry {self._last}, wanted offset >= 0 and position < {log_size}"
        return None

    def reopen(self, path: str) -> None:
        """Take another name, after the file was renamed."""
        self.path = path


def search(entries: Buffer, count: int, column: int, target: int) -> tuple[int, int]:
    """Return the last of `count` packed entries whose column is <= target; (-1, 0) if none."""
    key: Callable[[int], int] = lambda slot: _unpack(entries, slot * ENTRY_SIZE)[column]  # noqa: E731
    slot = bisect_right(range(count), target, key=key) - 1
    if slot < 0:
        return _NONE
    relative, position = _unpack(entries, slot * ENTRY_SIZE)
    return relative, position


def count_entries(file: File, entry_size: int) -> int:
    """Count whole entries of an index file that are not the zeros of a preallocated end."""
    count = file.size() // entry_size
    zeros = bytes(entry_size)
    if not count or file.pread(entry_size, (count - 1) * entry_size) != zeros:
        return count
    low, high = 0, count - 1  # the first zero entry is in [low, high]
    while low < high:
        middle = (low + high) // 2
        if file.pread(entry_size, middle * entry_size) == zeros:
            high = middle
        else:
            low = middle + 1
    return low


def sync_if_dirty(files: OpenFiles, path: str) -> None:
    """Sync an index file that has writes to sync; one that was never made has none."""
    try:
        file = files.get(path)
    except FileNotFoundError:
        return
    if file.dirty:
        file.fdatasync()


def clear_file(files: OpenFiles, path: str) -> None:
    """Cut an index file to nothing, or make an empty one."""
    file = files.get(path, create=True)
    if file.size():
        file.truncate(0)
