"""An open file of a disk in memory (`tests.support.memory_filesystem`).

It goes with the process that opened it: after `kill` and `crash` every call raises EBADF. Writes
are counted as the product's own files count them: before the call that may wait.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from storage.files.filesystem import Buffer
from tests.support.memory_inodes import Inode, os_error

if TYPE_CHECKING:
    from tests.support.memory_filesystem import MemoryFileSystem


class MemoryFile:
    """An open file of a MemoryFileSystem."""

    def __init__(
        self, filesystem: MemoryFileSystem, path: str, inode: Inode, *, writable: bool
    ) -> None:
        self.path = path
        self.recent = False
        self.mapped: memoryview | None = None
        self.writes = 0
        self.synced_writes = 0
        self._filesystem = filesystem
        self._inode = inode
        self._writable = writable
        self._generation = filesystem.generation
        self._closed = False

    @property
    def dirty(self) -> bool:
        return self.writes != self.synced_writes

    def size(self) -> int:
        self._check()
        return len(self._inode.live)

    def pread(self, size: int, position: int) -> bytes:
        self._enter("pread", size, position)
        return bytes(memoryview(self._inode.live)[position : position + size])

    def pread_nowait(self, size: int, position: int) -> Buffer | None:
        self._enter("pread", size, position)
        if self.path in self._filesystem.cold:
            return None
        return bytes(memoryview(self._inode.live)[position : position + size])

    def is_cached(self, position: int, size: int) -> bool:
        self._check()
        return self.path not in self._filesystem.cold

    def pull(self, size: int, position: int) -> int:
        self._enter("pread", size, position)
        return max(0, min(size, len(self._inode.live) - position))

    def pwrite(self, buffer: Buffer, position: int) -> None:
        self._check()
        self.writes += 1
        data = bytes(buffer)
        filesystem = self._filesystem
        fault = filesystem._enter("pwrite", self.path, len(data), position)
        if not self._writable:
            raise os_error(errno.EBADF, self.path)
        inode = self._inode
        if fault is not None:
            error, bytes_written = fault
            if bytes_written:
                inode.write(data[:bytes_written], position)
            raise error
        if filesystem.capacity_bytes is not None:
            growth = max(0, position + len(data) - inode.used_bytes)
            free = filesystem.room_bytes() if growth else 0
            if growth > free:
                inode.write(data[: len(data) - growth + free], position)
                raise os_error(errno.ENOSPC, self.path)
        inode.write(data, position)

    sync_descriptor = -1

    def note_synced(self, covered: int) -> None:
        raise AssertionError("no descriptor, no sync beside the process")

    def fdatasync(self) -> None:
        self._check()
        covered = self.writes  # what comes while this waits is not covered
        self._sync()
        self.synced_writes = covered

    def _sync(self) -> None:
        mark = self._inode.mark
        try:
            self._enter("fdatasync")
        except OSError as error:
            if error.errno != errno.ESHUTDOWN:  # the call was not made: the process has ended
                self._inode.forget(mark)
            raise
        self._inode.settle(mark)

    def truncate(self, size: int) -> None:
        self.writes += 1
        self._enter("truncate")
        self._inode.truncate(size)

    def reserve(self, size: int) -> None:
        self._enter("reserve", size)
        inode = self._inode
        if size - inode.used_bytes > self._filesystem.room_bytes():
            raise os_error(errno.ENOSPC, self.path)
        inode.reserved_bytes = max(inode.reserved_bytes, size)

    def map(self, size: int) -> memoryview:
        self._enter("map", size)
        if not 0 < size <= len(self._inode.live):
            raise ValueError("mmap length is greater than file size")
        return memoryview(bytes(self._inode.live[:size]))

    def forget_pages(self) -> None:
        self._check()

    def close(self) -> None:
        self._enter("close")
        self.mapped = None
        self._closed = True

    def _check(self) -> None:
        if self._closed or self._generation != self._filesystem.generation:
            raise os_error(errno.EBADF, self.path)

    def _enter(self, op: str, size: int = 0, position: int = 0) -> None:
        self._check()
        self._filesystem._enter(op, self.path, size, position)
