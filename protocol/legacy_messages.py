"""Messages of the formats before record batches: magic 0 and 1, as old segments still hold them.

The tools read them, and so does the log in old segments. They are never written: Kafka 4 does not
accept them either. A message:

    position  size  field
           0     8  offset        of a wrapper: that of its last inner message
           8     4  size          of what follows
          12     4  CRC-32        of everything from position 16 on (not CRC-32C)
          16     1  magic         0, or 1 since Kafka 0.10 (KIP-32)
          17     1  attributes    bits 0-2 codec, bit 3 log append time (magic 1)
          18     8  timestamp     ms, magic 1 only
                 4  key size, -1 for none;    key
                 4  value size, -1 for none;  value

A compressed message is a wrapper: its value unpacks to messages one after the other. Inside one of
magic 0 the offsets are absolute; inside one of magic 1 they count from 0, and the last one has the
wrapper's offset (KIP-31). Where the wrapper has log append time, its timestamp is theirs.

Kafka's lz4 writer of magic 0 took the checksum of its frame header over too many bytes, so that
libraries refuse the frame (KIP-57); it is put right before unpacking.

Whatever the bytes are, reading raises RecordError and nothing else.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from protocol.compression import LZ4, NONE, decompress
from protocol.record_batch import CODEC_MASK, LOG_APPEND_TIME, LOG_OVERHEAD, Buffer
from protocol.record_errors import CorruptBatch, InvalidRecord

MAGIC_POSITION: Final = 16  # also of a record batch
NO_TIMESTAMP: Final = -1

_HEAD = struct.Struct(">qiIbb")
_int64 = struct.Struct(">q")
_int32 = struct.Struct(">i")
_CRC_START = 16
_LENGTH_MIN: Final = (14, 22)  # by magic: CRC, magic, attributes, (timestamp,) two sizes
MESSAGE_SIZE_MIN: Final = LOG_OVERHEAD + _LENGTH_MIN[0]

_LZ4_FRAME = b"\x04\x22\x4d\x18"
_LZ4_HAS_CONTENT_SIZE = 0x08
_MASK32 = 0xFFFFFFFF


class LegacyMessage(NamedTuple):
    """One message; `timestamp` is -1 in magic 0, `size` counts all of its bytes."""

    offset: int
    size: int
    crc: int
    crc_computed: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def codec(self) -> int:
        """The codec id: 0 none, 1 gzip, 2 snappy, 3 lz4."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether the broker set the timestamp (magic 1)."""
        return self.magic == 1 and bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_valid(self) -> bool:
        """Whether the bytes are those that the checksum was taken of."""
        return self.crc == self.crc_computed


def read_message(buffer: Buffer, position: int = 0) -> LegacyMessage:
    """Read the message at `position`; its checksum is computed but not judged.

    Raises CorruptBatch where the sizes do not fit the bytes or the magic is neither 0 nor 1.
    """
    remaining = len(buffer) - position
    if remaining < MESSAGE_SIZE_MIN:
        raise CorruptBatch(position, f"{remaining} bytes, a message takes {MESSAGE_SIZE_MIN}")
    offset, length, crc, magic, attributes = _HEAD.unpack_from(buffer, position)
    if magic not in (0, 1):
        raise CorruptBatch(position, f"magic {magic}, expected 0 or 1")
    if not _LENGTH_MIN[magic] <= length <= remaining - LOG_OVERHEAD:
        raise CorruptBatch(
            position,
            f"message of size {length}, "
            f"expected {_LENGTH_MIN[magic]} to {remaining - LOG_OVERHEAD}",
        )
    end = position + LOG_OVERHEAD + length
    at = position + _HEAD.size
    timestamp = NO_TIMESTAMP
    if magic == 1:
        (timestamp,) = _int64.unpack_from(buffer, at)
        at += _int64.size
    key, at = _read_bytes(buffer, position, at, end)
    value, at = _read_bytes(buffer, position, at, end)
    if at != end:
        raise CorruptBatch(position, f"{end - at} bytes are left behind the message's value")
    computed = zlib.crc32(memoryview(buffer)[position + _CRC_START : end])
    return LegacyMessage(
        offset, LOG_OVERHEAD + length, crc, computed, magic, attributes, timestamp, key, value
    )


def _read_bytes(buffer: Buffer, position: int, at: int, end: int) -> tuple[bytes | None, int]:
    if at + _int32.size > end:
        raise CorruptBatch(position, "the message ends inside a size")
    (size,) = _int32.unpack_from(buffer, at)
    at += _int32.size
    if size < 0:
        return None, at
    if at + size > end:
        raise CorruptBatch(position, f"a key or value of {size} bytes, but {end - at} are left")
    return bytes(buffer[at : at + size]), at + size


def inner_messages(message: LegacyMessage, *, size_max: int) -> list[LegacyMessage]:
    """Return the messages in `message`: itself, or those inside a wrapper.

    Offsets and timestamps are the absolute ones. `size_max` bounds the unpacked bytes. Raises
    RecordError.
    """
    if message.codec == NONE:
        return [message]
    if message.value is None:
        raise InvalidRecord(f"The compressed message at offset {message.offset} has no value")
    packed: Buffer = message.value
    if message.codec == LZ4 and message.magic == 0:
        packed = _with_right_lz4_header(packed)
    inner = list(_iterate(decompress(message.codec, packed, size_max), message))
    if not inner:
        raise InvalidRecord(f"The compressed message at offset {message.offset} holds none")
    if message.magic == 0:
        return inner
    base = message.offset - inner[-1].offset
    timestamp = message.timestamp if message.is_log_append_time else None
    return [
        one._replace(
            offset=base + one.offset,
            timestamp=one.timestamp if timestamp is None else timestamp,
        )
        for one in inner
    ]


def _iterate(data: bytes, wrapper: LegacyMessage) -> Iterator[LegacyMessage]:
    position = 0
    while position < len(data):
        message = read_message(data, position)
        if message.magic != wrapper.magic or message.codec != NONE:
            raise InvalidRecord(
                f"Inside the compressed message at offset {wrapper.offset}: magic {message.magic} "
                f"codec {message.codec}, expected magic {wrapper.magic} codec {NONE}"
            )
        yield message
        position += message.size


def _with_right_lz4_header(packed: Buffer) -> bytearray:
    """Give an lz4 frame the header checksum that its format asks for."""
    fixed = bytearray(packed)
    if len(fixed) < 7 or fixed[:4] != _LZ4_FRAME:
        return fixed  # no frame: the library raises
    end = 6 + (8 if fixed[4] & _LZ4_HAS_CONTENT_SIZE else 0)
    if len(fixed) > end:
        fixed[end] = (_xxh32_short(bytes(fixed[4:end])) >> 8) & 0xFF
    return fixed


def _xxh32_short(data: bytes) -> int:
    """XXH32 with seed 0 of less than 16 bytes: what lz4 checks its frame header with."""
    assert len(data) < 16
    number = 0x165667B1 + len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        number = (number + int.from_bytes(data[at : at + 4], "little") * 0xC2B2AE3D) & _MASK32
        number = _rotated(number, 17) * 0x27D4EB2F & _MASK32
    for byte in data[whole:]:
        number = (number + byte * 0x165667B1) & _MASK32
        number = _rotated(number, 11) * 0x9E3779B1 & _MASK32
    number = (number ^ number >> 15) * 0x85EBCA77 & _MASK32
    number = (number ^ number >> 13) * 0xC2B2AE3D & _MASK32
    return number ^ number >> 16


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> (32 - bits)) & _MASK32
