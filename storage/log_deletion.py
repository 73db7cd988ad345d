"""Deleting logs, as a job in parts: directories are renamed at once and removed when it is time.

    LogManager.begin_delete()    on the caller's thread: the logs are closed and leave the manager
    Deletion.run()               in a thread: the directories are renamed to `…-delete`
    LogManager.finish_delete()   on the caller's thread: they are trash, for file.delete.delay.ms

Removing what is due is a job in parts, too: `storage.trash`.

A log that is closed goes on under the paths in its `…-delete` directory: whatever still works on
it can reach no file of a later log of its name. Until `finish_delete` that name must not be used.
A rename that fails leaves a directory that the next log of that name puts aside as a stray.

A log that is not open, because it could not be opened, may have a directory all the same. It goes
too, if it says that it belongs to the topic that is deleted, or does not say whose it is.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import NamedTuple

from storage.errors import CheckpointError
from storage.files import filenames
from storage.files.text_files import read_partition_metadata
from storage.home import Home
from storage.lease import Lease
from storage.log import Log


class Leaving(NamedTuple):
    """A directory that is to be renamed. `due_ms` is when it may be removed.

    `owner` is the topic id it must belong to; None if the log was open, and it is known to.
    """

    directory: str
    moved_to: str
    lease: Lease
    due_ms: int
    owner: bytes | None = None


def leave(log: Log, moved_to: str, due_ms: int) -> Leaving:
    """Close a log whose directory is about to become `moved_to`."""
    directory = log.directory
    log.close(moved_to)
    return Leaving(directory, moved_to, log.lease, due_ms)


class Deletion:
    """Some logs on their way out."""

    __slots__ = ("_data_directory", "_home", "error", "leaving", "moved")

    def __init__(self, home: Home, data_directory: str, leaving: Sequence[Leaving]) -> None:
        self._home = home
        self._data_directory = data_directory
        self.leaving = leaving
        self.moved: list[Leaving] = []
        self.error: OSError | None = None  # the first; what it concerned stays where it is

    def run(self) -> None:
        """Rename the directories, one sync for all. Blocks."""
        filesystem = self._home.filesystem
        for leaving in self.leaving:
            try:
                if leaving.owner is not None and not self._is_of(leaving.directory, leaving.owner):
                    continue
                with leaving.lease.use():
                    filesystem.rename(leaving.directory, leaving.moved_to)
                self.moved.append(leaving)
                # A thread may have opened one of them since the log let go of it. Now none can.
                for name in filesystem.list(leaving.moved_to):
                    self._home.files.forget(posixpath.join(leaving.directory, name))
            except OSError as error:
                self.error = self.error or error
        if self.moved:
            try:
                filesystem.sync_directory(self._data_directory)
            except OSError as error:
                self.error = self.error or error

    def _is_of(self, directory: str, topic_id: bytes) -> bool:
        """Whether there is such a directory, and none of another topic."""
        filesystem = self._home.filesystem
        path = posixpath.join(directory, filenames.PARTITION_METADATA)
        if not filesystem.exists(directory):
            return False
        try:
            found = read_partition_metadata(filesystem, path)
        except CheckpointError:
            return False
        return found is None or found == topic_id
