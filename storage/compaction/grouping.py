"""Groups neighbouring segments that a pass merges into one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from storage.log import Log
from storage.segments.checked_batches import AppendedPart, InactiveFile
from storage.segments.offset_index import RELATIVE_OFFSET_MAX
from storage.segments.segment import Segment

GROUP_SEGMENTS_MAX: Final = 32  # of three or four files each


class SourceSegment(NamedTuple):
    """A segment that a pass reads, and its log file with its range of offsets."""

    segment: Segment
    file: InactiveFile


def source_segments(log: Log, end_offset: int) -> list[SourceSegment]:
    """Return the segments below `end_offset`."""
    segments = log.segments.all
    return [
        SourceSegment(
            segment, InactiveFile(segment.log_file, segment.base_offset, after.base_offset)
        )
        for segment, after in pairwise(segments)
        if after.base_offset <= end_offset
    ]


def appended_after(log: Log, offset: int) -> list[AppendedPart]:
    """Return what the log has from the segment at `offset` on, as far as it was appended.

    Nothing if the offset lies in the active segment: the log may begin there.
    """
    segments = [one for one in log.segments.all if one.base_offset >= offset]
    ends = [*(one.base_offset for one in segments[1:]), log.end_offset]
    return [
        AppendedPart(one.log_file, one.base_offset, end, one.log_file.size)
        for one, end in zip(segments, ends, strict=False)
    ]


def grouped(
    segments: Sequence[SourceSegment], size_max: int, index_size_max: int
) -> list[list[SourceSegment]]:
    """Group neighbours so that the bytes, indexes and offsets of each group fit one segment.

    Sizes are those before the pass (Kafka: Cleaner.groupSegmentsBySize). Unlike Kafka's, a group
    has a bounded number of files, because they are renamed in one step of the loop.
    """
    groups: list[list[SourceSegment]] = []
    sizes = [0, 0, 0]
    for one in segments:
        segment, file = one
        own = [file.size, segment.indexes.offset.size_bytes, segment.indexes.time.size_bytes]
        both = [size + more for size, more in zip(sizes, own, strict=True)]
        base_offset = groups[-1][0].segment.base_offset if groups else 0
        if (
            groups
            and len(groups[-1]) < GROUP_SEGMENTS_MAX
            and both[0] <= size_max
            and max(both[1:]) <= index_size_max
            and (not file.size or file.end_offset - 1 - base_offset <= RELATIVE_OFFSET_MAX)
        ):
            groups[-1].append(one)
            sizes = both
        else:
            groups.append([one])
            sizes = own
    return groups
