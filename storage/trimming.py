"""Cutting a log at its start: what retention says, done to the files.

A segment goes in two steps, as in Kafka: now its files get `.deleted` names and it leaves the
log; after file.delete.delay.ms the manager unlinks them. Readers that hold a slice of it go on.
The log's start offset moves first, so no reader is led to a file that is going.

A segment goes only when the recovery point has passed it: then what its batches said of producers
stands in a snapshot on the disk. Until the next checkpoint that is, so at most a second.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from storage.errors import AppendFailed
from storage.retention import RetentionRules, breaches
from storage.segment import Segment
from storage.snapshot_files import names

if TYPE_CHECKING:
    from storage.log import Log

_log = logging.getLogger(__name__)


def segments_to_delete(log: Log, now_ms: int) -> list[tuple[Segment, str]]:
    """Say which segments retention lets go of now, oldest first, and by which rule."""
    ends = [segment.base_offset for segment in log.segments.all[1:]] + [log.end_offset]
    return [
        item
        for item, end in zip(_breaching(log, now_ms), ends, strict=False)
        if end <= log.recovery_point and log.snapshots.covers(log.producers, end)
    ]


def apply_retention(log: Log, now_ms: int) -> int:
    """Delete what retention lets go of; returns how many segments went.

    An active segment that must go but is not behind the recovery point is rolled, so that a
    flush and a checkpoint follow, and goes with a later call. While a compaction reads the log's
    segments, nothing goes.
    """
    if log.segments.held:
        return 0
    breaching = _breaching(log, now_ms)
    if not breaching:
        return 0
    found = segments_to_delete(log, now_ms)
    if len(breaching) == len(log.segments) != len(found):
        _roll_if_room(log, now_ms)
    for segment, reason in found:
        _log.info("Deleting segment %s due to %s", segment, reason)
    return delete_segments(log, [segment for segment, _ in found], now_ms)


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


def delete_segments(log: Log, segments: Sequence[Segment], now_ms: int) -> int:
    """Delete the given segments, which are the oldest; returns how many went.

    If the active one is among them a new one is begun first, but for a failed log, which keeps
    it, and on a full disk, where the others make room for it. Raises AppendFailed if it cannot
    be begun for another reason, OSError if a file cannot be renamed.
    """
    count = len(segments)
    assert list(segments) == log.segments.all[:count], "only the oldest may go"
    if count == len(log.segments):
        _roll_if_room(log, now_ms)
    count = min(count, len(log.segments) - 1)
    if not count:
        return 0
    home = log.home
    due_ms = now_ms + log.config.file_delete_delay_ms
    start_offset = min(log.segments.all[count].base_offset, log.high_watermark)
    log.delete_records_before(start_offset)
    for segment in log.segments.drop_first(count):
        for path in segment.rename_deleted():
            home.files.forget(path)
            home.trash.append((due_ms, path))
    for offset in log.snapshots.forget_before(start_offset):
        home.discard(log.directory, names(offset), due_ms)
    return count


def _roll_if_room(log: Log, now_ms: int) -> None:
    """Roll a log that has not failed, unless there is no room for a new segment."""
    if log.failed is not None:
        return
    try:
        log.roll(now_ms)
    except AppendFailed:
        if log.failed is not None:
            raise
