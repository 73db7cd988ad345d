"""Drops index entries that a power cut has torn: the newest ones, above the recovery point.

Pages of a file reach the disk in any order, so a page in the middle may be missing, and an entry
may be half of what was written. Such an entry does not match its batch. Behind it, recovery would
add the right ones, and a look-up that meets it would have to walk the log.

A synced entry that has rotted looks like a torn one. Without it, the time index may end before the
largest timestamp, and retention would take the segment for older than it is. So the log is walked
for that timestamp if entries of the time index were dropped.
"""

from __future__ import annotations

from typing import Final

from storage.errors import LogFailed
from storage.files.filenames import OFFSET_MAX
from storage.files.room import NO_DESCRIPTOR, errno_of
from storage.segments.largest_timestamp import batch_of_timestamp, largest_timestamp_below
from storage.segments.segment import Segment

DROPPED_MAX: Final = 2_048  # some pages full of entries; an index with more of them is rebuilt


def drop_torn_entries(segment: Segment) -> bool:
    """Drop the newest entries of both indexes, in their files, up to one that matches its batch.

    Returns whether `restore_largest_timestamp` should follow. Entries that cannot be compared stay,
    because the log cannot be read. Raises OSError, and LogFailed if there is no descriptor.
    """
    try:
        _drop_torn_positions(segment)
        return _drop_torn_times(segment)
    except LogFailed as error:
        if errno_of(error) in NO_DESCRIPTOR:
            raise
        return False


def restore_largest_timestamp(segment: Segment, offset_end: int = OFFSET_MAX) -> None:
    """Add the time index entry of the largest timestamp below `offset_end`, if it is missing.

    Walks the log. Raises as `drop_torn_entries` does.
    """
    try:
        segment.indexes.time.maybe_append(*largest_timestamp_below(segment, offset_end))
    except LogFailed as error:
        if errno_of(error) in NO_DESCRIPTOR:
            raise


def _drop_torn_positions(segment: Segment) -> None:
    indexes = segment.indexes
    for _ in range(DROPPED_MAX):
        entry = indexes.offset.last_entry
        # An entry is made when batches lie before its own.
        if entry is None or (entry[1] > 0 and segment.leads_to_batch(entry)):
            break
        indexes.offset.drop_last()
    else:
        indexes.report("entries that were torn by a power cut")


def _drop_torn_times(segment: Segment) -> bool:
    indexes = segment.indexes
    for dropped_count in range(DROPPED_MAX):
        entry = indexes.time.last_entry
        if entry is None:
            return dropped_count > 0
        batch = batch_of_timestamp(segment, entry)
        if batch is not None:
            if entry[1] != batch.last_offset:  # only its offset is torn
                indexes.time.drop_last()
                indexes.time.maybe_append(entry[0], batch.last_offset)
            return dropped_count > 0
        indexes.time.drop_last()
    indexes.report("entries that were torn by a power cut")
    return True
