"""Rolling: when a log begins a new segment, by Kafka's rules (LogSegment.shouldRoll), and how.

    size     the batch would make the active segment larger than segment.bytes     (`storage.log`)
    age      the batch is more than segment.ms younger than the segment's first batch; if that
             has no timestamp, the segment is older than segment.ms
    index    an index has no room for the batch's entry (Kafka: for any entry)
    offset   the batch's last offset does not fit the indexes' 31 bits

An empty segment is never rolled. A jitter of up to segment.jitter.ms shortens the age, so that logs
that began together do not roll together. It is derived from the segment's name, and so differs
between partitions and is the same after a restart.

A roll happens completely or not at all. Once the new segment's files exist, the segment is part of
the log: outside it, the next start would take them for the owners of the next offsets.
"""

from __future__ import annotations

import logging
from zlib import crc32

from config.topic import TopicConfig
from storage import failing
from storage.errors import AppendFailed, LogFailed
from storage.log_state import LogState
from storage.segments.row import abort_tallies, create_segment
from storage.segments.segment import Segment

_log = logging.getLogger("barnabas.storage")


def roll_after_ms(config: TopicConfig, active: Segment) -> int:
    """Return the age (ms) at which the segment is rolled: segment.ms less its jitter.

    On a compacted topic it is at most max.compaction.lag.ms, since compaction never cleans the
    active segment.
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

    For an active segment that is not empty, and a batch that would fit by its size.
    """
    first_timestamp = active.first_timestamp
    if first_timestamp is not None and first_timestamp >= 0:
        age_ms = timestamp - first_timestamp
    else:
        age_ms = now_ms - active.created_ms
    indexes = active.indexes
    return (
        age_ms > after_ms
        or last_offset > active.last_offset_max
        or (indexes.unindexed_bytes > indexes.interval_bytes and indexes.is_full)
    )


def roll(state: LogState, now_ms: int) -> Segment:
    """Begin a new active segment at the end offset, unless the active one is empty; return it.

    Raises AppendFailed, with the active segment as before, if the new files cannot be made.
    """
    old, home = state.segments.active, state.home
    if old.base_offset == state.end_offset:
        return old
    # Before the files are made: the directory must be synced even if they are removed again.
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
        # Indexes are caches: entries that are not written stay in memory.
        if not (isinstance(error, OSError) and home.room.note(error)):
            _log.warning(
                "Could not write the indexes of %(file)s at its roll: %(error)s",
                {"file": old, "error": error},
            )
    state.snapshots.take(state.producers, abort_tallies(state.segments.aborting))
    state.roll_after_ms = roll_after_ms(state.config, new)
    return new
