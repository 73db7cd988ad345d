"""Tell whether the bytes at the end of a metadata log are an interrupted write, or damage.

A write is one batch at the end of the last segment. If the machine stops before its fsync, the file
may hold any prefix of the batch, or its full length with sectors that never reached the disk and
read as zeroes. The first sector may be missing too, since pages are written in any order; for the
same reason a whole batch of the next write may follow. No client was told that such a write
happened, so it may be cut. All other bytes were complete once, and cutting them would lose
acknowledged changes. (Nothing below the recovery point is cut either; the caller checks that.)
"""

from __future__ import annotations

from typing import Final

from protocol.record_batch import HEADER_SIZE, MAGIC, read_header, verify, write_crc
from protocol.record_errors import RecordError

SECTOR_BYTES: Final = 512  # the least that a disk writes whole
_MAGIC_POSITION = 16
assert HEADER_SIZE > _MAGIC_POSITION
_LENGTH_POSITION = 8
_LENGTH_BYTES = 4
_LENGTH_OVERHEAD = _LENGTH_POSITION + _LENGTH_BYTES


def damage_of_tail(tail: bytes, position: int, wanted_offset: int) -> str:
    """Say why `tail` cannot be the rest of an interrupted write; "" when it can.

    `tail` is everything in the file from `position` on, where a whole batch with base offset
    `wanted_offset` was expected and not found.
    """
    if not any(tail):
        return ""
    header = read_header(tail) if len(tail) >= HEADER_SIZE else None
    is_ours = header and header.base_offset == wanted_offset and header.magic == MAGIC
    size = header.size if header and is_ours else len(tail)
    begin_before = size if is_ours else _MAGIC_POSITION + 1
    if _has_lost_sector(tail, position, begin_before, size, wanted_offset):
        return ""
    if later := _whole_batch_behind(tail, wanted_offset):
        return f"a whole batch follows at position {position + later}"
    if header is None:
        return ""
    if not is_ours:
        return (
            f"base offset {header.base_offset} and magic {header.magic}, "
            f"expected {wanted_offset} and {MAGIC}"
        )
    if size > len(tail):
        if _is_whole_without_length(tail):
            return "all of the batch is there, its length field is wrong"
        return ""
    return f"all {size} bytes of the last batch are there, and are not what was written"


def _has_lost_sector(
    tail: bytes, position: int, begin_before: int, end: int, wanted_offset: int
) -> bool:
    """Whether a sector that begins before index `begin_before` of the tail reads as zeroes.

    Of the sectors at both ends, what lies within the tail, and before index `end`, counts.
    """
    # The high bytes of an offset are zeroes anyway: a lost beginning looks the same.
    least = wanted_offset.to_bytes(_LENGTH_POSITION, "big") + b"\0\0\0\1"
    start = 0
    while start < min(begin_before, len(tail)):
        stop = min((position + start) // SECTOR_BYTES * SECTOR_BYTES + SECTOR_BYTES - position, end)
        if not any(tail[start:stop]) and (start or any(least[:stop])):
            return True
        start = stop
    return False


def _whole_batch_behind(tail: bytes, wanted_offset: int) -> int:
    """Return the index of a valid batch of a later offset behind the first byte, or 0."""
    magic_at = tail.find(b"\x02", _MAGIC_POSITION + 1)
    while magic_at >= 0:
        index = magic_at - _MAGIC_POSITION
        try:
            header = read_header(tail, index)
            if header.base_offset > wanted_offset and header.size <= len(tail) - index:
                verify(tail, index)
                return index
        except RecordError:
            pass
        magic_at = tail.find(b"\x02", magic_at + 1)
    return 0


def _is_whole_without_length(tail: bytes) -> bool:
    """Whether the CRC is right when the batch is taken to end with the file."""
    copy = bytearray(tail)
    length = len(tail) - _LENGTH_OVERHEAD
    copy[_LENGTH_POSITION:_LENGTH_OVERHEAD] = length.to_bytes(_LENGTH_BYTES, "big")
    stated = read_header(copy).crc
    write_crc(copy, 0)
    return read_header(copy).crc == stated
