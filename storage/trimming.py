"""Cutting a log at its start: what retention says, done to the files.

A segment goes in three steps: it leaves the log, whose start offset moves, so that no reader is led
to a file that is going; its files get `.deleted` names, in a thread (`Gone`); and, as in Kafka, the
manager unlinks them after file.delete.delay.ms. Readers that hold a slice of it go on.

A segment goes only when the recovery point has passed it: then what its batches said of producers
stands in a snapshot on the disk. Until the next checkpoint that is, so at most a second.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from storage.errors import AppendFailed
from storage.producers.snapshot_files import names
from storage.retention import RetentionRules, breaches
from storage.segments.segment import Segment

if TYPE_CHECKING:
    from storage.log import Log

_log = logging.getLogger("barnabas.storage")


class Gone:
    """Segments that have left a log, and snapshots with them, whose files get other names.

    `run` is for a thread of the pool, `finish` for the log's own.
    """

    def __init__(
        self, log: Log, segments: Sequence[Segment], start_offset: int, due_ms: int
    ) -> None:
        self.segments = segments
        self._left = list(segments)
        self._log = log
        self._directory = log.directory
        self._start_offset = start_offset
        self._snapshot_offsets = [o for o in log.snapshots.offsets if o < start_offset]
        self._due_ms = due_ms
        self._error: OSError | None = None

    def run(self) -> None:
        """Rename the files, the oldest first."""
        home = self._log.home
        try:
            with self._log.lease.use() as is_ours:
                while is_ours and self._left:  # otherwise the directory goes as a whole
                    for path in self._left[0].rename_deleted():
                        home.files.forget(path)
                        home.toss(self._due_ms, path)
                    del self._left[0]
                for offset in self._snapshot_offsets if is_ours else ():
                    home.discard(self._directory, names(offset), self._due_ms)
        except OSError as error:
            self._error = error

    def finish(self) -> None:
        """Put back what could not be renamed, to go with a later call. Raises OSError."""
        if self._error is not None:
            self._log.segments.all[:0] = self._left
            raise self._error
        self._log.snapshots.forget_before(self._start_offset)


def segments_to_delete(log: Log, now_ms: int) -> list[tuple[Segment, str]]:
    """Say which segments retention lets go of now, oldest first, and by which rule."""
    ends = [segment.base_offset for segment in log.segments.all[1:]] + [log.end_offset]
    return [
        item
        for item, end in zip(_breaching(log, now_ms), ends, strict=False)
        if end <= log.recovery_point and log.snapshots.covers(log.producers, end)
    ]


def begin_retention(log: Log, now_ms: int) -> Gone | None:
    """Let go of what retention says; returns what is to be done to the files, if anything.

    An active segment that must go but is not behind the recovery point is rolled, so that a
    flush and a checkpoint follow, and goes with a later call. While a compaction reads the log's
    segments, nothing goes; nor when the log is closed.
    """
    if log.segments.held or log.lease.is_over:
        return None
    breaching = _breaching(log, now_ms)
    if not breaching:
        return None
    found = segments_to_delete(log, now_ms)
    if len(breaching) == len(log.segments) != len(found):
        _roll_if_room(log, now_ms)
    for segment, reason in found:
        _log.info("Deleting segment %s due to %s", segment, reason)
    return let_go(log, [segment for segment, _ in found], now_ms)


def apply_retention(log: Log, now_ms: int) -> int:
    """As `begin_retention`, and do it; returns how many segments went. Blocks."""
    gone = begin_retention(log, now_ms)
    if gone is None:
        return 0
    gone.run()
    gone.finish()
    return len(gone.segments)


def _breaching(log: Log, now_ms: int) -> list[tuple[Segment, str]]:
    config = log.config
    found = breaches(
        log.segments.all,
        RetentionRules(
            "delete" in config.cleanup_policy, config.retention_ms, config.retention_bytes
        ),
        now_ms=now_ms,
        start_offset=log.start_offset,
        high_watermark=log.high_watermark,
        end_offset=log.end_offset,
    )
    reasons = [breach.reason for breach in found for _ in range(breach.segment_count)]
    return list(zip(log.segments.all, reasons, strict=False))


def let_go(log: Log, segments: Sequence[Segment], now_ms: int) -> Gone | None:
    """Take the given segments, which are the oldest, out of the log.

    If the active one is among them a new one is begun first, but for a failed log, which keeps
    it, and on a full disk, where the others make room for it. Raises AppendFailed if it cannot
    be begun for another reason.
    """
    count = len(segments)
    assert list(segments) == log.segments.all[:count], "only the oldest may go"
    if count == len(log.segments):
        _roll_if_room(log, now_ms)
    count = min(count, len(log.segments) - 1)
    if not count:
        return None
    start_offset = min(log.segments.all[count].base_offset, log.high_watermark)
    log.delete_records_before(start_offset)
    due_ms = now_ms + log.config.file_delete_delay_ms
    return Gone(log, log.segments.drop_first(count), start_offset, due_ms)


def _roll_if_room(log: Log, now_ms: int) -> None:
    """Roll a log that has not failed, unless there is no room for a new segment."""
    if log.failed is not None:
        return
    try:
        log.roll(now_ms)
    except AppendFailed:
        if log.failed is not None:
            raise
