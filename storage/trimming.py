"""Deleting segments at the start of a log, as retention and DeleteRecords ask.

A segment is deleted in three steps. It leaves the log, whose start offset moves, so that no reader
gets to its files. A thread renames the files to `.deleted` (`SegmentDeletion`). And the manager
unlinks them after file.delete.delay.ms, as Kafka does. Readers that hold a slice of the segment go
on.

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


class SegmentDeletion:
    """Segments and producer snapshots that have left a log, and whose files must be renamed.

    `run` is for a thread of the pool, `finish` for the log's thread.
    """

    def __init__(
        self, state: LogState, segments: Sequence[Segment], start_offset: int, due_ms: int
    ) -> None:
        self.segments = segments
        self._left = list(segments)
        self._state = state
        self._directory = state.directory
        self._start_offset = start_offset
        self._snapshot_offsets = [o for o in state.snapshots.offsets if o < start_offset]
        self._due_ms = due_ms
        self._error: OSError | None = None

    def run(self) -> None:
        """Rename the files, the oldest first."""
        home = self._state.home
        try:
            with self._state.lease.use() as is_ours:
                while is_ours and self._left:  # otherwise the directory goes as a whole
                    for path in self._left[0].files.rename_deleted():
                        home.files.forget(path)
                        home.trash.toss(self._due_ms, path)
                    del self._left[0]
                for offset in self._snapshot_offsets if is_ours else ():
                    home.discard(self._directory, names(offset), self._due_ms)
        except OSError as error:
            self._error = error

    def finish(self) -> None:
        """Put back the segments that were not renamed, for a later call. Raises OSError."""
        if self._error is not None:
            self._state.segments.all[:0] = self._left
            raise self._error
        self._state.snapshots.forget_before(self._start_offset)


def segments_to_delete(state: LogState, now_ms: int) -> list[tuple[Segment, str]]:
    """Return the segments that retention would delete now, oldest first, each with the rule."""
    ends = [segment.base_offset for segment in state.segments.all[1:]] + [state.end_offset]
    return [
        item
        for item, end in zip(_breaching(state, now_ms), ends, strict=False)
        if end <= state.recovery_point and state.snapshots.covers(state.producers, end)
    ]


def begin_retention(state: LogState, now_ms: int) -> SegmentDeletion | None:
    """Take out of the log what retention deletes; return the job for its files, if any.

    An active segment that retention deletes but the recovery point has not passed is rolled. A
    flush and a checkpoint follow, and a later call deletes it. Nothing is deleted while a
    compaction reads the log's segments, or after the log was closed.
    """
    if state.segments.held or state.lease.is_over:
        return None
    breaching = _breaching(state, now_ms)
    if not breaching:
        return None
    found = segments_to_delete(state, now_ms)
    if len(breaching) == len(state.segments) != len(found):
        _roll_if_room(state, now_ms)
    for segment, reason in found:
        _log.info("Deleting segment %s due to %s", segment, reason)
    return delete_segments(state, [segment for segment, _ in found], now_ms)


def _breaching(state: LogState, now_ms: int) -> list[tuple[Segment, str]]:
    config = state.config
    found = breaches(
        state.segments.all,
        RetentionRules(
            "delete" in config.cleanup_policy, config.retention_ms, config.retention_bytes
        ),
        now_ms=now_ms,
        start_offset=state.start_offset,
        high_watermark=state.high_watermark,
        end_offset=state.end_offset,
    )
    reasons = [breach.reason for breach in found for _ in range(breach.segment_count)]
    return list(zip(state.segments.all, reasons, strict=False))


def delete_segments(
    state: LogState, segments: Sequence[Segment], now_ms: int
) -> SegmentDeletion | None:
    """Take the given segments, which are the oldest, out of the log; return the job, if any.

    If the active segment is among them, the log rolls first. A failed log keeps its active segment,
    and so does one on a full disk, where deleting the others makes room. Raises AppendFailed if
    the roll fails for another reason.
    """
    count = len(segments)
    assert list(segments) == state.segments.all[:count], "only the oldest are deleted"
    if count == len(state.segments):
        _roll_if_room(state, now_ms)
    count = min(count, len(state.segments) - 1)
    if not count:
        return None
    start_offset = min(state.segments.all[count].base_offset, state.high_watermark)
    move_start(state, start_offset)
    due_ms = now_ms + state.config.file_delete_delay_ms
    return SegmentDeletion(state, state.segments.drop_first(count), start_offset, due_ms)


def move_start(state: LogState, offset: int) -> None:
    """Move the start offset up to `offset`, if it is below.

    The next retention deletes the segments wholly below it. Raises OffsetOutOfRange for an offset
    above the high watermark.
    """
    if offset > state.high_watermark:
        raise OffsetOutOfRange(offset, state.start_offset, state.high_watermark)
    if offset > state.start_offset:
        state.start_offset = offset
        state.home.checkpoint_changes += 1
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
