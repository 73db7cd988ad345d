"""Finds the part of a log that a pass of compaction may clean, and whether it is worth a pass.

    start_offset                                                     end_offset
         |  clean: each key once  |  dirty, cleanable  |  not yet: active, young, not durable |

The rules are Kafka's (LogCleanerManager.cleanableOffsets, LogToClean). The clean part ends where
the last pass ended. The dirty part ends before the active segment, before the first segment with a
record younger than min.compaction.lag.ms, and before the first with an open transaction. Unlike
Kafka's it also ends at the recovery point, so recovery never meets a compacted stretch, and takes a
hole above it for what a power cut has lost.
"""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import NamedTuple

from storage.log import Log
from storage.retention import newest_ms

_log = logging.getLogger("barnabas.storage")


class Cleanable(NamedTuple):
    """The dirty part of a log. `is_overdue` means older than max.compaction.lag.ms."""

    start_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def ratio(self) -> float:
        """The dirty share of the bytes, from 0 to 1."""
        total_bytes = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total_bytes if total_bytes else 0.0

    def is_worth_it(self, ratio_min: float) -> bool:
        """Whether a pass should run now; `ratio_min` is min.cleanable.dirty.ratio."""
        return self.dirty_bytes > 0 and (self.is_overdue or self.ratio > ratio_min)


def find_cleanable(log: Log, now_ms: int, recovery_point: int | None = None) -> Cleanable:
    """Find what a pass may clean of a compacted log.

    `recovery_point` is the one in the checkpoint file; without it that of the log is the bound.
    May read one header per segment. Raises LogFailed.
    """
    start_offset = _first_dirty(log)
    config = log.config
    if recovery_point is None:
        recovery_point = log.recovery_point
    bound = min(log.last_stable_offset, recovery_point)
    youngest_ms = now_ms - config.min_compaction_lag_ms
    oldest_ms = now_ms - config.max_compaction_lag_ms
    segments = log.segments.all
    end_offset = start_offset
    clean_bytes = dirty_bytes = 0
    is_overdue = False
    for segment, after in pairwise(segments):
        is_dirty = after.base_offset > start_offset
        if segment.base_offset < start_offset:
            clean_bytes += segment.size
        if not is_dirty:
            continue
        if after.base_offset > bound:
            break
        if config.min_compaction_lag_ms and newest_ms(segment) > youngest_ms:
            break
        dirty_bytes += segment.size
        end_offset = after.base_offset
        first_ms = segment.first_timestamp if oldest_ms > 0 else None
        is_overdue |= first_ms is not None and 0 < first_ms < oldest_ms
    return Cleanable(start_offset, end_offset, clean_bytes, dirty_bytes, is_overdue)


def _first_dirty(log: Log) -> int:
    """Return where the last pass ended; the log start offset if that is outside the log."""
    cleaned_offset = log.segments.cleaned.offset
    if cleaned_offset > log.end_offset:
        _log.warning(
            "The last checkpoint dirty offset for partition %(topic)s-%(partition)d is %(offset)d,"
            " which is larger than the log end offset %(end_offset)d. Resetting to the log start"
            " offset %(start_offset)d.",
            {
                "topic": log.topic,
                "partition": log.partition,
                "offset": cleaned_offset,
                "end_offset": log.end_offset,
                "start_offset": log.start_offset,
            },
        )
        log.segments.cleaned.offset = log.start_offset
        log.home.checkpoint_changes += 1
    return max(log.segments.cleaned.offset, log.start_offset)
