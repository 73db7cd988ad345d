"""Moving a log's recovery point: what a restart relies on below it is made durable first.

    index entries, time index entries      so that no batch below needs indexing again
    a producer snapshot, now and then      so that few batches below need replaying
    leader epochs, when they changed

Like a flush it is a job in three parts: `begin` on the caller's thread, `Checkpoint.run` in a
thread of the pool, `finish` on the caller's thread. Unlike a flush it may fail: all of it is cached
knowledge, and the only consequence is that the recovery point stays.

A checkpoint also mends: it builds the missing or damaged indexes of one closed segment anew, beside
the segment, which meanwhile answers from the log itself.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Sequence
from typing import TYPE_CHECKING

from storage import filenames
from storage.checkpoints import encode_leader_epochs
from storage.errors import LogFailed
from storage.filesystem import File, FileSystem
from storage.segment import Segment
from storage.snapshot_files import names

if TYPE_CHECKING:
    from storage.log import Log

_log = logging.getLogger(__name__)


class Checkpoint:
    """What must be durable before the recovery point may become `recovery_point`."""

    __slots__ = (
        "_files",
        "_filesystem",
        "_small_files",
        "mended",
        "recovery_point",
        "snapshot_offsets",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        files: Sequence[File],
        small_files: Sequence[tuple[str, bytes]],
        *,
        recovery_point: int,
        snapshot_offsets: Sequence[int],
        mended: Segment | None,
    ) -> None:
        self._filesystem = filesystem
        self._files = files
        self._small_files = small_files
        self.recovery_point = recovery_point
        self.snapshot_offsets = snapshot_offsets
        self.mended = mended  # a segment of its own, over the files of the damaged one

    def run(self) -> None:
        """Wait for the disk. For a thread of the pool. Raises OSError: nothing was promised."""
        for file in self._files:
            file.fdatasync()
        for path, data in self._small_files:
            self._filesystem.replace(path, data)
        if self.mended is not None:
            try:
                self.mended.rebuild_indexes()
                self.mended.sync_indexes()
            except LogFailed as error:  # the log file cannot be read: there is nothing to mend
                _log.warning("Indexes of %s not rebuilt: %s", self.mended, error)
                self.mended = None


def begin(log: Log, *, with_snapshot: bool) -> Checkpoint | None:
    """Capture what a recovery point at the durable offset relies on; None if nothing is to do.

    Index entries are written here, into the page cache. With `with_snapshot` the producers are
    written as they are, for a clean stop.
    """
    target = log.durable_offset
    snapshots = log.snapshots
    damaged = _damaged_segment(log)
    if with_snapshot:
        if snapshots.is_behind(log.producers):
            snapshots.take(log.producers)
    elif target == log.recovery_point and damaged is None and not snapshots.has_unwritten:
        return None
    elif snapshots.is_due(log.producers):
        snapshots.take(log.producers)
    files: list[File] = []
    try:
        for segment in reversed(log.segments.all):
            files += segment.write_indexes()
            if segment.base_offset < log.recovery_point:  # the one that was active then, too
                break
    except OSError as error:
        if not log.home.room.note(error):
            _log.warning("No checkpoint of %s: %s", log.directory, error)
        return None
    unwritten = snapshots.unwritten(target)
    small_files = [file for pair in unwritten.values() for file in pair]
    if log.epochs.is_dirty:
        path = posixpath.join(log.directory, filenames.LEADER_EPOCH_CHECKPOINT)
        small_files.append((path, encode_leader_epochs(log.epochs.entries())))
        log.epochs.is_dirty = False
    return Checkpoint(
        log.home.filesystem,
        files,
        small_files,
        recovery_point=target,
        snapshot_offsets=list(unwritten),
        mended=None if damaged is None else _twin(log, damaged),
    )


def finish(log: Log, checkpoint: Checkpoint, error: OSError | None) -> None:
    """Take note of how `checkpoint.run()` went."""
    if error is not None:
        log.epochs.is_dirty = True
        return
    log.recovery_point = max(log.recovery_point, checkpoint.recovery_point)
    log.home.checkpoint_changes += 1
    log.snapshots.settle(checkpoint.snapshot_offsets)
    bases = {segment.base_offset for segment in log.segments}
    try:
        for offset in log.snapshots.superfluous(bases):
            log.home.discard(log.directory, names(offset), due_ms=0)
    except OSError as failure:  # they cost space and nothing else
        _log.warning("Old snapshots in %s stay: %s", log.directory, failure)
    if checkpoint.mended is not None:
        log.segments.replace(checkpoint.mended)


def _damaged_segment(log: Log) -> Segment | None:
    for segment in log.segments.all[:-1]:
        if segment.index_damage:
            return segment
    return None


def _twin(log: Log, segment: Segment) -> Segment | None:
    try:
        for path in segment.files():  # an index may be empty, but then it is there
            log.home.files.get(path, create=True)
    except OSError as error:
        if not log.home.room.note(error):
            _log.warning("Indexes of %s not rebuilt: %s", segment, error)
        return None
    return Segment.open(
        log.home.files,
        log.directory,
        segment.base_offset,
        size=segment.size,
        index_interval_bytes=log.config.index_interval_bytes,
        index_size_max=log.config.segment_index_bytes,
        created_ms=segment.created_ms,
    )
