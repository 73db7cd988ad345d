"""Moving the start of a log, as retention and DeleteRecords ask, and deleting what is below it.

    move_start        the next start offset moves: `apply_retention`, DeleteRecords
    a write           makes it durable, in the log start checkpoint (`storage.offset_checkpoints`)
    reach_start       the start offset follows, and clients see it
    begin_deletion    the segments below it leave the log

So no client learns a start offset that a crash takes back; until then the log is read from the old
one. Apache Kafka moves it at once, and writes its checkpoint once a minute.

Deleting only renames: a thread appends `.deleted` to the names (`SegmentDeletion`), and the manager
unlinks the files after file.delete.delay.ms, as Kafka does. Readers that hold a slice of the
segment go on.

A full disk has no room for the checkpoint, and deleting segments is what makes room. But a log
begins no earlier than its first segment. So there the thread syncs the directory after the renames,
and then the segments leave the log, and the start offset follows.

A segment is deleted only once the recovery point has passed it: a snapshot on disk then has what
its batches say about producers. The next checkpoint sees to that, at most a second later.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from storage.errors import AppendFailed, OffsetOutOfRange
from storage.log_state import LogState
from storage.producers.snapshot_files import names
from storage.retention import RetentionRules, breaches
from storage.rolling import roll
from storage.segments.segment import Segment

_log = logging.getLogger("barnabas.storage")

SYNCED_SEGMENTS_MAX = 1_000


class SegmentDeletion:
    """The oldest segments of a log and their producer snapshots, whose files must be renamed.

    `run` is for a thread of the pool. `finish` is for the log's thread, whatever became of `run`.
    No other deletion and no compaction of the log begins in between.
    """

    def __init__(
        self, state: LogState, segments: Sequence[Segment], due_ms: int, *, sync: bool
    ) -> None:
        self.segments = segments
        self._left = list(segments)
        self._state = state
        self._directory = state.directory
        self._start_offset = state.segments.all[len(segments)].base_offset
        self._snapshot_offsets = [o for o in state.snapshots.offsets if o < self._start_offset]
        self._due_ms = due_ms
        self._sync = sync
        self._renamed: list[str] = []  # paths of files that are not in the trash yet
        self._error: OSError | None = None
        self._is_done = False
        state.segments.held = True
        if not sync:  # readers stay above the start offset
            state.segments.drop_first(len(segments))

    def run(self) -> None:
        """Rename the files, the oldest first."""
        try:
            with self._state.lease.use() as is_ours:
                if is_ours:  # otherwise the directory goes as a whole
                    self._rename()
            self._is_done = True
        except OSError as error:
            self._error = error
        if not self._sync:
            self._toss()

    def _rename(self) -> None:
        home = self._state.home
        while self._left:
            self._renamed += self._left[0].files.rename_deleted()
            del self._left[0]
        home.discard(
            self._directory, (n for o in self._snapshot_offsets for n in names(o)), self._due_ms
        )
        if self._sync:
            home.filesystem.sync_directory(self._directory)

    def _toss(self) -> None:
        """Put the renamed files into the trash."""
        home = self._state.home
        for path in self._renamed:
            home.files.forget(path)
            home.trash.toss(self._due_ms, path)
        self._renamed = []

    def finish(self) -> None:
        """Let the log begin after the segments; those that stay are for a later call.

        Raises OSError.
        """
        state = self._state
        state.segments.held = False
        if not self._sync:
            state.segments.put_back(self._left)
        elif self._is_done:  # otherwise readers go on, under the new names
            state.segments.drop_first(len(self.segments))
            reach_start(state, self._start_offset)
            self._toss()
        if self._error is not None:
            raise self._error
        if self._is_done:
            state.snapshots.forget_before(self._start_offset)


def segments_to_delete(state: LogState, now_ms: int) -> list[tuple[Segment, str]]:
    """Return the segments that retention would delete now, oldest first, each with the rule."""
    ends = [segment.base_offset for segment in state.segments.all[1:]] + [state.end_offset]
    return [
        item
        for item, end in zip(_breaching(state, now_ms), ends, strict=False)
        if _is_covered(state, end)
    ]


def _is_covered(state: LogState, offset: int) -> bool:
    """Whether segments up to `offset` may go: a restart needs nothing of them."""
    return offset <= state.recovery_point and state.snapshots.covers(state.producers, offset)


def apply_retention(state: LogState, now_ms: int) -> bool:
    """Let the log begin after the segments that retention deletes. Returns whether there are any.

    If the active segment is among them, the log rolls. One that the recovery point has not passed
    waits: a flush and a checkpoint follow, and a later call deletes it. A failed log keeps its
    active segment, and so does one on a full disk, where deleting the others makes room. Nothing is
    deleted while a compaction or a deletion is at work, or after the log was closed. Raises
    AppendFailed if the roll fails for another reason.
    """
    if state.segments.held or state.lease.is_over:
        return False
    breaching = _breaching(state, now_ms)
    if not breaching:
        return False
    found = segments_to_delete(state, now_ms)
    if len(breaching) == len(state.segments):
        _roll_if_room(state, now_ms)
    count = min(len(found), len(state.segments) - 1)
    if not count:
        return False
    for segment, reason in found[:count]:
        _log.info(
            "Deleting segment %(file)s due to %(reason)s", {"file": segment, "reason": reason}
        )
    move_start(state, state.segments.all[count].base_offset)
    return True


def begin_deletion(state: LogState, now_ms: int, *, sync: bool = False) -> SegmentDeletion | None:
    """Return the job that deletes the segments below the start offset, if there are any.

    With `sync`, it deletes those below the next start offset, and makes that durable itself; at
    most `SYNCED_SEGMENTS_MAX` of them, because its `finish` takes time for each.
    """
    segments = state.segments.all
    if state.segments.held or state.lease.is_over:
        return None
    start_offset = state.next_start_offset if sync else state.start_offset
    count = state.segments.index_of(start_offset)
    count = min(count, SYNCED_SEGMENTS_MAX) if sync else count
    while count > 0 and not _is_covered(state, segments[count].base_offset):
        count -= 1
    if not count:
        return None
    due_ms = now_ms + state.config.file_delete_delay_ms
    return SegmentDeletion(state, segments[:count], due_ms, sync=sync)


def _breaching(state: LogState, now_ms: int) -> list[tuple[Segment, str]]:
    config = state.config
    found = breaches(
        state.segments.all,
        RetentionRules(
            "delete" in config.cleanup_policy, config.retention_ms, config.retention_bytes
        ),
        now_ms=now_ms,
        start_offset=state.next_start_offset,
        high_watermark=state.high_watermark,
        end_offset=state.end_offset,
    )
    reasons = [breach.reason for breach in found for _ in range(breach.segment_count)]
    return list(zip(state.segments.all, reasons, strict=False))


def move_start(state: LogState, offset: int) -> None:
    """Let the log begin at `offset`, if it begins below; clients see it once that is durable.

    Raises OffsetOutOfRange for an offset above the durable offset: a power cut could take the end
    of the log back below its start.
    """
    if offset > state.durable_offset:
        raise OffsetOutOfRange(offset, state.start_offset, state.durable_offset)
    if offset > state.next_start_offset:
        state.next_start_offset = offset
        state.home.checkpoint_changes += 1


def reach_start(state: LogState, offset: int) -> None:
    """Show clients that the log begins at `offset`, which is durable."""
    if offset > state.start_offset:
        state.start_offset = offset
        state.home.start_moves += 1
        state.epochs.drop_before(offset)


def _roll_if_room(state: LogState, now_ms: int) -> None:
    """Roll a log that has not failed, unless there is no room for a new segment."""
    if state.failed is not None:
        return
    try:
        roll(state, now_ms)
    except AppendFailed:
        if state.failed is not None:
            raise
