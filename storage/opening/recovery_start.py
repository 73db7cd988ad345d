"""Finds the first batch above the recovery point, where recovery begins.

The offset index gives a position near it; from there the headers are read. Two checks are made on
the way: each batch must follow the one before, and the last batch below the recovery point must be
whole, because its length says where the first one above it begins. Damage found here is bit rot of
acknowledged records. It stays, and a search by CRC finds the next good batch above the recovery
point.
"""

from __future__ import annotations

from typing import NamedTuple

from protocol.record_batch import HEADER_SIZE, BatchHeader, read_header
from storage.errors import DamagedLog
from storage.opening.batch_search import find_batch, is_batch_at, is_whole
from storage.opening.recovery_report import RecoveryReport
from storage.segments.segment import Segment


class Start(NamedTuple):
    """Where recovery begins in a segment, and which offset the batch there must have.

    `position` is None if no batch above the recovery point was found. `behind_damage` is the
    (last offset, position) of a batch that only the search by CRC could find.
    """

    position: int | None
    next_offset: int
    behind_damage: tuple[int, int] | None = None


def find_start(
    segment: Segment, recovery_point: int, holes_below: int, report: RecoveryReport
) -> Start:
    """Find the first batch above the recovery point. Damage goes into `report`.

    Raises LogFailed, OSError.
    """
    next_offset = segment.base_offset
    if segment.base_offset >= recovery_point:
        return Start(0, next_offset)
    entry = segment.indexes.lookup(recovery_point - 1)
    position = entry[1] if entry is not None and is_batch_at(segment, entry) else 0
    try:
        is_known = position == 0  # whether the next batch must begin at next_offset
        for at, header in segment.log_file.scan(position, offset_min=segment.base_offset):
            if is_known and breaks_row(segment, at, header, next_offset, holes_below):
                raise _damaged(segment, at, next_offset, f"base offset {header.base_offset}")
            is_known = True
            # A damaged length in the last batch would give a wrong begin of the next one.
            is_last = header.base_offset < recovery_point <= header.next_offset
            if is_last and not is_whole(memoryview(segment.log_file.read(at, header.size)), 0):
                raise _damaged(segment, at, next_offset, "a batch with a wrong CRC")
            if header.next_offset > recovery_point:
                # A batch that contains the recovery point is recovered as a whole.
                return Start(at, min(recovery_point, header.base_offset))
            position, next_offset = at + header.size, header.next_offset
    except DamagedLog as damage:
        if next_offset >= recovery_point:
            return Start(
                position, next_offset
            )  # the damage is above the recovery point: recovery cuts it
        report.warnings.append(f"damage below the recovery point is left in place: {damage}")
        found = find_batch(segment, damage.position + 1, recovery_point)
        if found is None:
            return Start(None, next_offset)
        header = read_header(segment.log_file.read(found, HEADER_SIZE))
        return Start(found, header.base_offset, (header.last_offset, found))
    return Start(position, next_offset)


def _damaged(segment: Segment, position: int, next_offset: int, found: str) -> DamagedLog:
    path = segment.log_file.path
    return DamagedLog(path, position, next_offset, found=found, wanted=str(next_offset))


def breaks_row(
    segment: Segment, position: int, header: BatchHeader, next_offset: int, holes_below: int
) -> bool:
    """Whether a batch's base offset does not follow the batches before it.

    A flipped bit in a base offset, which no CRC covers, leaves a gap on both sides. So a gap before
    a batch is no damage if the next batch follows it. Compaction may have made a gap that begins
    below `holes_below`; there may be another one behind the batch, but the two must not overlap.
    """
    gap = header.base_offset - next_offset
    if gap <= 0:
        return gap < 0
    after = segment.log_file.read_header_at(position + header.size)
    if next_offset < holes_below:
        return after is not None and after.base_offset < header.next_offset
    return after is None or after.base_offset != header.next_offset
