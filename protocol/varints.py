"""Reading the numbers inside records: zigzag varints of 32 and 64 bits.

    7 bits a byte, the low ones first, the highest bit of a byte says that another follows;
    zigzag: 0, -1, 1, -2, ... are 0, 1, 2, 3, ... (Kafka: ByteUtils.readVarint, readVarlong)

If the buffer ends inside a number, reading raises an IndexError, which the caller turns into an
error of its own. The first three bytes are read without a loop, since sizes and deltas are seldom
longer.
"""

from typing import Final

from protocol.record_errors import InvalidRecord

_VARINT_BYTES_MAX: Final = 5
_VARLONG_BYTES_MAX: Final = 10


def read_varint(body: bytes, position: int) -> tuple[int, int]:
    """Return the number of at most 32 bits at `position`, and the position behind it.

    Raises IndexError at the end of `body`, InvalidRecord for more than five bytes.
    """
    byte = body[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    high = body[position + 1]
    if high < 0x80:  # two bytes reach to 8,191, which most sizes and deltas stay below
        byte += (high << 7) - 0x80
        return (byte >> 1) ^ -(byte & 1), position + 2
    top = body[position + 2]
    if top < 0x80:
        byte += (high << 7) + (top << 14) - 0x4080
        return (byte >> 1) ^ -(byte & 1), position + 3
    return _read_long(body, position, _VARINT_BYTES_MAX, 32)


def read_varlong(body: bytes, position: int) -> tuple[int, int]:
    """As `read_varint`, for at most 64 bits in ten bytes."""
    byte = body[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    high = body[position + 1]
    if high < 0x80:
        byte += (high << 7) - 0x80
        return (byte >> 1) ^ -(byte & 1), position + 2
    top = body[position + 2]
    if top < 0x80:
        byte += (high << 7) + (top << 14) - 0x4080
        return (byte >> 1) ^ -(byte & 1), position + 3
    return _read_long(body, position, _VARLONG_BYTES_MAX, 64)


def _read_long(body: bytes, position: int, bytes_max: int, bits: int) -> tuple[int, int]:
    number = shift = 0
    for index in range(position, position + bytes_max):
        byte = body[index]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            number &= (1 << bits) - 1  # as in Kafka: excess bits of the last byte are dropped
            return (number >> 1) ^ -(number & 1), index + 1
        shift += 7
    raise InvalidRecord(f"A number of more than {bytes_max} bytes at byte {position}")
