"""The largest timestamp of a segment: from its time index if the log agrees, else from the log.

Retention and look-ups by time depend on it, so a damaged time index must not decide it. The last
entry of the time index must match its batch, and no batch behind the last entry of the offset index
may have a larger timestamp. Otherwise the whole log is walked.

That is too much for a look-up of the loop, whether the bytes are in memory or not. Such a look-up
raises `ColdTimestamp`: a thread finds the timestamp, in objects of its own, and the segment keeps
it. So a look-up over many segments starts again once for each, and gets further each time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from storage.errors import DamagedLog, LogFailed
from storage.segments.cold import STARTS_MAX, Cold, Pulled
from storage.segments.segment_reader import SegmentReader
from storage.segments.time_index import NO_TIMESTAMP

_log = logging.getLogger("barnabas.storage")


class ColdTimestamp(Cold):
    """The largest timestamp before position `end` of a segment is not known.

    `found` takes it, on the loop: timestamp (ms), and the last offset of its batch.
    """

    def __init__(self, segment: SegmentReader, end: int, found: Callable[[int, int], None]) -> None:
        super().__init__(f"{segment}: the largest timestamp is not known")
        self._segment = segment
        self._end = end
        self._found = found
        self._twin = SegmentReader(segment.base_offset, segment.log_file, segment.indexes.twin())
        self._twin.next_offset = segment.next_offset
        self._result: tuple[int, int] | LogFailed = (NO_TIMESTAMP, segment.base_offset)

    def pull(self) -> None:
        """Find the timestamp."""
        try:
            self._result = largest_timestamp(self._twin, self._end)
        except LogFailed as error:
            self._result = error

    def keep(self, pulled: Pulled) -> None:
        """Give it to the segment, or the error to the look-up."""
        pulled.starts_left = STARTS_MAX
        damage = self._twin.indexes.damage
        self._segment.indexes.damage = self._segment.indexes.damage or damage
        if isinstance(self._result, LogFailed):
            pulled.keep(self._segment, self._result)
        elif self._segment.log_file.size == self._end:
            self._found(*self._result)


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
