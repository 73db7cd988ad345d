"""Deleted files and directories that wait for their file.delete.delay.ms to pass.

Deleting only renames: a file to `.deleted`, the directory of a log to `…-delete`. As in Kafka, the
delay lets a reader that has just found a segment still open it. The trash is kept in memory; a
restart rebuilds it from the names.

A look-up that has gone on in a thread may have opened a deleted file again. An open file keeps its
space, so the table of open files forgets it once it is removed.
"""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Callable, Container, Sequence
from typing import Final

from storage.files.filesystem import FileSystem
from storage.files.room import NO_DESCRIPTOR

FOREVER_MS: Final = 1 << 64  # as the time it makes everything due: no delay is longer

_Due = list[tuple[int, str]]  # (when to remove it, ms; path)


class Trash:
    """The files and directories to remove from one data directory. Times in ms."""

    __slots__ = ("_directories", "_files", "_filesystem", "_forget", "_lock")

    def __init__(
        self, filesystem: FileSystem, forget: Callable[[str], None] = lambda _: None
    ) -> None:
        """`forget(path)` closes a file that is removed, from any thread."""
        self._filesystem = filesystem
        self._forget = forget
        self._files: _Due = []
        self._directories: _Due = []
        self._lock = threading.Lock()  # logs are opened in threads, which find deleted files

    def toss(self, due_ms: int, path: str) -> None:
        """Add a deleted file, to be unlinked at `due_ms` or later. From any thread."""
        with self._lock:
            self._files.append((due_ms, path))

    def toss_directory(self, due_ms: int, path: str) -> None:
        """Add a deleted directory, to be removed with its files. From any thread."""
        with self._lock:
            self._directories.append((due_ms, path))

    def forget_in(self, directories: Container[str]) -> None:
        """Forget the files in `directories`, which are in the trash themselves."""
        with self._lock:
            self._files = [
                item for item in self._files if posixpath.dirname(item[1]) not in directories
            ]

    def begin_purge(self, now_ms: int) -> Purge | None:
        """Take what is due out of the trash; return the job that removes it, or None."""
        with self._lock:
            paths, self._files = _split(self._files, now_ms)
            directories, self._directories = _split(self._directories, now_ms)
        if not paths and not directories:
            return None
        return Purge(self._filesystem, paths, directories, self.toss_directory, self._forget)


def _split(items: _Due, now_ms: int) -> tuple[list[str], _Due]:
    """Return the paths that are due, and the other items."""
    due = [path for due_ms, path in items if due_ms <= now_ms]
    return due, [item for item in items if item[0] > now_ms] if due else items


class Purge:
    """Removes files and directories; `complaints` says what could not be removed.

    To list a directory takes a descriptor. If there is none, it goes back into the trash.
    """

    __slots__ = ("_directories", "_filesystem", "_forget", "_paths", "_put_back", "complaints")

    def __init__(
        self,
        filesystem: FileSystem,
        paths: Sequence[str],
        directories: Sequence[str],
        put_back: Callable[[int, str], None],
        forget: Callable[[str], None],
    ) -> None:
        self._put_back = put_back
        self._forget = forget
        self._filesystem = filesystem
        self._paths = paths
        self._directories = directories
        self.complaints: list[str] = []

    def run(self) -> None:
        """Remove them all. Blocks."""
        for path in self._paths:
            try:
                self._unlink(path)
            except FileNotFoundError:
                continue  # its directory was removed or renamed meanwhile
            except OSError as error:
                self.complaints.append(f"cannot delete {path}: {error}")
        for directory in self._directories:
            try:
                for name in self._filesystem.list(directory):
                    self._unlink(posixpath.join(directory, name))
                self._filesystem.rmdir(directory)
            except OSError as error:
                if error.errno in NO_DESCRIPTOR:
                    self._put_back(0, directory)
                    continue
                self.complaints.append(
                    f"cannot delete {directory}: {error}; the next start tries again"
                )

    def _unlink(self, path: str) -> None:
        self._filesystem.unlink(path)
        self._forget(path)
