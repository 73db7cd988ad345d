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
from storage.segments.kept_aborts import KeptAborts
from storage.trash import Trash


class Home:
    """Shared by the logs of one data directory.

    `unflushed_bytes` counts what must be fsynced before it is acknowledged; logs with
    `write.caching` leave their bytes to the page cache and are not counted. With `is_read_only`,
    the file system is an overlay, and repairs made while opening stay in memory.
    """

    __slots__ = ("checkpoint_changes", "files", "filesystem", "is_read_only", "kept_aborts",
                 "producer_expiration_ms", "room", "start_moves", "trash",
                 "unflushed_bytes")  # fmt: skip

    def __init__(
        self, filesystem: FileSystem, files: OpenFiles, producer_expiration_ms: int
    ) -> None:
        self.is_read_only = isinstance(filesystem, Overlay)
        self.filesystem = filesystem
        self.files = files
        self.producer_expiration_ms = producer_expiration_ms
        self.room = Room()
        self.unflushed_bytes = 0
        self.checkpoint_changes = 0  # to recovery points, start offsets and cleaned offsets
        self.start_moves = 0  # of the start offsets that clients see
        self.trash = Trash(filesystem, files.forget)
        self.kept_aborts = KeptAborts()

    def discard(self, directory: str, names: Iterable[str], due_ms: int) -> None:
        """Rename those of the files that exist to `.deleted`. Blocks. Raises OSError."""
        for name in names:
            path = posixpath.join(directory, name)
            trashed = filenames.deleted(path)
            with suppress(FileNotFoundError):
                self.files.rename(path, trashed)
                self.files.forget(trashed)
                self.trash.toss(due_ms, trashed)
