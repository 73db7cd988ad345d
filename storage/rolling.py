"""A log begins a new segment: when, by Kafka's rules (LogSegment.shouldRoll), and how.

    size     the batch would make the active segment larger than segment.bytes     (`storage.log`)
    age      the batch is more than segment.ms younger than the segment's first one; where that
             has no timestamp, the segment is older than segment.ms
    index    an index has no room for the entry that the batch gets (Kafka: for any)
    offset   the batch's last offset does not fit the indexes' 31 bits

An empty segment is never rolled. The age is shortened by a jitter of up to segment.jitter.ms, so
that logs that began together do not roll together. It is drawn from the segment's name and not
from chance: it differs between partitions, and a restart does not draw again.

A roll happens whole or not at all. Once the new segment's files are there it is part of the log:
left outside, they would claim the offsets that are given out next.
"""

from __future__ import annotations

import logging
from zlib import crc32

from config.topic import TopicConfig
from storage import failing
from storage.errors import AppendFailed, LogFailed
from storage.log_state import LogState
from storage.segments.row import create_segment
from storage.segments.segment import Segment

_log = logging.getLogger("barnabas.storage")


def roll_after_ms(config: TopicConfig, active: Segment) -> int:
    """At which age the segment is rolled: segment.ms less its jitter.

    On a compacted topic max.compaction.lag.ms bounds it, since compaction leaves the active
    segment alone.
    """
    age_ms = config.segment_ms
    if "compact" in config.cleanup_policy:
        age_ms = min(age_ms, config.max_compaction_lag_ms)
    jitter_max_ms = min(config.segment_jitter_ms, age_ms)
    if not jitter_max_ms:
        return age_ms
    return age_ms - crc32(active.log_file.path.encode()) % jitter_max_ms


def is_roll_due(
    active: Segment, after_ms: int, last_offset: int, timestamp: int, now_ms: int
) -> bool:
    """Whether a batch of this last offset and largest timestamp needs a new segment.

    The active segment is not empty, and the batch would fit by its size.
    """
    first_timestamp = active.first_timestamp
    if first_timestamp is not None and first_timestamp >= 0:
        age_ms = timestamp - first_timestamp
    else:
        age_ms = now_ms - active.created_ms
    return age_ms > after_ms or not active.fits(last_offset) or active.indexes.is_full


def roll(state: LogState, now_ms: int) -> Segment:
    """Begin a new active segment at the log's end and close the one before, unless that is empty.

    Raises AppendFailed, with the active segment as before, if the new one's files cannot be made.
    """
    old, home = state.segments.active, state.home
    if old.base_offset == state.end_offset:
        return old
    # Before the files are made: a name that goes again is synced, too.
    state.unsynced.note_rolled(state.directory, old.log_file.take_unsynced())
    try:
        new = create_segment(home.files, state.directory, state.end_offset, state.config, now_ms)
    except AppendFailed as error:
        failing.failed_write(state, error)
        raise
    state.segments.push(new)
    state.producers.end_offset = new.base_offset
    try:
        old.on_roll()
    except (OSError, LogFailed) as error:
        # Indexes are caches: what is not in their files stays in memory, or in the log alone.
        if not (isinstance(error, OSError) and home.room.note(error)):
            _log.warning("Indexes of %s not written at its roll: %s", old, error)
    state.snapshots.take(state.producers)
    state.roll_after_ms = roll_after_ms(state.config, new)
    return new
