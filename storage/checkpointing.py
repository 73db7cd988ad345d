"""Checkpoints: make durable what a restart relies on, then move the log's recovery point.

    entries of both indexes                 no batch below needs indexing again
    lists of aborted transactions           nor is any marker needed again
    a producer snapshot, now and then       few batches below need replaying
    the leader epochs, if they changed

Like a flush, a checkpoint is a job in three parts: `begin` on the log's thread, `Checkpoint.run` in
a thread of the pool, `finish` on the log's thread. Unlike a flush it may fail: all of these files
are caches, and the recovery point just stays where it is. Files are written by name only under the
log's lease, because the topic may be deleted and created again while the checkpoint runs.

A checkpoint also rebuilds the missing or damaged indexes of one closed segment. It does so in a
second `Segment` object over the same files, while the first one answers from the log. If the
rebuild fails, the recovery point moves all the same.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from storage.errors import LogFailed
from storage.files import filenames
from storage.files.filesystem import File
from storage.files.text_files import encode_leader_epochs
from storage.home import Home
from storage.lease import Lease
from storage.log_state import LogState
from storage.producers.snapshot_files import Encode, SnapshotWrite, names
from storage.segments.row import abort_tallies
from storage.segments.segment import Segment

_log = logging.getLogger("barnabas.storage")


class Checkpoint:
    """What must be durable before the recovery point may become `recovery_point`."""

    __slots__ = (
        "_directory",
        "_files",
        "_home",
        "_lease",
        "_small_files",
        "has_new_names",
        "mended",
        "mending_error",
        "recovery_point",
        "snapshots",
        "unsynced",
    )

    def __init__(
        self,
        home: Home,
        directory: str,
        lease: Lease,
        files: Sequence[File],
        small_files: Sequence[tuple[str, Encode]],
        *,
        recovery_point: int,
        snapshots: SnapshotWrite,
        mended: Segment | None,
    ) -> None:
        self._home = home
        self._directory = directory
        self._lease = lease
        self._files = files
        self._small_files = small_files
        self.recovery_point = recovery_point
        self.snapshots = snapshots
        self.mended = mended  # a second object over the files of the damaged segment
        self.mending_error: Exception | None = None
        self.has_new_names = False  # of lists of aborted transactions
        self.unsynced: tuple[str, bytes] | None = None  # path and content of what was not synced

    def run(self) -> None:
        """Sync and write the files. For a thread of the pool. Raises OSError: nothing moves."""
        for file in self._files:
            try:
                file.fdatasync()
            except OSError:
                with suppress(OSError):
                    self.unsynced = file.path, file.pread(file.size(), 0)
                raise
        with self._lease.use() as is_ours:
            if is_ours:
                self._write_by_name()

    def _write_by_name(self) -> None:
        filesystem = self._home.filesystem
        if self.has_new_names:
            filesystem.sync_directory(self._directory)
        for path, encode in (*self.snapshots.files, *self._small_files):
            filesystem.replace(path, encode())
        self._remove_obsolete()
        if self.mended is not None:
            try:
                self._mend(self.mended)
            except Exception as error:
                self.mending_error = error

    def _mend(self, segment: Segment) -> None:
        """Rebuild the indexes of a segment, unless retention has renamed its files meanwhile."""
        if self._home.filesystem.exists(segment.log_file.path):
            segment.rebuild_indexes()

    def _remove_obsolete(self) -> None:
        try:
            for offset in self.snapshots.obsolete_offsets:
                self._home.discard(self._directory, names(offset), due_ms=0)
        except OSError as failure:  # they cost space and nothing else
            _log.warning(
                "Could not delete old snapshots in %(directory)s: %(error)s",
                {"directory": self._directory, "error": failure},
            )


def begin(state: LogState, *, with_snapshot: bool) -> Checkpoint | None:
    """Capture what a recovery point at the durable offset relies on; None if nothing changed.

    Below an unsettled marker it goes no further than that.

    Index entries are written here, into the page cache. `with_snapshot`, at a clean stop, takes a
    snapshot of the producers as they are now.
    """
    target = state.checkpointable_offset
    snapshots = state.snapshots
    damaged = _damaged_segment(state)
    if with_snapshot:
        if snapshots.is_behind(state.producers):
            snapshots.take(state.producers, abort_tallies(state.segments.aborting))
    elif target == state.recovery_point and damaged is None and not snapshots.has_unwritten(target):
        return None
    elif snapshots.is_due(state.producers):
        snapshots.take(state.producers, abort_tallies(state.segments.aborting))
    files: list[File] = []
    try:
        for segment in reversed(state.segments.all):
            files += segment.indexes.write()
            if segment.base_offset < state.recovery_point:  # the one that was active then, too
                break
        lists = [segment.aborts for segment in state.segments.aborting]
        has_new_names = any(aborts.needs_file for aborts in lists)
        for aborts in lists:
            files += aborts.write()
    except OSError as error:
        if not state.home.room.note(error):
            _log.warning(
                "Could not write the indexes of %(directory)s: %(error)s",
                {"directory": state.directory, "error": error},
            )
        return None
    small_files: list[tuple[str, Encode]] = []
    if state.epochs.is_dirty:
        path = posixpath.join(state.directory, filenames.LEADER_EPOCH_CHECKPOINT)
        small_files.append((path, partial(encode_leader_epochs, state.epochs.entries())))
        state.epochs.is_dirty = False
    bases = {segment.base_offset for segment in state.segments}
    checkpoint = Checkpoint(
        state.home,
        state.directory,
        state.lease,
        files,
        small_files,
        recovery_point=target,
        snapshots=snapshots.begin_write(target, bases),
        mended=None if damaged is None else _twin(state, damaged),
    )
    checkpoint.has_new_names = has_new_names
    return checkpoint


def finish(state: LogState, checkpoint: Checkpoint, error: Exception | None) -> None:
    """Move the recovery point if `checkpoint.run()` succeeded; ignore a log that was closed."""
    if state.lease.is_over:
        return
    if error is not None:
        state.epochs.is_dirty = True
        if checkpoint.unsynced is not None:
            with suppress(OSError):
                for segment in state.segments.all:
                    segment.indexes.write_again(*checkpoint.unsynced)
        return
    state.recovery_point = max(state.recovery_point, checkpoint.recovery_point)
    state.home.checkpoint_changes += 1
    state.snapshots.finish_write(checkpoint.snapshots)
    if checkpoint.mended is not None:
        if checkpoint.mending_error is None:
            state.segments.replace(checkpoint.mended)
        else:
            _note_unmended(state, checkpoint.mended, checkpoint.mending_error)


def _note_unmended(state: LogState, twin: Segment, error: Exception) -> None:
    """Log once why the indexes of a segment cannot be rebuilt. Each checkpoint tries again."""
    segment = state.segments.all[state.segments.index_of(twin.base_offset)]
    reason = f"cannot be rebuilt: {error!r}"
    if isinstance(error, OSError) and state.home.room.note(error):
        return
    if segment.indexes.damage != reason:
        segment.indexes.damage = reason
        _log.warning(
            "Indexes of %(file)s %(reason)s",
            {"file": segment, "reason": reason},
            exc_info=_unforeseen(error),
        )


def _unforeseen(error: Exception) -> Exception | None:
    return None if isinstance(error, OSError | LogFailed) else error


def _damaged_segment(state: LogState) -> Segment | None:
    for segment in state.segments.all[:-1]:
        if segment.indexes.damage:
            return segment
    return None


def _twin(state: LogState, segment: Segment) -> Segment:
    return Segment(
        state.home.files,
        state.directory,
        segment.base_offset,
        size=segment.size,
        index_interval_bytes=state.config.index_interval_bytes,
        index_size_max=state.config.segment_index_bytes,
        created_ms=segment.created_ms,
    )
