"""The header of a record batch (magic 2): layout, checks, and the fields that the broker stamps.

A batch is one run of bytes, the same on the wire and on disk:

    position  size  field
           0     8  base offset            stamped by the broker, outside the CRC
           8     4  batch length           bytes after this field: size - 12
          12     4  leader epoch           stamped by the broker, outside the CRC
          16     1  magic                  2
          17     4  CRC-32C                of everything from position 21 to the end
          21     2  attributes             bits 0-2 codec, 3 log append time, 4 transactional,
                                           5 control, 6 delete horizon
          23     4  last offset delta      last offset - base offset
          27     8  base timestamp         ms; the records' timestamps are deltas to it
          35     8  max timestamp          ms
          43     8  producer id            -1 without idempotence
          51     2  producer epoch
          53     4  base sequence
          57     4  record count
          61        the records, compressed as one block when the codec is not 0

All integers are big-endian (Kafka: DefaultRecordBatch, KIP-98). Only the header is read here;
the records stay opaque, and `protocol.records` opens them. There are two checks: `verify` checks
that the bytes are a whole batch, as a log file must hold; `verify_produced` also checks that a
producer may send it.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, NoReturn, TypeAlias

from protocol.checksum import crc32c
from protocol.record_errors import (
    CorruptBatch,
    InvalidRecord,
    RecordBatchTooLarge,
    UnsupportedCompression,
)

Buffer: TypeAlias = bytes | bytearray | memoryview

MAGIC: Final = 2

_HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = _HEADER.size
_LENGTH_POSITION = 8
LOG_OVERHEAD: Final = _LENGTH_POSITION + 4  # base offset and batch length: not in the length
_EPOCH_POSITION = LOG_OVERHEAD
_CRC_POSITION = _EPOCH_POSITION + 4 + 1
_CRC_START = _CRC_POSITION + 4
_ATTRIBUTES_POSITION = _CRC_START
_MAX_TIMESTAMP_POSITION = _ATTRIBUTES_POSITION + 2 + 4 + 8
BATCH_LENGTH_MIN: Final = HEADER_SIZE - LOG_OVERHEAD
_LENGTH_MIN_ANY_MAGIC = 14  # what a message of magic 0 takes: Kafka, LegacyRecord
assert HEADER_SIZE == 61
assert _MAX_TIMESTAMP_POSITION == 35

# On disk and on the wire: never renumber.
CODEC_MASK: Final = 0x07
CODEC_MAX: Final = 4
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

INT64_END: Final = 1 << 63
_SEQUENCE_COUNT = 1 << 31  # sequences run from 0 to 2^31 - 1 and begin again

_int32 = struct.Struct(">i")
_int64 = struct.Struct(">q")
_uint32 = struct.Struct(">I")
_int16 = struct.Struct(">h")

_unpack = _HEADER.unpack_from

# The CRC is taken with the GIL held: 1 MiB takes 31 us here, while getting a released GIL back
# from a thread that runs Python can take the 5 ms of the switch interval.
_HOLD_GIL = 0


def as_int64(number: int) -> int:
    """Wrap around as Java's long does, in which sums and differences of timestamps are defined."""
    return (number + INT64_END) % (2 * INT64_END) - INT64_END


class BatchHeader(NamedTuple):
    """The fixed 61 bytes of a batch; field by field as in the layout above."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """The bytes of the whole batch."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The offset of the last record, also when compaction has removed it."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """The codec id: 0 to 4 are defined, 5 to 7 are not."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether max_timestamp, set by the broker, is the timestamp of every record."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a control record (a marker) and no data."""
        return bool(self.attributes & CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether base_timestamp is the time from which tombstones may go (KIP-534)."""
        return bool(self.attributes & DELETE_HORIZON)

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; -1 without a producer's sequence."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCE_COUNT


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Unpack the header at `position`, checking nothing but that its 61 bytes are there."""
    try:
        return tuple.__new__(BatchHeader, _unpack(buffer, position))
    except struct.error:
        raise CorruptBatch(
            position,
            f"{len(buffer) - position} bytes are left, a header takes {HEADER_SIZE}",
        ) from None


def check_structure(header: BatchHeader, remaining: int, position: int = 0) -> None:
    """Check the rules of every batch; `remaining` is the bytes from its start to the end.

    Raises CorruptBatch; InvalidRecord for the older formats, magic 0 and 1, which are whole
    messages of another layout and not damage.
    """
    _check_format(header, position)
    if header.size > remaining:
        raise CorruptBatch(position, f"size {header.size}, but only {remaining} bytes are left")
    if header.last_offset_delta < 0:
        raise CorruptBatch(position, f"last offset delta {header.last_offset_delta}")
    if header.record_count < 0:
        raise CorruptBatch(position, f"record count {header.record_count}")


def _check_format(header: BatchHeader, position: int) -> None:
    if header.batch_length < _LENGTH_MIN_ANY_MAGIC:
        raise CorruptBatch(
            position, f"batch length {header.batch_length}, expected at least {BATCH_LENGTH_MIN}"
        )
    if header.magic != MAGIC:
        if header.magic in (0, 1):
            raise InvalidRecord(f"Record batch of magic {header.magic}, expected {MAGIC}")
        raise CorruptBatch(position, f"magic {header.magic}, expected {MAGIC}")
    if header.batch_length < BATCH_LENGTH_MIN:
        raise CorruptBatch(
            position, f"batch length {header.batch_length}, expected at least {BATCH_LENGTH_MIN}"
        )


def verify(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header of the batch at `position` after checking structure and CRC.

    Raises CorruptBatch, or InvalidRecord for magic 0 and 1.
    """
    header = read_header(buffer, position)
    check_structure(header, len(buffer) - position, position)
    _check_crc(buffer, header, position)
    return header


def verified_run(buffer: memoryview, position: int, offset: int) -> list[BatchHeader]:
    """Return the headers of the batches from `position` on that are whole, sound and dense.

    Dense: the first begins with `offset`, and each with the offset after the one before. Ends
    silently at the first that is not: `verify` says why. One loop with everything in it, since a
    recovery may read a million batches.
    """
    run: list[BatchHeader] = []
    end = len(buffer)
    last_start = end - HEADER_SIZE
    while position <= last_start:
        fields = _unpack(buffer, position)
        base_offset, length, _, magic, crc, _, delta, _, _, _, _, _, count = fields
        after = position + LOG_OVERHEAD + length
        if (
            base_offset != offset
            or magic != MAGIC
            or length < BATCH_LENGTH_MIN
            or after > end
            or delta < 0
            or count < 0
            or crc32c(buffer[position + _CRC_START : after], 0, _HOLD_GIL) != crc
        ):
            break
        run.append(tuple.__new__(BatchHeader, fields))
        offset = base_offset + delta + 1
        position = after
    return run


def _check_crc(buffer: Buffer, header: BatchHeader, position: int) -> None:
    checked = memoryview(buffer)[position + _CRC_START : position + header.size]
    found = crc32c(checked, 0, _HOLD_GIL)
    if found != header.crc:
        raise CorruptBatch(position, f"CRC-32C {found:#010x}, its header says {header.crc:#010x}")


def check_produced(header: BatchHeader, size_max: int) -> None:
    """Check the rules that only a producer's batch must meet; `size_max` is max.message.bytes.

    The rules are Kafka's (UnifiedLog.analyzeAndValidateRecords, LogValidator.validateBatch).
    Raises InvalidRecord, RecordBatchTooLarge and UnsupportedCompression.
    """
    _check_place_and_size(header, size_max)
    _check_contents(header)


def _check_place_and_size(header: BatchHeader, size_max: int) -> None:
    if header.base_offset != 0:
        raise InvalidRecord(f"The base offset of a produced batch is 0, not {header.base_offset}")
    if header.size > size_max:
        raise RecordBatchTooLarge(header.size, size_max)


def _check_contents(header: BatchHeader) -> None:
    if header.codec > CODEC_MAX:
        raise UnsupportedCompression(header.codec)
    if header.record_count <= 0:
        raise InvalidRecord(f"Invalid reported count for record batch: {header.record_count}")
    if header.record_count != header.last_offset_delta + 1:
        raise InvalidRecord(
            f"Inconsistent batch: {header.record_count} records, "
            f"but offsets for {header.last_offset_delta + 1}"
        )
    if header.attributes & CONTROL:
        raise InvalidRecord("Clients are not allowed to write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise InvalidRecord(
            f"Invalid sequence number {header.base_sequence} of producer {header.producer_id}"
        )


def verify_produced(buffer: Buffer, size_max: int) -> BatchHeader:
    """Return the header of the one batch that `buffer` must be, as a producer may send it.

    The data path's check: one look at the header and one CRC when all is well, and only
    otherwise the slower functions that say what is wrong, in Kafka's order. Raises any
    RecordError but DecompressedTooLarge; the records themselves are not opened.

    Kafka 4.3 cuts off and ignores a tail that is too short for a batch; here nothing may
    follow the batch, so that all of `buffer` is what the log gets.
    """
    try:
        header = tuple.__new__(BatchHeader, _unpack(buffer))
    except struct.error:
        _refuse_short(buffer)
    # Unpacked at once: a field by its name costs a third of what comparing it does.
    base_offset, length, _, magic, crc, attributes, delta, _, _, pid, _, sequence, count = header
    size = length + LOG_OVERHEAD
    if (
        size == len(buffer)
        and magic == MAGIC
        and count > 0
        and count == delta + 1
        and size <= size_max
        and not base_offset
        and not attributes & CONTROL
        and attributes & CODEC_MASK <= CODEC_MAX
        and (pid < 0 or sequence >= 0)
        and crc32c(memoryview(buffer)[_CRC_START:], 0, _HOLD_GIL) == crc
    ):
        return header
    return _refuse_produced(buffer, header, size_max)


def _refuse_short(buffer: Buffer) -> NoReturn:
    """Refuse bytes without a whole header: no batch, or damaged first fields."""
    header = read_header(bytes(buffer).ljust(HEADER_SIZE, b"\0"))
    if len(buffer) >= LOG_OVERHEAD and header.batch_length < _LENGTH_MIN_ANY_MAGIC:
        raise CorruptBatch(
            0, f"batch length {header.batch_length}, expected at least {BATCH_LENGTH_MIN}"
        )
    raise InvalidRecord(
        f"Wanted exactly one record batch a partition, found {len(buffer)} bytes and no batch"
    )


def _refuse_produced(buffer: Buffer, header: BatchHeader, size_max: int) -> NoReturn:
    _check_format(header, 0)
    if header.size != len(buffer):
        raise InvalidRecord(
            "Wanted exactly one record batch a partition, found a batch of "
            f"{header.size} bytes in {len(buffer)} bytes"
        )
    _check_place_and_size(header, size_max)
    _check_crc(buffer, header, 0)
    _check_contents(header)
    raise AssertionError(f"no reason found against {header}")


def batches(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each batch from `position` on, by the lengths alone.

    Stops before a batch that is not wholly there, as the end of a fetch answer or of a file
    being written has. Raises CorruptBatch for a length that no batch has, where walking on is
    impossible.
    """
    end = len(buffer)
    while position + HEADER_SIZE <= end:
        header = read_header(buffer, position)
        if header.batch_length < BATCH_LENGTH_MIN:
            raise CorruptBatch(
                position,
                f"batch length {header.batch_length}, expected at least {BATCH_LENGTH_MIN}",
            )
        if position + header.size > end:
            return
        yield position, header
        position += header.size


def stamp(
    buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int
) -> None:
    """Write base offset and leader epoch in place; both lie outside the CRC."""
    _int64.pack_into(buffer, position, base_offset)
    _int32.pack_into(buffer, position + _EPOCH_POSITION, leader_epoch)


def stamp_append_time(buffer: bytearray | memoryview, position: int, timestamp_ms: int) -> None:
    """Make `timestamp_ms` the timestamp of every record in place, and renew the CRC.

    For message.timestamp.type=LogAppendTime. The records keep their deltas, which readers then
    ignore (Kafka: DefaultRecordBatch.setMaxTimestamp).
    """
    attributes_position = position + _ATTRIBUTES_POSITION
    (attributes,) = _int16.unpack_from(buffer, attributes_position)
    _int16.pack_into(buffer, attributes_position, attributes | LOG_APPEND_TIME)
    _int64.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, timestamp_ms)
    write_crc(buffer, position)


def pack_header(header: BatchHeader) -> bytes:
    """Return the 61 bytes of `header`, without checking its CRC."""
    return _HEADER.pack(*header)


def write_crc(buffer: bytearray | memoryview, position: int) -> None:
    """Compute the CRC of the batch at `position` over its bytes and write it in place."""
    (batch_length,) = _int32.unpack_from(buffer, position + _LENGTH_POSITION)
    end = position + LOG_OVERHEAD + batch_length
    crc = crc32c(memoryview(buffer)[position + _CRC_START : end], 0, _HOLD_GIL)
    _uint32.pack_into(buffer, position + _CRC_POSITION, crc)
