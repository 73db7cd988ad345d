"""Sparse map from timestamp to offset in one segment.

    entry (12 bytes, big-endian):  int64 timestamp, ms: the largest in the segment so far
                                   int32 last offset of the batch that holds it - base offset

An entry (T, O) means: every record up to offset O has a timestamp of at most T. Entries rise in
both columns. The index gets one whenever the offset index does, if the largest timestamp has grown.
When a segment is rolled or closed, a last entry records the largest timestamp of the whole segment
(Kafka: TimeIndex, LogSegment.onBecomeInactiveSegment).

`storage.segments.index_file` keeps the file.
"""

from __future__ import annotations

import struct
from bisect import bisect_right

from storage.files.filesystem import Buffer
from storage.segments import cold
from storage.segments.index_file import Entry, IndexFile
from storage.segments.offset_index import RELATIVE_OFFSET_MAX

_ENTRY = struct.Struct(">qi")
ENTRY_SIZE = _ENTRY.size
assert ENTRY_SIZE == 12
NO_TIMESTAMP = -1

_NONE = (NO_TIMESTAMP, -1)

_pack = _ENTRY.pack
_unpack = _ENTRY.unpack_from


class TimeIndex(IndexFile):
    """The `.timeindex` file of the segment that begins at `base_offset`."""

    __slots__ = ()

    layout = _ENTRY
    none = _NONE
    spare_entries = 2  # the last one is for the entry made when the segment is rolled, as in Kafka

    @property
    def last_entry(self) -> tuple[int, int] | None:
        """(timestamp, offset) of the newest entry."""
        if not self.entry_count:
            return None
        return self._last[0], self.base_offset + self._last[1]

    def maybe_append(self, timestamp: int, offset: int) -> bool:
        """Add an entry if the timestamp is larger than the last entry's; return whether it is.

        An offset that does not fit the column (the log is damaged) gets no entry.
        """
        if self._count < 0:
            self._load()
        relative = offset - self.base_offset
        last = self._last
        if timestamp <= last[0] or not last[1] < relative <= RELATIVE_OFFSET_MAX:
            return False
        self._tail += _pack(timestamp, relative)
        self._last = (timestamp, relative)
        self._count += 1
        return True

    def lookup(self, timestamp: int) -> tuple[int, int] | None:
        """Return (timestamp, offset) of the last entry with a timestamp <= `timestamp`, or None.

        A damaged file may return anything: the caller must check the batch of that offset.
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

    def _find_in_file(self, timestamp: int) -> Entry:
        file = self._files.get(self.path)
        low, high = 0, self._written  # the wanted entry is before the slot `high`
        while high - low > 64:  # below that, one read of a few hundred bytes is enough
            middle = (low + high) // 2
            entry = cold.read(file, ENTRY_SIZE, middle * ENTRY_SIZE)
            if len(entry) == ENTRY_SIZE and _unpack(entry)[0] <= timestamp:
                low = middle
            else:
                high = middle
        entries = cold.read(file, (high - low) * ENTRY_SIZE, low * ENTRY_SIZE)
        return _search(entries, len(entries) // ENTRY_SIZE, timestamp)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose batch does not lie wholly below `offset`."""
        if not self.entry_count or self.base_offset + self._last[1] < offset:
            return
        self.write_tail()
        file = self._files.get(self.path)
        count, last = self._count, self._last
        while count and self.base_offset + last[1] >= offset:
            count -= 1
            last = self._read(file, count - 1) if count else _NONE
        self._keep(count, last)


def _search(entries: Buffer, count: int, timestamp: int) -> Entry:
    """Return the last of `count` packed entries not above `timestamp`; (-1, -1) if none."""
    slot = bisect_right(
        range(count), timestamp, key=lambda slot: int(_unpack(entries, slot * ENTRY_SIZE)[0])
    )
    if not slot:
        return _NONE
    found, relative = _unpack(entries, (slot - 1) * ENTRY_SIZE)
    return found, relative
