"""The file names of a segment, and their changes.

    <base>.log  <base>.index  <base>.timeindex     always, unless an index is lost
    <base>.txnindex                                if Kafka has listed aborted transactions

Names change when retention or compaction deletes a segment (each name gets `.deleted`), and when
the topic is deleted (the directory is renamed). Open descriptors stay valid under either name, and
so do slices.
"""

from __future__ import annotations

import os

from storage.files import filenames
from storage.files.open_files import OpenFiles
from storage.segments.log_file import LogFile
from storage.segments.offset_index import OffsetIndex
from storage.segments.time_index import TimeIndex


class SegmentFiles:
    """The names of one segment's files in `directory`."""

    __slots__ = ("_base_offset", "_log_file", "_offset_index", "_open_files", "_time_index",
                 "directory")  # fmt: skip

    def __init__(
        self,
        open_files: OpenFiles,
        directory: str,
        log_file: LogFile,
        offset_index: OffsetIndex,
        time_index: TimeIndex,
    ) -> None:
        self._open_files = open_files
        self.directory = directory
        self._base_offset = offset_index.base_offset
        self._log_file = log_file
        self._offset_index = offset_index
        self._time_index = time_index

    def paths(self) -> list[str]:
        """Paths of the log file and its indexes, whether they exist or not."""
        return [self._log_file.path, *self.index_paths()]

    def index_paths(self) -> list[str]:
        """Paths of the offset index and the time index, whether they exist or not."""
        return [self._offset_index.path, self._time_index.path]

    def existing(self) -> list[str]:
        """Paths of the files that exist, the log first; with the list of aborted transactions."""
        transactions = os.path.join(
            self.directory, filenames.transaction_index_name(self._base_offset)
        )
        exists = self._open_files.filesystem.exists
        return [path for path in (*self.paths(), transactions) if exists(path)]

    def rename_deleted(self) -> list[str]:
        """Append `.deleted` to the file names, the log's first; return the new paths.

        Raises OSError, with nothing changed, if the log cannot be renamed. An index may keep its
        name: it is useless without its log. A crash in between leaves an index without a log, which
        the next start removes.
        """
        paths: list[str] = []
        for path in self.existing():
            try:
                self._open_files.rename(path, filenames.deleted(path))
            except OSError:
                if not paths:
                    raise
                paths.append(path)
            else:
                paths.append(filenames.deleted(path))
        self.note_deleted()
        return paths

    def note_deleted(self) -> None:
        """Use the `.deleted` names, which the files have now."""
        for part in (self._log_file, self._offset_index, self._time_index):
            part.path = filenames.deleted(part.path)

    def note_moved(self, directory: str) -> None:
        """Use another name of the directory, which it has or is about to get."""
        self.directory = directory
        for part in (self._log_file, self._offset_index, self._time_index):
            part.path = os.path.join(directory, os.path.basename(part.path))

    def forget(self) -> None:
        """Release descriptors and maps; the next use opens the files again."""
        self._log_file.forget()
        for path in self.index_paths():
            self._open_files.forget(path)
