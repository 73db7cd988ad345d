"""The rules of retention: which segments of a log are deleted. A pure function.

The rules are Kafka's (UnifiedLog.deleteOldSegments), in Kafka's order; each sees what the one
before has left. All of them take segments from the oldest on and stop at the first that stays:

    start   the next segment begins at or before the log's start offset (DeleteRecords)
    size    the log is larger than retention.bytes even without the segment
    time    the segment's largest timestamp is older than retention.ms

So a record with a timestamp in the future keeps its segment, and every later one, until that time
has passed. Time comes from the records and not from the files, so copying a directory deletes
nothing. Where no record has a timestamp, the age counts from when the segment was made or opened
(Kafka uses the file's time). Size and time apply only with cleanup.policy=delete. A segment that
reaches above the high watermark stays. The active segment is the last in order; the caller rolls
before it deletes that one. An empty active segment stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class SegmentFacts(Protocol):
    """The part of a `Segment` that the rules need."""

    @property
    def base_offset(self) -> int:
        """The segment's first possible offset."""

    @property
    def size(self) -> int:
        """Bytes in its log file."""

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of its records, ms; -1 if no record has one."""

    @property
    def created_ms(self) -> int:
        """When it was made or opened, ms; counts if records have no timestamps."""


class RetentionRules(NamedTuple):
    """The keys of a topic's configuration that decide; -1 means without limit."""

    deletes: bool
    retention_ms: int
    retention_bytes: int


class Breach(NamedTuple):
    """How many of the oldest segments one rule deletes, and which rule."""

    segment_count: int
    reason: str


def breaches(
    segments: Sequence[SegmentFacts],
    rules: RetentionRules,
    *,
    now_ms: int,
    start_offset: int,
    high_watermark: int,
    end_offset: int,
) -> list[Breach]:
    """Return what each rule deletes; the counts add up to a run of the oldest segments.

    `segments` is in offset order, and the last one is active.
    """
    ends = [segment.base_offset for segment in segments[1:]] + [end_offset]
    # Eligible at all: wholly below the high watermark, and not the empty active segment.
    eligible = 0
    for index, end in enumerate(ends):
        is_last_and_empty = index == len(segments) - 1 and segments[index].size == 0
        if high_watermark < end or is_last_and_empty:
            break
        eligible += 1

    found: list[Breach] = []
    gone = 0
    while gone < min(eligible, len(segments) - 1) and ends[gone] <= start_offset:
        gone += 1
    if gone:
        found.append(Breach(gone, f"log start offset {start_offset} breach"))
    if not rules.deletes:
        return found

    first = gone
    excess = sum(segment.size for segment in segments[gone:]) - rules.retention_bytes
    if rules.retention_bytes >= 0:
        while gone < eligible and excess - segments[gone].size >= 0:
            excess -= segments[gone].size
            gone += 1
    if gone > first:
        found.append(Breach(gone - first, f"log retention size {rules.retention_bytes} breach"))

    first = gone
    if rules.retention_ms >= 0:
        while gone < eligible and now_ms - newest_ms(segments[gone]) > rules.retention_ms:
            gone += 1
    if gone > first:
        found.append(Breach(gone - first, f"log retention time {rules.retention_ms}ms breach"))
    return found


def newest_ms(segment: SegmentFacts) -> int:
    """Return the largest timestamp of a segment; if there is none, when it was made or opened."""
    timestamp = segment.max_timestamp
    return timestamp if timestamp >= 0 else segment.created_ms
