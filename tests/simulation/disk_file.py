"""An open file of the simulated disk (`tests.simulation.disk`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.files.filesystem import Buffer, File
from tests.simulation.loop_watch import watch_class
from tests.support.memory_file import MemoryFile
from tests.support.memory_filesystem import MemoryFileSystem
from tests.support.memory_inodes import Inode

if TYPE_CHECKING:
    from tests.simulation.disk import SimDisk


class SimFile(MemoryFile):
    """An open file of a `SimDisk`. It counts as open until it is closed or dropped."""

    _filesystem: SimDisk

    def __init__(
        self, filesystem: MemoryFileSystem, path: str, inode: Inode, *, writable: bool
    ) -> None:
        super().__init__(filesystem, path, inode, writable=writable)
        self._filesystem.open_count += 1
        self.watch = self._filesystem.watch
        self.descriptor = 0  # once it was asked for
        self._covered = 0  # of its writes, by syncs beside the process

    def __del__(self) -> None:
        self._left()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, or its process has ended."""
        return self._closed or self._generation != self._filesystem.generation

    def _left(self) -> None:
        if not self._closed and self._generation == self._filesystem.generation:
            self._filesystem.open_count -= 1

    def close(self) -> None:
        self._check()
        self._left()
        self.mapped = None
        self._closed = True

    def pread(self, size: int, position: int) -> bytes:
        data = super().pread(size, position)
        self._filesystem.warm(self._inode)
        return data

    def pull(self, size: int, position: int) -> int:
        count = super().pull(size, position)
        self._filesystem.warm(self._inode)
        return count

    def pread_nowait(self, size: int, position: int) -> Buffer | None:
        disk = self._filesystem
        self.watch.count("bytes read", size, self.path)
        self._enter("pread", size, position)
        if disk.is_cold(self._inode):
            return None
        return bytes(memoryview(self._inode.live)[position : position + size])

    def is_cached(self, position: int, size: int) -> bool:
        self._check()
        return not self._filesystem.is_cold(self._inode)

    def pwrite(self, buffer: Buffer, position: int) -> None:
        self._filesystem.order.written(self.path)
        is_append = position >= len(self._inode.live)
        try:
            super().pwrite(buffer, position)
        except OSError as error:
            self._filesystem.hurt("pwrite", self.path, error)
            raise
        if is_append:
            self._filesystem.ends.appended(self.path, self._inode, position, buffer)
        self._filesystem.warm(self._inode)
        self._filesystem.after("pwrite")

    def reserve(self, size: int) -> None:
        try:
            super().reserve(size)
        except OSError as error:
            self._filesystem.hurt("reserve", self.path, error)
            raise

    @property
    def sync_descriptor(self) -> int:  # type: ignore[override]
        return self._filesystem.descriptor_of(self)

    def note_synced(self, covered: int) -> None:
        if covered > self._covered:
            self._filesystem.order.noted_too_much(self.path)
        self.synced_writes = covered

    def sync_beside(self) -> None:
        """Sync as the kernel does by itself: what this covers is for the caller to note."""
        covered = self.writes
        self._sync()
        self._covered = max(self._covered, covered)

    def _sync(self) -> None:
        self._filesystem.syncs(self.path)
        try:
            super()._sync()
        except OSError:
            self._filesystem.order.sync_failed(self.path, self._inode)
            raise
        self._filesystem.order.synced(self.path, self._inode)
        self._filesystem.has_synced()
        self._filesystem.after("fdatasync")

    def truncate(self, size: int) -> None:
        self._filesystem.order.written(self.path)
        super().truncate(size)
        self._filesystem.after("truncate")


watch_class(SimFile, File)
