"""Cutting a log at its start: what retention says, done to the files.

A segment goes in two steps, as in Kafka: now its files get `.deleted` names and it leaves the
log; after file.delete.delay.ms the manager unlinks them. Readers that hold a slice of it go on.
The log's start offset moves first, so no reader is led to a file that is going.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from storage.retention import RetentionRules, breaches
from storage.segment import Segment
from storage.snapshot_files import names

if TYPE_CHECKING:
    from storage.log import Log


def segments_to_delete(log: Log, now_ms: int) -> list[tuple[Segment, str]]:
    """Say which segments retention lets go of now, oldest first, and by which rule."""
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
    it. Raises AppendFailed if it cannot be begun, OSError if a file cannot be renamed.
    """
    count = len(segments)
    assert list(segments) == log.segments.all[:count], "only the oldest may go"
    if count == len(log.segments) and log.failed is None:
        log.roll(now_ms)
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
