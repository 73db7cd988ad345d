"""Whether the bytes at the end of a metadata log are what a crash leaves, or damage.

A write is one batch at the end of the last segment. If the machine stops before its fsync, the
file holds any beginning of it, or has its full length with sectors that never reached the disk
and read as zeroes. Nobody was told that such a write had happened, so it may be cut. Everything
else was once whole: cutting it would lose what was acknowledged.
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
    zeroes_from = len(tail.rstrip(b"\0"))
    if zeroes_from == 0:
        return ""
    if later := _whole_batch_behind(tail, wanted_offset):
        return f"a whole batch stands behind it at position {position + later}"
    if len(tail) < HEADER_SIZE:
        return ""
    first_lost = _sector_after(position, zeroes_from)
    header = read_header(tail)
    if header.base_offset != wanted_offset or header.magic != MAGIC:
        if zeroes_from <= _MAGIC_POSITION and first_lost < len(tail):
            return ""
        return (
            f"base offset {header.base_offset} and magic {header.magic}, "
            f"wanted {wanted_offset} and {MAGIC}"
        )
    if header.size > len(tail):
        if _is_whole_without_length(tail):
            return "all of the batch is there, its length field is wrong"
        return ""
    if first_lost < header.size:
        return ""
    return f"all {header.size} bytes of the last batch are there, and are not what was written"


def _sector_after(position: int, index: int) -> int:
    """Return the index in the tail of the first sector boundary at or behind `index`."""
    return -(-(position + index) // SECTOR_BYTES) * SECTOR_BYTES - position


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
