"""Open files under a bound: files are opened on demand and the longest unused ones are let go.

A broker of 5,000 partitions has more files than a process has descriptors. Callers therefore
keep a path and ask for the `File` at each use: a dictionary look-up when it is open.

- Eviction goes round like a clock's hand: a file used since the hand last passed stays.
- A file with writes that no fdatasync has covered is never let go, nor missing from the table for
  a moment: an error of those writes would be reported to a descriptor that nobody holds any more.
  So the count may stand above the capacity while much is unflushed; `over_capacity_count` says how
  often.
- Between a look-up and the write that follows it, another thread may let the file go. Who writes
  therefore asks with `get_to_write`, or holds on to the `File` until it is synced.
- Letting go is not closing: a thread that still reads the file keeps it open (see `OsFile`).

- Pages of mapped files count as this process's memory once they are sent, though they are the page
  cache's. They are let go when nobody was sent any for a second, and each time it was 512 MiB: not
  at once, since who sends them again has them mapped again, one by one.

Reads of the table need no lock and come from any thread; changes take one. Below Python 3.13 a
mapped file holds two descriptors, so `descriptor_count` counts maps as well.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from storage.files.filesystem import File, FileSystem

VIEWED_BYTES_MAX = 512 * 1024 * 1024  # letting go of so much takes 2 ms


class OpenFiles:
    """The open files of one data directory, at most `capacity` of them but for dirty ones."""

    def __init__(self, filesystem: FileSystem, capacity: int) -> None:
        self.filesystem = filesystem
        self.capacity = capacity
        self.opened_count = 0  # since start
        self.evicted_count = 0
        self.over_capacity_count = 0
        self._viewed_bytes = 0  # since pages were let go
        self._viewed_bytes_before = 0  # the last sweep
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
        """Return the open file of that path, opening it (with `create`: making it) if need be.

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
                pass  # more than one, where what was dirty is synced by now
            file = self.filesystem.open(path, create=create)
            self.opened_count += 1
            self._files[path] = file
        return file

    def peek(self, path: str) -> File | None:
        """Return the file if it is open."""
        return self._files.get(path)

    def viewed(self, size: int) -> None:
        """Note that `size` bytes of a mapped file are going to be sent."""
        self._viewed_bytes += size
        if self._viewed_bytes > VIEWED_BYTES_MAX:
            self._forget_pages()

    def sweep(self) -> None:
        """Let go of mapped pages if none were sent since the last call; about once a second."""
        if self._viewed_bytes and self._viewed_bytes == self._viewed_bytes_before:
            self._forget_pages()
        self._viewed_bytes_before = self._viewed_bytes

    def _forget_pages(self) -> None:
        self._viewed_bytes = 0
        for file in tuple(self._files.values()):
            file.forget_pages()

    def forget(self, path: str) -> None:
        """Let go of a file, dirty or not: its owner has synced it, or removes it."""
        with self._lock:
            self._files.pop(path, None)

    def rename(self, old: str, new: str) -> None:
        """Rename a file on disk, keeping it open under its new name."""
        self.filesystem.rename(old, new)  # without the lock: nobody else is to wait for the disk
        with self._lock:
            self._files.pop(new, None)
            file = self._files.pop(old, None)
            if file is not None:
                file.path = new
                self._files[new] = file

    def close(self) -> None:
        """Let go of every file."""
        with self._lock:
            self._files.clear()

    def _evict(self) -> bool:
        """Move the hand until a file is gone, at most twice round; whether one is."""
        files = self._files
        for _ in range(2 * len(files)):
            path, file = next(iter(files.items()))
            if file.dirty or file.recent:
                file.recent = False
                files.move_to_end(path)  # behind the hand, and found by readers all the while
                continue
            del files[path]
            self.evicted_count += 1
            return True
        self.over_capacity_count += 1
        return False
