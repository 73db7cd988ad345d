"""Searches for the next good batch after damage: any position where a CRC proves one.

A batch's length says where the next one begins, and a damaged length is useless. So the search
tries every byte that may be the magic of a header, up to `SEARCH_BYTES_MAX`.
"""

from __future__ import annotations

from typing import Final

from protocol.legacy_batches import LegacyHeader, verify_any
from protocol.record_batch import (
    BATCH_LENGTH_MIN,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    read_header,
)
from protocol.record_errors import RecordError
from storage.segments.segment import Segment

SEARCH_BYTES_MAX: Final = 64 * 1024 * 1024


def find_batch(segment: Segment, position: int, offset_min: int) -> int | None:
    """Find the next batch with a right CRC and a base offset >= `offset_min`.

    Returns its position; None if there is none within 64 MiB of `position`.
    """
    end = min(segment.size, position + SEARCH_BYTES_MAX)
    data = memoryview(segment.log_file.read(position, end - position))
    text = bytes(data)
    magic_at = LOG_OVERHEAD + 4
    at = text.find(bytes([MAGIC]), magic_at) - magic_at
    while 0 <= at <= len(data) - HEADER_SIZE:
        header = read_header(data, at)
        if (
            header.base_offset >= offset_min
            and header.batch_length >= BATCH_LENGTH_MIN
            and header.last_offset <= segment.last_offset_max
            and header.size <= len(data) - at
            and is_whole(data, at)
        ):
            return position + at
        at = text.find(bytes([MAGIC]), at + magic_at + 1) - magic_at
    return None


def is_whole(data: memoryview, at: int) -> bool:
    """Whether a batch of any magic with a right structure and CRC begins at `at`."""
    try:
        verify_any(data, at)
    except RecordError:
        return False
    return True


def is_batch_at(segment: Segment, entry: tuple[int, int]) -> bool:
    """Whether an index entry (offset, position) points at the batch with that offset."""
    header = segment.log_file.read_header_at(entry[1]) if entry[1] >= 0 else None
    if isinstance(header, LegacyHeader):
        return header.base_offset <= entry[0]
    return header is not None and header.magic == MAGIC and header.last_offset == entry[0]
