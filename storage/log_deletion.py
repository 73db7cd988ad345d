"""Deletes logs in steps: their directories are renamed at once and removed later.

    LogManager.begin_delete()    caller's thread: closes the logs and removes them from the manager
    Deletion.run()               pool thread: renames the directories to `…-delete`
    LogManager.finish_delete()   caller's thread: puts them into the trash, for file.delete.delay.ms

`storage.trash` removes them when the delay has passed.

A closed log uses the paths in its `…-delete` directory, so a job that still works on it cannot
reach the files of a later log with the same name. Until `finish_delete` that name must not be used.
If the rename fails, the next log of that name renames the old directory to `…-stray`.

A log that could not be opened may still have a directory. It is deleted too, if its
partition.metadata names the deleted topic or is missing.
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
    """A directory to rename. `due_ms` is the time from which it may be removed.

    `owner` is the topic id that it must have; None if the log was open and the id is checked.
    """

    directory: str
    moved_to: str
    lease: Lease
    due_ms: int
    owner: bytes | None = None


def leave(log: Log, moved_to: str, due_ms: int) -> Leaving:
    """Close a log whose directory will be renamed to `moved_to`."""
    directory = log.directory
    log.close(moved_to)
    return Leaving(directory, moved_to, log.lease, due_ms)


class Deletion:
    """The deletion of several logs."""

    __slots__ = ("_data_directory", "_home", "error", "leaving", "moved")

    def __init__(self, home: Home, data_directory: str, leaving: Sequence[Leaving]) -> None:
        self._home = home
        self._data_directory = data_directory
        self.leaving = leaving
        self.moved: list[Leaving] = []
        self.error: OSError | None = None  # the first; its directory was not renamed

    def run(self) -> None:
        """Rename the directories, with one sync for all. Blocks."""
        filesystem = self._home.filesystem
        for leaving in self.leaving:
            try:
                if leaving.owner is not None and not self._is_of(leaving.directory, leaving.owner):
                    continue
                with leaving.lease.use():
                    filesystem.rename(leaving.directory, leaving.moved_to)
                self.moved.append(leaving)
                # A thread may have opened a file since the log was closed. From now on none can.
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
        """Whether the directory exists and does not have another topic's id."""
        filesystem = self._home.filesystem
        path = posixpath.join(directory, filenames.PARTITION_METADATA)
        if not filesystem.exists(directory):
            return False
        try:
            found = read_partition_metadata(filesystem, path)
        except CheckpointError:
            return False
        return found is None or found == topic_id
