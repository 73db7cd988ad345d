"""Deletes logs in steps: their directories are renamed at once and removed later.

    LogManager.begin_delete()    caller's thread: closes the logs and removes them from the manager
    Deletion.run()               pool thread: renames the directories to `…-delete`
    LogManager.finish_delete()   caller's thread: puts them into the trash, for file.delete.delay.ms

`storage.trash` removes them when the delay has passed.

A closed log uses the paths in its `…-delete` directory, so a job that still works on it cannot
reach the files of a later log with the same name. Until `finish_delete` that name must not be used,
nor afterwards until a directory that could not be renamed is out of the way (`storage.strays`).

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
    """The directory of a deleted topic's log. `due_ms` is the time from which it may be removed.

    `is_known` says that the log was open, so that the directory exists and has the topic's id.
    """

    key: tuple[str, int]
    topic_id: bytes
    directory: str
    moved_to: str
    lease: Lease
    due_ms: int
    is_known: bool = False


def leave(log: Log, moved_to: str, due_ms: int) -> Leaving:
    """Close a log whose directory will be renamed to `moved_to`."""
    key, directory = (log.topic, log.partition), log.directory
    log.close(moved_to)
    return Leaving(key, log.topic_id, directory, moved_to, log.lease, due_ms, is_known=True)


class Deletion:
    """The deletion of several logs.

    `moved` are the renamed directories. `in_the_way` are those whose names are not free, or not
    durably: a directory could not be renamed or is not the topic's, or the sync failed.
    """

    __slots__ = ("_data_directory", "_home", "error", "in_the_way", "leaving", "moved")

    def __init__(self, home: Home, data_directory: str, leaving: Sequence[Leaving]) -> None:
        self._home = home
        self._data_directory = data_directory
        self.leaving = leaving
        self.moved: list[Leaving] = []
        self.in_the_way: list[Leaving] = []
        self.error: OSError | None = None  # the first

    def run(self) -> None:
        """Rename the directories, with one sync for all. Blocks."""
        filesystem = self._home.filesystem
        for leaving in self.leaving:
            try:
                self._move(leaving)
            except OSError as error:
                self.in_the_way.append(leaving)
                self.error = self.error or error
        if self.moved:
            try:
                filesystem.sync_directory(self._data_directory)
            except OSError as error:
                self.in_the_way += self.moved
                self.error = self.error or error

    def _move(self, leaving: Leaving) -> None:
        filesystem = self._home.filesystem
        if not leaving.is_known:
            if not filesystem.exists(leaving.directory):
                return
            if not self._is_of(leaving.directory, leaving.topic_id):
                self.in_the_way.append(leaving)
                return
        with leaving.lease.use():
            filesystem.rename(leaving.directory, leaving.moved_to)
        self.moved.append(leaving)
        # A thread may have opened a file since the log was closed. From now on none can.
        for name in filesystem.list(leaving.moved_to):
            self._home.files.forget(posixpath.join(leaving.directory, name))

    def _is_of(self, directory: str, topic_id: bytes) -> bool:
        """Whether the directory does not have another topic's id."""
        path = posixpath.join(directory, filenames.PARTITION_METADATA)
        try:
            found = read_partition_metadata(self._home.filesystem, path)
        except CheckpointError:
            return False
        return found is None or found == topic_id
