"""What the logs of one data directory share: the file system, the open files, counts, the trash.

The trash holds files that were deleted by name only: they are called `.deleted`, nothing reads
them any more, and the manager unlinks them when their delay has passed. Kafka does the same
(file.delete.delay.ms), so that a reader that has just found a segment can still open it.
"""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Container, Iterable
from contextlib import suppress

from storage.files import filenames
from storage.files.filesystem import FileSystem
from storage.files.open_files import OpenFiles
from storage.files.room import Room

FOREVER_MS = 1 << 64  # given as the time, it makes everything due: no delay is longer


class Home:
    """Shared by the logs of one data directory.

    `unflushed_bytes` is the sum of those that are fsynced before they are acknowledged: what a
    log with `write.caching` leaves to the page cache is not waited for, and does not count.
    """

    __slots__ = ("_trash", "_trash_lock", "checkpoint_changes", "files", "filesystem",
                 "producer_expiration_ms", "room", "unflushed_bytes")  # fmt: skip

    def __init__(
        self, filesystem: FileSystem, files: OpenFiles, producer_expiration_ms: int
    ) -> None:
        self.filesystem = filesystem
        self.files = files
        self.producer_expiration_ms = producer_expiration_ms
        self.room = Room()
        self.unflushed_bytes = 0
        self.checkpoint_changes = 0  # of recovery points and start offsets
        self._trash: list[tuple[int, str]] = []  # (when to unlink, ms; path)
        self._trash_lock = threading.Lock()  # logs are opened in threads, and find some

    def discard(self, directory: str, names: Iterable[str], due_ms: int) -> None:
        """Give the files that exist of `names` their `.deleted` names. Blocks. Raises OSError."""
        for name in names:
            path = posixpath.join(directory, name)
            trashed = filenames.deleted(path)
            with suppress(FileNotFoundError):
                self.files.rename(path, trashed)
                self.files.forget(trashed)
                self.toss(due_ms, trashed)

    def toss(self, due_ms: int, path: str) -> None:
        """Have a file that nothing reads any more unlinked at `due_ms`; from any thread."""
        with self._trash_lock:
            self._trash.append((due_ms, path))

    def take_due(self, now_ms: int) -> list[str]:
        """Take the paths of the trash whose time has come: they are the caller's to unlink."""
        with self._trash_lock:
            due = [path for due_ms, path in self._trash if due_ms <= now_ms]
            if due:
                self._trash = [item for item in self._trash if item[0] > now_ms]
        return due

    def forget_trash(self, directories: Container[str]) -> None:
        """Forget the trash in `directories`, which have become trash themselves."""
        with self._trash_lock:
            self._trash = [
                item for item in self._trash if posixpath.dirname(item[1]) not in directories
            ]
