"""A bounded table of open files: opened on demand, evicted when they are not used.

A broker with 5,000 partitions has more files than a process may have descriptors. Callers therefore
keep a path and ask for the `File` at each use: a dictionary look-up if it is open.

- Eviction uses the clock algorithm: a file that was used since the hand last passed stays.
- A file with writes that no fdatasync has covered is never evicted, nor missing from the table for
  a moment: the kernel would report an error of those writes to a descriptor that is closed. So the
  table may exceed its capacity while much is unflushed; `over_capacity_count` counts that.
- Between a look-up and the write that follows it, another thread may evict the file. Writers
  therefore use `get_to_write`, or keep the `File` until it is synced.
- Eviction does not close a file that a thread still reads: the descriptor is closed with the last
  reference (see `storage.files.filesystem`).
- The capacity leaves descriptors for connections, but they may take more than their share. If the
  system has no descriptor left, files that are not used are closed for it, one after the other.
- Pages of mapped files count as this process's memory once they are sent, although they belong to
  the page cache. They are released after every 32 MiB, and after a second without such sends:
  mapping them again for the next send costs nothing measurable (docs/decisions/0030).

Look-ups in the table need no lock and come from any thread; changes take one. Before Python 3.13 a
mapped file holds two descriptors, so `descriptor_count` counts maps as well.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from storage.files.filesystem import File, FileSystem
from storage.files.room import NO_DESCRIPTOR

# A file that is evicted gives no descriptor back while a reader holds it, or if another takes it.
EVICTED_FOR_ONE_MAX = 16
VIEWED_BYTES_MAX = 32 * 1024 * 1024


class OpenFiles:
    """The open files of one data directory: at most `capacity`, unless more are dirty."""

    def __init__(self, filesystem: FileSystem, capacity: int) -> None:
        self.filesystem = filesystem
        self.capacity = capacity
        self.opened_count = 0  # since start
        self.evicted_count = 0
        self.over_capacity_count = 0
        self._viewed_bytes = 0  # since pages were released
        self._viewed_bytes_before = 0  # the last sweep
        self._viewed: dict[str, File] = {}  # by path, since pages were released
        self._files: OrderedDict[str, File] = OrderedDict()  # from the hand on
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._files)

    @property
    def descriptor_count(self) -> int:
        """Descriptors that the open files and their maps hold."""
        files = list(self._files.values())
        return len(files) + sum(file.mapped is not None for file in files)

    def get(self, path: str, create: bool = False) -> File:  # noqa: FBT001, FBT002
        """Return the file of that path; open it if it is not open, with `create` make it.

        Raises OSError as the file system gives it.
        """
        file = self._files.get(path)
        if file is not None:
            file.recent = True
            return file
        with self._lock:
            return self._opened(path, create)

    def get_to_write(self, path: str, create: bool = False) -> File:  # noqa: FBT001, FBT002
        """As `get`, for a caller that is about to write: the file stays until it is synced."""
        with self._lock:
            file = self._opened(path, create)
            file.writes += 1  # dirty from here on
        return file

    def _opened(self, path: str, create: bool) -> File:  # noqa: FBT001
        file = self._files.get(path)
        if file is None:
            while len(self._files) >= self.capacity and self._evict():
                pass  # more than one if files that were dirty are synced by now
            file = self._files[path] = self._open(path, create)
            self.opened_count += 1
        return file

    def _open(self, path: str, create: bool) -> File:  # noqa: FBT001
        for tries_left in range(EVICTED_FOR_ONE_MAX, -1, -1):
            try:
                return self.filesystem.open(path, create=create)
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR or not tries_left or not self._evict():
                    raise
        raise AssertionError("the last try returns or raises")

    def peek(self, path: str) -> File | None:
        """Return the file if it is open."""
        return self._files.get(path)

    def viewed(self, file: File, size: int) -> None:
        """Count `size` bytes of a mapped file that are about to be sent."""
        self._viewed[file.path] = file
        self._viewed_bytes += size
        if self._viewed_bytes > VIEWED_BYTES_MAX:
            self._forget_pages()

    def sweep(self) -> None:
        """Release mapped pages if none were sent since the last call, about a second ago."""
        if self._viewed_bytes and self._viewed_bytes == self._viewed_bytes_before:
            self._forget_pages()
        self._viewed_bytes_before = self._viewed_bytes

    def _forget_pages(self) -> None:
        self._viewed_bytes = 0
        viewed, self._viewed = self._viewed, {}
        for file in viewed.values():
            file.forget_pages()

    def forget(self, path: str) -> None:
        """Drop a file, dirty or not: its owner has synced it, or removes it."""
        with self._lock:
            self._files.pop(path, None)
            self._viewed.pop(path, None)  # nothing here keeps the file of a deleted segment open

    def replace(self, path: str, data: bytes) -> None:
        """Replace a file on disk, durably, and drop the old one, which may be open. Blocks.

        Raises OSError, perhaps after the file was replaced: then its name is not durable.
        """
        try:
            self.filesystem.replace(path, data)
        finally:
            self.forget(path)

    def rename(self, old: str, new: str) -> None:
        """Rename a file on disk, keeping it open under its new name."""
        self.filesystem.rename(old, new)  # without the lock: no other thread must wait for the disk
        with self._lock:
            self._files.pop(new, None)
            self._viewed.pop(new, None)
            self._viewed.pop(old, None)
            file = self._files.pop(old, None)
            if file is not None:
                file.path = new
                self._files[new] = file

    def close(self) -> None:
        """Drop every file."""
        with self._lock:
            self._files.clear()
            self._viewed.clear()

    def _evict(self) -> bool:
        """Move the hand until a file is evicted, at most twice round; return whether one was."""
        files = self._files
        for _ in range(2 * len(files)):
            path, file = next(iter(files.items()))
            if file.dirty or file.recent:
                file.recent = False
                files.move_to_end(path)  # behind the hand; readers find it all the time
                continue
            del files[path]
            self._viewed.pop(path, None)
            self.evicted_count += 1
            return True
        self.over_capacity_count += 1
        return False
