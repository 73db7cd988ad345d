"""What the logs of one data directory share: the file system, the open files, counts, the trash."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from contextlib import suppress

from storage.files import filenames
from storage.files.filesystem import FileSystem
from storage.files.open_files import OpenFiles
from storage.files.overlay import Overlay
from storage.files.room import Room
from storage.trash import Trash


class Home:
    """Shared by the logs of one data directory.

    `unflushed_bytes` is the sum of those that are fsynced before they are acknowledged: what a
    log with `write.caching` leaves to the page cache is not waited for, and does not count.
    `is_read_only`: on an overlay what opening repairs stays in memory, and so it is enough to look.
    """

    __slots__ = ("checkpoint_changes", "files", "filesystem", "is_read_only",
                 "producer_expiration_ms", "room", "trash", "unflushed_bytes")  # fmt: skip

    def __init__(
        self, filesystem: FileSystem, files: OpenFiles, producer_expiration_ms: int
    ) -> None:
        self.is_read_only = isinstance(filesystem, Overlay)
        self.filesystem = filesystem
        self.files = files
        self.producer_expiration_ms = producer_expiration_ms
        self.room = Room()
        self.unflushed_bytes = 0
        self.checkpoint_changes = 0  # of recovery points and start offsets
        self.trash = Trash(filesystem)

    def discard(self, directory: str, names: Iterable[str], due_ms: int) -> None:
        """Give the files that exist of `names` their `.deleted` names. Blocks. Raises OSError."""
        for name in names:
            path = posixpath.join(directory, name)
            trashed = filenames.deleted(path)
            with suppress(FileNotFoundError):
                self.files.rename(path, trashed)
                self.files.forget(trashed)
                self.trash.toss(due_ms, trashed)
