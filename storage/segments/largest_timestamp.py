"""The largest timestamp of a segment: from its time index if the log agrees, else from the log.

Retention and look-ups by time depend on it, so a damaged time index must not decide it. The last
entry of the time index must match its batch, and no batch behind the last entry of the offset index
may have a larger timestamp. Otherwise the whole log is walked.
"""

from __future__ import annotations

import logging

from storage.errors import DamagedLog
from storage.segments.segment_reader import SegmentReader
from storage.segments.time_index import NO_TIMESTAMP

_log = logging.getLogger("barnabas.storage")


def largest_timestamp(segment: SegmentReader, end: int) -> tuple[int, int]:
    """Return the largest timestamp (ms) before position `end`, and the last offset of its batch.

    That is the first batch that has it. Returns (-1, base offset) if no batch has a timestamp. May
    walk the log, up to the first damage. Raises LogFailed.
    """
    indexes = segment.indexes
    best = (NO_TIMESTAMP, segment.base_offset)
    start = 0
    entry = indexes.last_time_entry()
    if entry is not None and is_timestamp_of_batch(segment, entry):
        best = entry
        last = indexes.last_offset_entry()
        if last is not None and last[1] < end and segment.leads_to_batch(last):
            start = last[1]
    found = _walk(segment, start, end, best)
    if start > 0 and found != best:
        found = _walk(segment, 0, end, best)
    return found


def _walk(segment: SegmentReader, start: int, end: int, best: tuple[int, int]) -> tuple[int, int]:
    try:
        for _, header in segment.log_file.scan(start, end, offset_min=segment.base_offset):
            if header.max_timestamp > best[0]:
                best = header.max_timestamp, header.last_offset
    except DamagedLog as damage:
        _log.warning("The largest timestamp counts only batches before damage: %s", damage)
    return best


def is_timestamp_of_batch(segment: SegmentReader, entry: tuple[int, int]) -> bool:
    """Whether the batch that holds a time index entry's offset has its timestamp."""
    timestamp, offset = entry
    if offset < segment.base_offset or 0 <= segment.next_offset <= offset:
        return False
    try:
        found = segment.position_of(offset)
    except DamagedLog:
        return False
    return (
        found is not None and found[1].base_offset <= offset and found[1].max_timestamp == timestamp
    )
