"""The file of an index: rising entries of one size, the newest of them in memory.

New entries are packed in memory (`_tail`) and written in one block at a checkpoint, so an append
costs no system call. After a crash the newest entries are missing from the file, and recovery adds
them. The file is opened at its first use, read with pread and never mapped. It is a cache: not
checksummed, checked against the log at each look-up, and rebuilt from the log.

Kafka preallocates its index files and leaves zeros behind the entries when it is killed. They are
not counted, and are overwritten.
"""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from storage.files.filesystem import File
from storage.files.open_files import OpenFiles
from storage.segments import cold

Entry = tuple[int, int]


class IndexFile:
    """Entries of two columns; a subclass sets their `layout`, and the value for "no entry".

    Every method may raise OSError. On a damaged file look-ups return nonsense, but do not raise.
    """

    __slots__ = ("_count", "_files", "_last", "_tail", "_written", "base_offset", "path",
                 "size_max")  # fmt: skip

    layout: ClassVar[struct.Struct]
    none: ClassVar[Entry]
    # Entries that must still fit for another one to be added.
    spare_entries: ClassVar[int]

    def __init__(self, files: OpenFiles, path: str, base_offset: int, size_max: int) -> None:
        self._files = files
        self.path = path
        self.base_offset = base_offset
        self.size_max = size_max  # segment.index.bytes
        self._tail = bytearray()  # entries not yet in the file
        self._written = -1  # entries in the file; -1: not counted yet
        self._count = -1
        self._last = self.none  # as it is packed

    def twin(self) -> Self:
        """Return another object for the same file, which knows only what the file has."""
        return type(self)(self._files, self.path, self.base_offset, self.size_max)

    @property
    def is_loaded(self) -> bool:
        """Whether entries can be added without reading the file."""
        return self._count >= 0

    @property
    def entry_count(self) -> int:
        """Entries in the file and in memory."""
        if self._count < 0:
            self._load()
        return self._count

    @property
    def size_bytes(self) -> int:
        """Bytes of all entries."""
        return self.entry_count * self.layout.size

    @property
    def is_full(self) -> bool:
        """Whether the segment must be rolled before another entry."""
        return (self.entry_count + self.spare_entries) * self.layout.size > self.size_max

    def _load(self) -> None:
        """Count the entries of the file and read the last one."""
        count, last = 0, self.none
        try:
            file = self._files.get(self.path)
        except FileNotFoundError:
            pass
        else:
            count = count_entries(file, self.layout.size)
            if count:
                last = self._read(file, count - 1)
        self._written, self._count, self._last = count, count, last

    def _read(self, file: File, slot: int) -> Entry:
        """Return one entry of the file; of one that was cut meanwhile, none."""
        size = self.layout.size
        data = cold.read(file, size, slot * size)
        if len(data) < size:
            return self.none
        first, second = self.layout.unpack(data)
        return first, second

    def write_tail(self) -> None:
        """Write the entries that only memory holds. On an OSError they stay in memory."""
        if self._tail:
            file = self._files.get_to_write(self.path, create=True)
            file.pwrite(self._tail, self._written * self.layout.size)
            self._written = self._count
            self._tail = bytearray()

    def write_again(self, content: bytes) -> None:
        """Have the next `write_tail` write all entries: `content` is what the file had.

        A sync that fails may lose what was written before it, and the next one does not tell.
        A roll may have written more since. Raises OSError.
        """
        if self._written < 0:
            self._load()
        size = self._written * self.layout.size
        if len(content) < size:
            content += cold.read(self._files.get(self.path), size - len(content), len(content))
        if len(content) >= size:
            self._tail[:0] = content[:size]
            self._written = 0

    def sync(self) -> None:
        """Make what was written durable. Blocks; for a thread of the pool."""
        try:
            file = self._files.get(self.path)
        except FileNotFoundError:
            return  # it was never made
        if file.dirty:
            file.fdatasync()

    def _keep(self, count: int, last: Entry) -> None:
        """Cut the file, in which all entries are, to `count` of them; `last` is the last kept."""
        self._files.get_to_write(self.path).truncate(count * self.layout.size)
        self._written, self._count, self._last = count, count, last

    def drop_last(self) -> None:
        """Drop the newest entry, which must be in the file, as after opening it."""
        count = self.entry_count - 1
        assert 0 <= count < self._written, "the newest entry is in the file"
        self._keep(count, self._read(self._files.get(self.path), count - 1) if count else self.none)

    def drop_zeros(self) -> None:
        """Cut the zeros behind the entries, which a power cut or a killed Kafka leaves."""
        size = self.entry_count * self.layout.size
        if not self._tail and self._files.get(self.path, create=True).size() > size:
            self._files.get_to_write(self.path).truncate(size)

    def clear(self) -> None:
        """Drop every entry; make the file if it is missing."""
        if self._files.get(self.path, create=True).size():
            self._files.get_to_write(self.path).truncate(0)
        self.begin_anew()

    def begin_anew(self) -> None:
        """Drop every entry from memory, to build the index again; the file stays until `replace`.

        Nothing else may write the file meanwhile.
        """
        self._tail = bytearray()
        self._written, self._count, self._last = 0, 0, self.none

    def replace(self) -> None:
        """Replace the file by the entries that were added since `begin_anew`, durably. Blocks.

        A crash leaves the old file or the new one, and none if there was none.
        """
        assert not self._written, "all entries are in memory"
        self._files.replace(self.path, bytes(self._tail))
        self._written, self._tail = self._count, bytearray()


def count_entries(file: File, entry_size: int) -> int:
    """Count whole entries of an index file that are not the zeros of a preallocated end."""
    count = file.size() // entry_size
    zeros = bytes(entry_size)
    if not count or cold.read(file, entry_size, (count - 1) * entry_size) != zeros:
        return count
    low, high = 0, count - 1  # the first zero entry is in [low, high]
    while low < high:
        middle = (low + high) // 2
        if cold.read(file, entry_size, middle * entry_size) == zeros:
            high = middle
        else:
            low = middle + 1
    return low
