"""Sparse map from timestamp to offset in one segment.

    entry (12 bytes, big-endian):  int64 timestamp, ms: the largest in the segment so far
                                   int32 last offset of the batch that holds it - base offset

An entry (T, O) says: every record up to offset O has a timestamp of at most T. Entries rise in
both columns; one is tried whenever the offset index gets one, and left out when the largest
timestamp has not grown. When a segment is rolled or closed, a last entry makes the largest
timestamp of the whole segment known (Kafka: TimeIndex, LogSegment.onBecomeInactiveSegment).

A cache like the offset index, with the same care: not checksummed, collected in memory, written
in one block at a checkpoint, read with pread, verified by whoever asks, rebuilt from the log.
"""

from __future__ import annotations

import struct
from bisect import bisect_right

from storage.filesystem import Buffer
from storage.offset_index import clear_file, count_entries, sync_if_dirty
from storage.open_files import OpenFiles

_ENTRY = struct.Struct(">qi")
ENTRY_SIZE = _ENTRY.size
assert ENTRY_SIZE == 12
NO_TIMESTAMP = -1

_NONE = (NO_TIMESTAMP, -1)

_pack = _ENTRY.pack
_unpack = _ENTRY.unpack_from


class TimeIndex:
    """The `.timeindex` file of the segment that begins at `base_offset`."""

    __slots__ = ("_count", "_files", "_last", "_tail", "_written", "base_offset", "path",
                 "size_max")  # fmt: skip

    def __init__(self, files: OpenFiles, path: str, base_offset: int, size_max: int) -> None:
        self._files = files
        self.path = path
        self.base_offset = base_offset
        self.size_max = size_max  # segment.index.bytes
        self._tail = bytearray()
        self._written = -1
        self._count = -1
        self._last = _NONE  # (timestamp, relative offset) of the last entry

    @property
    def entry_count(self) -> int:
        """Entries in the file and in memory."""
        if self._count < 0:
            self._load()
        return self._count

    @property
    def is_full(self) -> bool:
        """Whether only the last entry, that of rolling, would still fit (as in Kafka)."""
        return (self.entry_count + 2) * ENTRY_SIZE > self.size_max

    @property
    def last_entry(self) -> tuple[int, int] | None:
        """(timestamp, offset) of the newest entry."""
        if not self.entry_count:
            return None
        return self._last[0], self.base_offset + self._last[1]

    def maybe_append(self, timestamp: int, offset: int) -> bool:
        """Add an entry if the timestamp is larger than the last one's. Say whether it was."""
        if self._count < 0:
            self._load()
        relative = offset - self.base_offset
        last = self._last
        if timestamp <= last[0] or relative <= last[1]:
            return False
        self._tail += _pack(timestamp, relative)
        self._last = (timestamp, relative)
        self._count += 1
        return True

    def lookup(self, timestamp: int) -> int:
        """Return the offset of the last entry with a timestamp <= `timestamp`, or the base.

        A record with a timestamp >= it is in the batch that ends at that offset, or behind.
        """
        entry = self.lookup_entry(timestamp)
        return self.base_offset if entry is None else entry[1]

    def lookup_entry(self, timestamp: int) -> tuple[int, int] | None:
        """Return (timestamp, offset) of the last entry with a timestamp <= `timestamp`, or None.

        A damaged file may give anything: the caller must look at the batch of that offset.
        """
        if self._count < 0:
            self._load()
        if not self._count:
            return None
        tail = self._tail
        if timestamp >= self._last[0]:
            found = self._last
        elif tail and _unpack(tail)[0] <= timestamp:
            found = _search(tail, len(tail) // ENTRY_SIZE, timestamp)
        elif not self._written:
            return None
        else:
            found = self._find_in_file(timestamp)
        if found is _NONE:
            return None
        return found[0], self.base_offset + found[1]

    def _find_in_file(self, timestamp: int) -> tuple[int, int]:
        file = self._files.get(self.path)
        low, high = 0, self._written  # the wanted entry is before the slot `high`
        while high - low > 64:  # a few hundred bytes: then one read settles it
            middle = (low + high) // 2
            entry = file.pread(ENTRY_SIZE, middle * ENTRY_SIZE)
            if len(entry) == ENTRY_SIZE and _unpack(entry)[0] <= timestamp:
                low = middle
            else:
                high = middle
        entries = file.pread((high - low) * ENTRY_SIZE, low * ENTRY_SIZE)
        return _search(entries, len(entries) // ENTRY_SIZE, timestamp)

    def _load(self) -> None:
        count, last = 0, _NONE
        try:
            file = self._files.get(self.path)
        except FileNotFoundError:
            pass
        else:
            count = count_entries(file, ENTRY_SIZE)
            if count:
                timestamp, relative = _ENTRY.unpack(
                    file.pread(ENTRY_SIZE, (count - 1) * ENTRY_SIZE)
                )
                last = (timestamp, relative)
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
        """Drop the entries whose batch does not lie wholly below `offset`."""
        if not self.entry_count or self.base_offset + self._last[1] < offset:
            return
        self.write_tail()
        file = self._files.get(self.path)
        count, last = self._count, self._last
        while count and self.base_offset + last[1] >= offset:
            count -= 1
            last = _NONE
            if count:
                timestamp, relative = _ENTRY.unpack(file.pread(12, (count - 1) * 12))
                last = (timestamp, relative)
        file.truncate(count * ENTRY_SIZE)
        self._written, self._count, self._last = count, count, last

    def clear(self) -> None:
        """Drop every entry, to build the index again; make the file if it is missing."""
        clear_file(self._files, self.path)
        self._tail = bytearray()
        self._written, self._count, self._last = 0, 0, _NONE

    def sanity_check(self) -> str | None:
        """Say what is wrong with the file at first sight, or None (TimeIndex.sanityCheck)."""
        if not self._files.filesystem.exists(self.path):
            return "missing"
        size = self._files.filesystem.size(self.path)
        if size % ENTRY_SIZE:
            return f"{size} bytes, which is no multiple of {ENTRY_SIZE}"
        if self.entry_count:
            first, _ = _ENTRY.unpack(self._first())
            if self._last[0] < first or self._last[1] < 0:
                return f"last entry {self._last}, wanted timestamp >= {first} and offset >= 0"
        return None

    def _first(self) -> bytes:
        if self._written:
            return self._files.get(self.path).pread(ENTRY_SIZE, 0)
        return bytes(self._tail[:ENTRY_SIZE])

    def reopen(self, path: str) -> None:
        """Take another name, after the file was renamed."""
        self.path = path


def _search(entries: Buffer, count: int, timestamp: int) -> tuple[int, int]:
    """Return the last of `count` packed entries not above `timestamp`; (-1, -1) if none."""
    slot = bisect_right(
        range(count), timestamp, key=lambda slot: int(_unpack(entries, slot * ENTRY_SIZE)[0])
    )
    if not slot:
        return _NONE
    found, relative = _unpack(entries, (slot - 1) * ENTRY_SIZE)
    return found, relative
