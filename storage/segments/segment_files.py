"""The file names of a segment, and their changes.

    <base>.log  <base>.index  <base>.timeindex     always, unless an index is lost
    <base>.txnindex                                if transactions were aborted in it

Names change when retention or compaction deletes a segment (each name gets `.deleted`), and when
the topic is deleted (the directory is renamed). Open descriptors stay valid under either name, and
so do slices.
"""

from __future__ import annotations

import os

from storage.files import filenames
from storage.files.open_files import OpenFiles
from storage.segments.abort_index import AbortIndex
from storage.segments.log_file import LogFile
from storage.segments.offset_index import OffsetIndex
from storage.segments.time_index import TimeIndex


class SegmentFiles:
    """The names of one segment's files in `directory`."""

    __slots__ = ("_aborts", "_log_file", "_offset_index", "_open_files", "_time_index",
                 "directory")  # fmt: skip

    def __init__(
        self,
        open_files: OpenFiles,
        directory: str,
        log_file: LogFile,
        offset_index: OffsetIndex,
        time_index: TimeIndex,
        aborts: AbortIndex,
    ) -> None:
        self._open_files = open_files
        self.directory = directory
        self._log_file = log_file
        self._offset_index = offset_index
        self._time_index = time_index
        self._aborts = aborts

    def use_aborts(self, aborts: AbortIndex) -> None:
        """Use another object for the same list of aborted transactions."""
        self._aborts = aborts

    def paths(self) -> list[str]:
        """Paths of the log file and its indexes, whether they exist or not."""
        return [self._log_file.path, *self.index_paths()]

    def index_paths(self) -> list[str]:
        """Paths of the offset index and the time index, whether they exist or not."""
        return [self._offset_index.path, self._time_index.path]

    def existing(self) -> list[str]:
        """Paths of the files that exist, the log first; with the list of aborted transactions."""
        exists = self._open_files.filesystem.exists
        return [path for path in (*self.paths(), self._aborts.path) if exists(path)]

    @property
    def _parts(self) -> tuple[LogFile, OffsetIndex, TimeIndex, AbortIndex]:
        return self._log_file, self._offset_index, self._time_index, self._aborts

    def rename_deleted(self) -> list[str]:
        """Append `.deleted` to the file names, the log's first; return the new paths.

        Raises OSError, with nothing changed, if the log cannot be renamed. An index may keep its
        name: it is useless without its log. A crash in between leaves an index without a log, which
        the next start removes. Files that were renamed before keep their names.
        """
        if self._log_file.path.endswith(filenames.deleted("")):
            return self.existing()
        paths: list[str] = []
        parts = {part.path: part for part in self._parts}
        for path in self.existing():
            try:
                self._open_files.rename(path, filenames.deleted(path))
            except OSError:
                if not paths:
                    raise
                paths.append(path)
            else:
                paths.append(filenames.deleted(path))
            if path in parts:  # at once: the segment may still have readers
                parts.pop(path).path = filenames.deleted(path)
        for path, part in parts.items():
            part.path = filenames.deleted(path)
        return paths

    def note_deleted(self) -> None:
        """Use the `.deleted` names, which the files have now."""
        for part in self._parts:
            part.path = filenames.deleted(part.path)

    def note_restored(self) -> None:
        """Use the names without `.deleted`, which the files get back."""
        for part in self._parts:
            part.path = part.path.removesuffix(filenames.deleted(""))

    def note_moved(self, directory: str) -> None:
        """Use another name of the directory, which it has or is about to get."""
        self.directory = directory
        for part in self._parts:
            part.path = os.path.join(directory, os.path.basename(part.path))

    def forget(self) -> None:
        """Release descriptors and maps; the next use opens the files again."""
        self._log_file.forget()
        for path in (*self.index_paths(), self._aborts.path):
            self._open_files.forget(path)
