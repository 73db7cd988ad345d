"""The largest timestamp of a segment: from its time index if the log agrees, else from the log.

Retention and look-ups by time depend on it, so a damaged time index must not decide it. The last
entry of the time index must match its batch, and no batch behind the last entry of the offset index
may have a larger timestamp. Otherwise the whole log is walked. If the log is damaged and hides
batches, the time index is believed as well, so that retention does not take them for old.

That is too much for a look-up of the loop, whether the bytes are in memory or not. Such a look-up
raises `ColdTimestamp`: a thread finds the timestamp, in objects of its own, and the segment keeps
it. So a look-up over many segments starts again once for each, and gets further each time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from protocol.record_batch import BatchHeader
from storage.errors import DamagedLog, LogFailed
from storage.files.filenames import OFFSET_MAX
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
    if entry is not None and batch_of_timestamp(segment, entry) is not None:
        best = entry
        last = indexes.last_offset_entry()
        if last is not None and last[1] < end and segment.leads_to_batch(last):
            start = last[1]
    found, damage = _walk(segment, start, end, best)
    if start > 0 and found != best:
        found, damage = _walk(segment, 0, end, best)
    if damage is not None:
        _log.warning(
            "The largest timestamp is that of the batches before damage and of the time index:"
            " %(error)s",
            {"error": damage},
        )
        if entry is not None and _may_have(segment, entry[1]):
            found = max(found, entry)
    return found


def largest_timestamp_below(segment: SegmentReader, offset: int) -> tuple[int, int]:
    """As `largest_timestamp`, of the batches wholly below `offset`, and by the log alone."""
    none = NO_TIMESTAMP, segment.base_offset
    found, damage = _walk(segment, 0, segment.log_file.size, none, offset)
    if damage is not None:
        _log.warning(
            "The largest timestamp counts only batches before damage: %(error)s", {"error": damage}
        )
    return found


def _walk(
    segment: SegmentReader,
    start: int,
    end: int,
    best: tuple[int, int],
    offset_end: int = OFFSET_MAX,
) -> tuple[tuple[int, int], DamagedLog | None]:
    """Return the largest timestamp with its offset, and the damage that ended the walk."""
    try:
        for _, header in segment.log_file.scan(start, end, offset_min=segment.base_offset):
            if header.last_offset >= offset_end:
                break
            if header.max_timestamp > best[0]:
                best = header.max_timestamp, header.last_offset
    except DamagedLog as damage:
        return best, damage
    return best, None


def _may_have(segment: SegmentReader, offset: int) -> bool:
    return segment.base_offset <= offset and not 0 <= segment.next_offset <= offset


def batch_of_timestamp(segment: SegmentReader, entry: tuple[int, int]) -> BatchHeader | None:
    """Return the batch that holds a time index entry's offset, if it has its timestamp."""
    timestamp, offset = entry
    if not _may_have(segment, offset):
        return None
    try:
        found = segment.position_of(offset)
    except DamagedLog:
        return None
    if found is None or found[1].base_offset > offset or found[1].max_timestamp != timestamp:
        return None
    return found[1]
