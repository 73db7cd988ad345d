"""Messages of magic 0 and 1 seen as the batches that a log is made of.

A log file of an old Kafka holds messages where later ones hold record batches, and either may
follow the other. A walk over a log sees a message as a batch of one record, and a wrapper as a
batch of its messages: `LegacyHeader` has the fields that a batch header would have. A wrapper
carries the offset of its last record; its base offset is known only after unpacking. A wrapper that
cannot be unpacked counts as one record.

The magic byte has the same position in all formats. A batch whose magic has rotted to 0 or 1 does
not pass for a message, because the sizes of key and value must add up.

They have no leader epoch, no producer, and in magic 0 no timestamp: these are -1 (Kafka:
AbstractLegacyRecordBatch). Whatever the bytes are, reading raises RecordError and nothing else.
"""

from collections.abc import Iterator
from typing import Final

from protocol.legacy_messages import (
    MAGIC_POSITION,
    MESSAGE_SIZE_MIN,
    LegacyMessage,
    inner_messages,
    read_message,
)
from protocol.record_batch import (
    CODEC_MASK,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    BatchHeader,
    Buffer,
    batches,
    verify,
)
from protocol.record_errors import CorruptBatch, RecordError
from protocol.records import Record, read_records

UNPACKED_BYTES_MAX: Final = 64 * 1024 * 1024  # of one wrapper, to find its base offset


class LegacyHeader(BatchHeader):
    """The header that a message of magic 0 or 1 would have, were it a batch."""

    __slots__ = ()


def is_legacy(buffer: Buffer, position: int = 0) -> bool:
    """Whether the magic of what begins at `position` says so."""
    at = position + MAGIC_POSITION
    return at < len(buffer) and buffer[at] <= 1


def read_legacy_header(buffer: Buffer, position: int = 0) -> LegacyHeader:
    """Read the message at `position` as a batch; its checksum is not looked at.

    Raises CorruptBatch where no message of magic 0 or 1 is.
    """
    return _header_of(read_message(buffer, position))


def verify_any(buffer: Buffer, position: int = 0) -> BatchHeader:
    """As `protocol.record_batch.verify`, but messages of magic 0 and 1 are good as well.

    Raises CorruptBatch.
    """
    try:
        return verify(buffer, position)
    except RecordError:
        if not is_legacy(buffer, position):
            raise
    message = read_message(buffer, position)
    if not message.is_valid:
        raise CorruptBatch(
            position, f"CRC-32 {message.crc_computed:#010x}, the message says {message.crc:#010x}"
        )
    return _header_of(message)


def batches_any(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """As `protocol.record_batch.batches`, with messages of magic 0 and 1 among them."""
    while position + MESSAGE_SIZE_MIN <= len(buffer):
        if not is_legacy(buffer, position):
            found = next(batches(buffer, position), None)
            if found is None:
                return
            header = found[1]
        else:
            length = buffer[position + LOG_OVERHEAD - 4 : position + LOG_OVERHEAD]
            if position + LOG_OVERHEAD + int.from_bytes(length, "big", signed=True) > len(buffer):
                return
            header = read_legacy_header(buffer, position)
        yield position, header
        position += header.size


def read_records_any(buffer: Buffer, position: int = 0, *, size_max: int) -> Iterator[Record]:
    """As `protocol.records.read_records`; a message is read as the records in it."""
    if not is_legacy(buffer, position):
        return read_records(buffer, position, size_max=size_max)
    inner = inner_messages(read_message(buffer, position), size_max=size_max)
    return (Record(one.offset, one.timestamp, one.key, one.value) for one in inner)


def _header_of(message: LegacyMessage) -> LegacyHeader:
    base_offset, count = message.offset, 1
    if message.codec:
        try:
            inner = inner_messages(message, size_max=UNPACKED_BYTES_MAX)
        except RecordError:
            pass
        else:
            base_offset, count = min(inner[0].offset, message.offset), len(inner)
    return LegacyHeader(
        base_offset=base_offset,
        batch_length=message.size - LOG_OVERHEAD,
        leader_epoch=-1,
        magic=message.magic,
        crc=message.crc,
        attributes=message.attributes & (CODEC_MASK | LOG_APPEND_TIME),
        last_offset_delta=message.offset - base_offset,
        base_timestamp=message.timestamp,
        max_timestamp=message.timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )
