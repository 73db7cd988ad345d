"""Replaces a group of neighbouring segments by one compacted segment.

    1  create <base>.log.cleaned and its indexes                  a restart removes them
    2  copy what stays of the group there, and sync
    3  .cleaned -> .swap, the log first; sync the directory       a restart continues from here
    4  the group's files -> .deleted, in the order of offsets;
       .swap -> final names; sync the directory

These steps are Kafka's (LocalLog.replaceSegments); `storage.opening.swap_recovery` finishes them
after a crash. `storage.compaction.one_pass` calls them in this order.
"""

from __future__ import annotations

import posixpath
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from storage import failing
from storage.compaction.grouping import SourceSegment
from storage.errors import LogFailed
from storage.files import filenames
from storage.files.filesystem import File, FileSystem
from storage.files.open_files import OpenFiles
from storage.log import Log
from storage.segments.segment import Segment

OWN_FILES_MAX: Final = 8  # of a cleaned segment there are three or four
_ABORT_BYTES: Final = 34  # an entry of a transaction index
_MARKER_OFFSET: Final = slice(18, 26)  # in an entry


class Swap:
    """The swap of one group: `cleaned` is the new segment, private until `swap_in`."""

    def __init__(self, log: Log, group: Sequence[SourceSegment]) -> None:
        self._log = log
        self._group = group
        self._filesystem: FileSystem = log.home.filesystem
        self._files = OpenFiles(self._filesystem, OWN_FILES_MAX)
        self.cleaned = self._open(self._files, 0)
        self._paths = self.cleaned.files.paths()
        self._old_paths: list[str] = []
        self._aborts = b""  # the list of aborted transactions of the new segment

    def make(self) -> None:
        """Create the files. Blocks. Raises LogFailed if the log was closed: see `Lease`."""
        for part in (self.cleaned.log_file, self.cleaned.indexes.offset, self.cleaned.indexes.time):
            part.path = _in_transit(part.path, filenames.CLEANED)
            self._create(part.path)

    def _create(self, path: str) -> File:
        with self._log.lease.use() as is_ours:
            if not is_ours:
                raise LogFailed(path, "its log was closed")
            return self._files.get(path, create=True)

    def _open(self, files: OpenFiles, size: int) -> Segment:
        config = self._log.config
        return Segment(
            files,
            self._log.directory,
            self._group[0].segment.base_offset,
            size=size,
            index_interval_bytes=config.index_interval_bytes,
            index_size_max=config.segment_index_bytes,
            created_ms=max(one.segment.created_ms for one in self._group),
        )

    def take_aborts(self, marker_offsets: Container[int]) -> None:
        """Take along the aborted transactions whose markers are at these offsets. Blocks.

        Their entries in the sources' lists do not depend on the segment.
        """
        self._aborts = b"".join(
            entry
            for one in self._group
            for entry in _entries(one.segment.aborts.content())
            if int.from_bytes(entry[_MARKER_OFFSET], "big") in marker_offsets
        )
        if self._aborts:
            path = self.cleaned.aborts.path
            self._paths.append(path)
            file = self._create(_in_transit(path, filenames.CLEANED))
            file.pwrite(self._aborts, 0)

    def sync(self) -> None:
        """Make the files durable. Blocks."""
        for path in self._paths:
            self._files.get(_in_transit(path, filenames.CLEANED)).fdatasync()

    def sync_directory(self) -> None:
        """Make the names durable. Blocks."""
        self._filesystem.sync_directory(self._log.directory)

    def begin_swap(self) -> None:
        """Rename the files to `.swap`, the log first, durably. Blocks."""
        with self._log.lease.use() as is_ours:
            if is_ours:
                for path in self._paths:
                    self._filesystem.rename(
                        _in_transit(path, filenames.CLEANED), _in_transit(path, filenames.SWAP)
                    )
                self.sync_directory()
                self.look()

    def look(self) -> None:
        """Look up which files the sources have. Blocks."""
        self._old_paths = [path for one in self._group for path in one.segment.files.existing()]

    def remove(self) -> None:
        """Remove the `.cleaned` and `.swap` files. Blocks."""
        with self._log.lease.use() as is_ours:
            if not is_ours or self._log.failed is not None:
                return  # another log may own the names, or the next start needs them
            for transit in (filenames.CLEANED, filenames.SWAP):
                for path in self._paths:
                    with suppress(FileNotFoundError):
                        self._filesystem.unlink(_in_transit(path, transit))

    def swap_in(self, now_ms: int) -> None:
        """Replace the sources by the new segment, in the directory and in the log."""
        log, sources = self._log, [one.segment for one in self._group]
        old_paths = self._old_paths
        self._rename_all()
        due_ms = now_ms + log.config.file_delete_delay_ms
        for path in old_paths:
            log.home.files.forget(filenames.deleted(path))
            log.home.trash.toss(due_ms, filenames.deleted(path))
        merged = self._open(log.home.files, self.cleaned.size)
        merged.next_offset = self.cleaned.next_offset
        merged.aborts.take_all(self._aborts)
        log.segments.merge(sources, merged)

    def _rename_all(self) -> None:
        """Rename all files, or none. Raises OSError; fails the log if it cannot be undone.

        The sources use their new names before an old one leads to the new segment: a thread that
        looks up a time may open them at any moment.
        """
        log, files = self._log, [one.segment.files for one in self._group]
        away = [(path, filenames.deleted(path)) for path in self._old_paths]
        into_place = [(_in_transit(path, filenames.SWAP), path) for path in self._paths]
        done: list[tuple[str, str]] = []
        try:
            _rename(log, away, done)
            for one in files:
                one.note_deleted()
            _rename(log, into_place, done)
        except OSError as error:
            are_noted = len(done) >= len(away)
            try:
                _rename(log, [(new, old) for old, new in reversed(done[len(away) :])], [])
                for one in files if are_noted else ():
                    one.note_restored()
                _rename(log, [(new, old) for old, new in reversed(done[: len(away)])], [])
            except OSError:
                reason = f"only some files of a swap are renamed: {error}"
                failing.fail(log, LogFailed(log.directory, reason))
            raise


def _rename(log: Log, names: Iterable[tuple[str, str]], done: list[tuple[str, str]]) -> None:
    for old, new in names:
        log.home.files.rename(old, new)
        done.append((old, new))


def remove_leftovers(log: Log) -> None:
    """Remove the files that a failed pass could not remove. Blocks."""
    directory = log.directory
    with log.lease.use() as is_ours:
        for file_name in log.home.filesystem.list(directory) if is_ours else ():
            name = filenames.parse(file_name)
            if name is not None and name.transit in (filenames.CLEANED, filenames.SWAP):
                log.home.filesystem.unlink(posixpath.join(directory, file_name))


def _entries(index: bytes) -> Iterator[bytes]:
    whole = len(index) // _ABORT_BYTES * _ABORT_BYTES
    return (index[at : at + _ABORT_BYTES] for at in range(0, whole, _ABORT_BYTES))


def _in_transit(path: str, transit: str) -> str:
    return f"{path}.{transit}"
