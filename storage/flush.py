"""Flushes: make a log's records durable, in a thread that may wait for the disk.

    begin        on the log's thread: captures which open files, up to which offset
    Flush.run    in a thread of the pool: fdatasync; touches only what was captured
    finish       on the log's thread again: moves the durable offset, or fails the log

Between `begin` and `finish` the log may be appended to, rolled, trimmed or deleted. The captured
`File`s stay open as long as the flush holds them, even if they are renamed or unlinked. A flush
holds files and not segments, since a checkpoint may replace a segment's object. A failed fsync
fails the log: the kernel reports the error once, and marks the pages clean. A flush that has found
no descriptor for a name did not try to sync it: what it captured is left to the next one.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence

from storage.errors import LogFailed
from storage.failing import fail
from storage.files.filesystem import File, FileSystem
from storage.files.room import NO_DESCRIPTOR
from storage.log_state import LogState, Unsynced

_log = logging.getLogger("barnabas.storage")


class Flush:
    """Everything appended up to `end_offset`, on its way to the disk.

    `segment_position` is the end in the segment of `segment_base_offset`. `paths` are small files
    that were written and closed. `directories` are synced last: they hold new names, such as those
    of a new segment.
    """

    __slots__ = (
        "_directories",
        "_files",
        "_filesystem",
        "_paths",
        "elapsed_ns",
        "end_offset",
        "is_again",
        "segment_base_offset",
        "segment_position",
        "size_bytes",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        files: Sequence[File],
        paths: Sequence[str],
        directories: Sequence[str],
        *,
        end_offset: int,
        segment_base_offset: int,
        segment_position: int,
        size_bytes: int,
    ) -> None:
        self._filesystem = filesystem
        self._files = files
        self._paths = paths
        self._directories = directories
        self.end_offset = end_offset
        self.segment_base_offset = segment_base_offset
        self.segment_position = segment_position
        self.size_bytes = size_bytes
        self.is_again = False  # there was no descriptor for the flush before
        self.elapsed_ns = 0  # of `run`, if its caller measures that

    @property
    def only_file(self) -> File | None:
        """The file whose fdatasync does the same as `run`; None if there is more to do."""
        is_one = len(self._files) == 1 and not (self._paths or self._directories)
        return self._files[0] if is_one else None

    def run(self) -> None:
        """Sync everything captured. For a thread of the pool. Raises OSError: data may be lost."""
        for file in self._files:
            file.fdatasync()
        with contextlib.suppress(FileNotFoundError):  # renamed away: its topic is deleted
            for path in self._paths:
                self._filesystem.open(path).fdatasync()
        for directory in self._directories:
            with contextlib.suppress(FileNotFoundError):
                self._filesystem.sync_directory(directory)

    def leave_to(self, unsynced: Unsynced) -> None:
        """Leave everything captured to the next flush, whether it is synced by now or not."""
        unsynced.files[:0] = self._files
        unsynced.paths[:0] = self._paths
        unsynced.directories[:0] = self._directories
        unsynced.is_again = True


def begin(state: LogState) -> Flush | None:
    """Capture what must reach the disk; None if there is nothing, or the log has failed."""
    unsynced = state.unsynced
    if state.failed is not None:
        return None
    if state.durable_offset == state.end_offset and not unsynced.directories:
        return None
    active = state.segments.active
    files = unsynced.files
    if (file := active.log_file.take_unsynced()) is not None:
        files.append(file)
    flush = Flush(
        state.home.filesystem,
        files,
        unsynced.paths,
        unsynced.directories,
        end_offset=state.end_offset,
        segment_base_offset=active.base_offset,
        segment_position=active.size,
        size_bytes=state.unflushed_bytes,
    )
    flush.is_again = unsynced.is_again
    state.unsynced = Unsynced()
    return flush


def is_due(state: LogState, now_ms: int | None) -> bool:
    """Whether flush.messages, flush.ms (given the time) or a roll asks for a flush."""
    config = state.config
    unflushed_count = state.end_offset - state.durable_offset
    return unflushed_count > 0 and (
        unflushed_count >= config.flush_messages
        or bool(state.unsynced.files)
        or (now_ms is not None and now_ms - state.unflushed_since_ms >= config.flush_ms)
    )


def finish(state: LogState, flush: Flush, error: OSError | None) -> None:
    """Move the durable offset to what `flush.run()` has synced; with an error, fail the log.

    If there was no descriptor, nothing changes: the caller flushes again, a little later.
    """
    if error is not None and error.errno in NO_DESCRIPTOR:
        flush.leave_to(state.unsynced)
        if not flush.is_again:
            _log.warning(
                "%(directory)s cannot be flushed yet, will retry: %(error)s",
                {"directory": state.directory, "error": error},
            )
        return
    if error is not None:
        fail(state, LogFailed(state.directory, f"fsync failed: {error}"))
        return
    state.durable_offset = flush.end_offset
    state.segments.note_durable(flush.end_offset, flush.segment_base_offset, flush.segment_position)
    if state.failed is None:
        state.unflushed_bytes -= flush.size_bytes
        state.flushed_bytes += flush.size_bytes
        if not state.write_caching:
            state.home.unflushed_bytes -= flush.size_bytes
    if not state.write_caching:
        state.high_watermark = max(state.high_watermark, flush.end_offset)
