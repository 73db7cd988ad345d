"""Cuts damaged bytes out of a log and keeps a copy of them.

    pages of zeros at the end   cut, not copied: ext4 gives a file its size before its data
    anything else in a segment  copied to `<base>.log.<position>.<ms>.quarantine`, fsynced, then cut
    a whole segment             renamed to `<base>.log.0.<ms>.quarantine`, its indexes deleted

A crash may interrupt each of these: until the cut the bytes stay where they were. In a read-only
data directory the cut happens in memory only (`storage.files.overlay`), and nothing is copied.
"""

from __future__ import annotations

import posixpath
from contextlib import suppress
from typing import Final

from storage.files import filenames
from storage.files.filesystem import File
from storage.home import Home
from storage.opening.recovery_report import RecoveryReport
from storage.segments.segment import Segment

CHUNK_BYTES: Final = 1024 * 1024  # copied at a time
PAGE_BYTES: Final = 4096


class Quarantine:
    """Moves bytes into quarantine files of one partition's directory; counts them in `report`."""

    __slots__ = ("_directory", "_home", "_now_ms", "_report")

    def __init__(self, home: Home, directory: str, report: RecoveryReport, now_ms: int) -> None:
        self._home = home
        self._directory = directory
        self._report = report
        self._now_ms = now_ms

    def take_segment(self, segment: Segment) -> None:
        """Rename the log file of a segment and delete its indexes. Raises OSError.

        An empty log file is deleted instead.
        """
        path, directory = segment.log_file.path, self._directory
        indexes = [posixpath.basename(other) for other in segment.files.existing() if other != path]
        if segment.size == 0:
            self._home.discard(directory, [posixpath.basename(path)], self._now_ms)
        else:
            name = filenames.quarantine_name(segment.base_offset, 0, self._now_ms)
            self._home.files.rename(path, posixpath.join(directory, name))
            self._home.files.forget(posixpath.join(directory, name))
            self._note(name, segment.size)
        self._home.discard(directory, indexes, self._now_ms)

    def take_tail(self, segment: Segment, position: int) -> File:
        """Copy and cut what follows `position`; return the file, which the caller must sync.

        Raises OSError, LogFailed; what could not be copied is not cut, and of what could not be cut
        no copy stays: recovery is tried again, and copies would pile up.
        """
        file = segment.log_file.file()
        size = segment.size
        end = _end_of_data(file, position, size)
        name = ""
        if end > position and not self._home.is_read_only:
            name = filenames.quarantine_name(segment.base_offset, position, self._now_ms)
        path = posixpath.join(self._directory, name)
        try:
            if name:
                self._copy(file, position, end, path)
            segment.log_file.truncate(position)
        except OSError:
            if name:
                with suppress(OSError):
                    self._home.filesystem.unlink(path)
            raise
        if name:
            self._note(name, end - position)
        self._report.zero_bytes_cut += size - end
        return file

    def _note(self, name: str, size_bytes: int) -> None:
        self._report.bytes_quarantined += size_bytes
        self._report.quarantine_files.append(name)

    def _copy(self, source: File, start: int, end: int, path: str) -> None:
        filesystem = self._home.filesystem
        target = filesystem.open(path, create=True)
        try:
            for position in range(start, end, CHUNK_BYTES):
                piece = source.pread(min(CHUNK_BYTES, end - position), position)
                target.pwrite(piece, position - start)
            target.fdatasync()
        finally:
            target.close()
        filesystem.sync_directory(self._directory)


def _end_of_data(file: File, start: int, size: int) -> int:
    """Return where the pages of zeros at the end begin; `start` if there is nothing else.

    Whole pages, because a batch may end in zeros, and the copy should hold all of it.
    """
    end = size
    while end > start:
        chunk_start = max(start, end - CHUNK_BYTES)
        rest = file.pread(end - chunk_start, chunk_start).rstrip(b"\0")
        if rest:
            return min(size, -(-(chunk_start + len(rest)) // PAGE_BYTES) * PAGE_BYTES)
        end = chunk_start
    return start
