"""What the logs of one data directory share: the file system, the open files, counts, the trash.

The trash holds files that were deleted by name only: they are called `.deleted`, nothing reads
them any more, and the manager unlinks them when their delay has passed. Kafka does the same
(file.delete.delay.ms), so that a reader that has just found a segment can still open it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from storage import filenames
from storage.filesystem import FileSystem
from storage.open_files import OpenFiles
from storage.room import Room

FOREVER_MS = (1 << 63) - 1  # given as the time, it makes everything due


class Home:
    """Shared by the logs of one data directory. `unflushed_bytes` is their sum."""

    __slots__ = ("checkpoint_changes", "files", "filesystem", "producer_expiration_ms", "room",
                 "trash", "unflushed_bytes")  # fmt: skip

    def __init__(
        self, filesystem: FileSystem, files: OpenFiles, producer_expiration_ms: int
    ) -> None:
        self.filesystem = filesystem
        self.files = files
        self.producer_expiration_ms = producer_expiration_ms
        self.room = Room()
        self.unflushed_bytes = 0
        self.checkpoint_changes = 0  # of recovery points and start offsets
        self.trash: list[tuple[int, str]] = []  # (when to unlink, ms; path)

    def discard(self, directory: str, names: Iterable[str], due_ms: int) -> None:
        """Give the files that exist of `names` their `.deleted` names. Raises OSError."""
        for name in names:
            path = posixpath.join(directory, name)
            if self.filesystem.exists(path):
                trashed = filenames.deleted(path)
                self.files.rename(path, trashed)
                self.files.forget(trashed)
                self.trash.append((due_ms, trashed))

    def purge(self, now_ms: int) -> list[str]:
        """Unlink the trash whose time has come; returns what could not be, and why."""
        due = [path for due_ms, path in self.trash if due_ms <= now_ms]
        self.trash = [item for item in self.trash if item[0] > now_ms]
        complaints = []
        for path in due:
            try:
                self.filesystem.unlink(path)
            except FileNotFoundError:
                continue  # its directory went meanwhile, or was renamed with it in it
            except OSError as error:
                complaints.append(f"cannot delete {path}: {error}")
        return complaints
