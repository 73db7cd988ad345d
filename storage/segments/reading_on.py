"""Where a reader reads on that comes back where it stopped: no look-up, and no byte of a file.

The positions behind the last few reads are remembered, and those of the last few appended batches
(`storage.segments.batch_lookup`); where the log's readable part ends is known, too. What is at the
position is for the caller to look at (`storage.segments.order`).
"""

from __future__ import annotations

from typing import NamedTuple

from storage.segments.row import Segments
from storage.segments.segment import Segment


class Place(NamedTuple):
    """A position in a segment, and where what may be read from there ends."""

    segment: Segment
    position: int
    position_end: int
    offset_end: int


def known_place(segments: Segments, start_offset: int, limit: int, end_offset: int) -> Place | None:
    """Return where a reader reads on from `start_offset` below `limit`.

    `end_offset` is the log's. None if that takes a look-up, or there is nothing to read.
    """
    segment, position_end = segments.active, -1
    if start_offset < segment.base_offset:
        index = segments.index_of(start_offset)
        segment, behind = segments.all[index], segments.all[index + 1].base_offset
        if behind <= limit:
            limit, position_end = behind, segment.log_file.size
    elif limit == end_offset:
        position_end = segment.log_file.size
    elif limit == segments.durable_offset and segment.base_offset == segments.durable_base:
        position_end = segments.durable_position
    position = segment.known_position(start_offset)
    if position is None or position >= position_end:
        return None
    return Place(segment, position, position_end, limit)
