"""Records inside a batch: reading, building, and finding one by its timestamp.

The broker does not open batches on its data path; this is for what must see single records:
the metadata log, ListOffsets by timestamp, recompression, the tools. One record (magic 2):

    varint   size of what follows
    int8     attributes, unused
    varlong  timestamp - base timestamp
    varint   offset - base offset
    varint   key size, -1 for none;    key
    varint   value size, -1 for none;  value
    varint   count of headers; each:   varint key size, key (UTF-8), varint value size or -1, value

Varints are those of `protocol.varints` (Kafka: DefaultRecord, KIP-82 for headers).
Whatever the bytes are, reading raises RecordError and nothing else, and makes nothing from an
announced size or count. The header of a batch is read in `protocol.record_batch`
and is offered here too, so that users of records need one import.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from protocol.compression import compress, decompress
from protocol.java_text import JAVA
from protocol.record_batch import (
    BATCH_LENGTH_MIN,
    CONTROL,
    HEADER_SIZE,
    INT64_END,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    as_int64,
    batches,
    check_produced,
    check_structure,
    pack_header,
    read_header,
    stamp,
    stamp_append_time,
    verify,
    verify_produced,
    write_crc,
)
from protocol.record_errors import InvalidRecord, TooManyRecords
from protocol.varints import read_varint, read_varlong

__all__ = [
    "BATCH_LENGTH_MIN",
    "HEADER_SIZE",
    "LOG_OVERHEAD",
    "NO_TIMESTAMP",
    "RECORD_BYTES_MIN",
    "SKIP",
    "START",
    "BatchHeader",
    "Buffer",
    "Place",
    "Record",
    "batches",
    "build",
    "check_produced",
    "check_structure",
    "iterate",
    "read_header",
    "read_records",
    "skipped",
    "stamp",
    "stamp_append_time",
    "verify",
    "verify_produced",
]

NO_TIMESTAMP: Final = -1
SKIP: Final = -1  # headers, if the caller did not ask for them

# The numbers of one byte, from 0 to 63 and from -64 to -1, as Python counts an index.
_VARINTS: Final = tuple(
    bytes(((number << 1) ^ (number >> 63),)) for number in (*range(64), *range(-64, 0))
)

# The size, attributes, two deltas, two lengths, and a count of no headers.
RECORD_BYTES_MIN: Final = 7


# Where a walk over the records of a batch stands: the index of the next one, and its first byte.
Place = tuple[int, int]
START: Final[Place] = (0, 0)


class Record(NamedTuple):
    """One record, with its offset and timestamp in full."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def read_records(
    buffer: Buffer, position: int = 0, *, size_max: int, skip_headers: bool = False
) -> Iterator[Record]:
    """Yield the records of the batch at `position`; `size_max` bounds them when decompressed.

    With `skip_headers` they come without: a record may have a header for every two of its bytes,
    and each takes a hundred to hold.

    The structure of the batch is checked, its CRC is not: `verify` does that. Decompression
    happens at the call, reading of records as they are taken. Raises any RecordError but
    RecordBatchTooLarge and TooManyRecords.
    """
    header = read_header(buffer, position)
    check_structure(header, len(buffer) - position, position)
    packed = memoryview(buffer)[position + HEADER_SIZE : position + header.size]
    body = decompress(header.codec, packed, size_max)
    return iterate(header, body, headers_max=SKIP if skip_headers else None)


def iterate(
    header: BatchHeader,
    body: bytes,
    *,
    from_offset: int | None = None,
    headers_max: int | None = None,
    place: Place = START,
) -> Iterator[Record]:
    """Yield the records in the decompressed `body` of a batch, from a place of `skipped` on.

    Those below `from_offset` are skipped. A record with more than `headers_max` headers raises
    TooManyRecords (None: no bound; SKIP: all records come without headers).
    """
    begin, position = place
    count = header.record_count
    delta_min = None if from_offset is None else from_offset - header.base_offset
    if count * RECORD_BYTES_MIN > len(body):
        raise InvalidRecord(f"{count} records announced, but their bytes are {len(body)}")
    for index in range(begin, count):
        try:
            if delta_min is not None:
                end = _end_if_below(body, position, delta_min)
                if end:
                    position = end
                    continue
            record, position = _read_record(header, body, position, headers_max)
        except IndexError:
            raise InvalidRecord(f"Record {index} of {count} ends inside a number") from None
        yield record
    if position != len(body):
        raise InvalidRecord(
            f"{len(body) - position} bytes are left after the {count} records of the batch"
        )


def skipped(
    header: BatchHeader, body: bytes, place: Place, from_offset: int, at_most: int
) -> tuple[Place, bool]:
    """Pass over records below an offset, some at a time, where a caller may not do so for long.

    Returns the place behind them, for `iterate` or the next call, and whether there may be more.
    """
    index, position = place
    delta_min = from_offset - header.base_offset
    ends = min(header.record_count, index + at_most)
    try:
        while index < ends:
            end = _end_if_below(body, position, delta_min)
            if not end:
                return (index, position), False
            index, position = index + 1, end
    except IndexError:
        return (index, position), False  # `iterate` raises
    return (index, position), index < header.record_count


def _end_if_below(body: bytes, position: int, delta_min: int) -> int:
    """Return the end of the record at `position` if its offset is below, else 0."""
    size, position = read_varint(body, position)
    end = position + size
    if size < 0 or end > len(body):
        return 0  # `_read_record` raises
    _, position = read_varlong(body, position + 1)
    return end if read_varint(body, position)[0] < delta_min else 0


def _read_record(
    header: BatchHeader, body: bytes, position: int, headers_max: int | None
) -> tuple[Record, int]:
    size, position = read_varint(body, position)
    end = position + size
    if size < 0 or end > len(body):
        raise InvalidRecord(f"Record of {size} bytes, but {len(body) - position} are left")
    timestamp_delta, position = read_varlong(body, position + 1)
    offset_delta, position = read_varint(body, position)
    key, position = _read_bytes(body, position, end)
    value, position = _read_bytes(body, position, end)
    headers: tuple[tuple[str, bytes | None], ...] = ()
    if headers_max != SKIP:
        count, position = read_varint(body, position)
        if count:
            if headers_max is not None and count > headers_max:
                raise TooManyRecords("headers of a record", count, headers_max)
            headers, position = _read_headers(body, position, end, count)
        if position != end:
            raise InvalidRecord(f"Record says {size} bytes, but takes {size + position - end}")
    elif position >= end:
        raise InvalidRecord(f"Record of {size} bytes has no room for its count of headers")
    if header.attributes & LOG_APPEND_TIME:
        timestamp = header.max_timestamp
    else:
        timestamp = header.base_timestamp + timestamp_delta
        if not -INT64_END <= timestamp < INT64_END:
            timestamp = as_int64(timestamp)
    offset = header.base_offset + offset_delta
    return tuple.__new__(Record, (offset, timestamp, key, value, headers)), end


def _read_headers(
    body: bytes, position: int, end: int, count: int
) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    if not 0 <= count <= end - position:
        raise InvalidRecord(f"Found invalid number of record headers {count}")
    headers = []
    for _ in range(count):
        key, position = _read_bytes(body, position, end)
        if key is None:
            raise InvalidRecord("A record header has no key")
        value, position = _read_bytes(body, position, end)
        headers.append((key.decode("utf-8", JAVA), value))
    return tuple(headers), position


def _read_bytes(body: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size = body[position]  # most sizes take one byte; this saves a call for each
    position += 1
    if size < 0x80:
        size = (size >> 1) ^ -(size & 1)
    else:
        size, position = read_varint(body, position - 1)
    if size < 0:
        if size == -1:
            return None, position
        raise InvalidRecord(f"Key or value of {size} bytes")
    stop = position + size
    if stop > end:
        raise InvalidRecord(f"Key or value of {size} bytes, but {end - position} are left")
    return body[position:stop], stop


def build(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    codec: int = 0,
    leader_epoch: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    timestamp_type: int = 0,
) -> bytearray:
    """Return one batch of `records`, in their order, at offsets from `base_offset` on.

    The offsets in the records are not looked at. `timestamp_type` 1 is LogAppendTime: every
    record gets the latest timestamp. Raises ValueError for no records, as no such batch may be
    written, and for numbers that do not fit their fields.
    """
    taken = list(records)
    if not taken:
        raise ValueError("a batch has at least one record, got none")
    first = taken[0]
    base_timestamp = max_timestamp = first[1]
    if len(taken) == 1:
        body = _packed(first, 0, 0)
    else:
        body = b"".join(
            [
                _packed(record, as_int64(record[1] - base_timestamp), delta)
                for delta, record in enumerate(taken)
            ]
        )
        max_timestamp = max([record[1] for record in taken])
    packed = compress(codec, body) if codec else body
    attributes = codec
    attributes |= TRANSACTIONAL if transactional else 0
    attributes |= CONTROL if control else 0
    attributes |= LOG_APPEND_TIME if timestamp_type else 0
    header = BatchHeader(
        base_offset,
        HEADER_SIZE - LOG_OVERHEAD + len(packed),
        leader_epoch,
        MAGIC,
        0,  # the CRC
        attributes,
        len(taken) - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(taken),
    )
    try:
        batch = bytearray(pack_header(header))
    except struct.error as error:
        raise ValueError(f"{header}: {error}") from None
    batch += packed
    write_crc(batch, 0)
    return batch


def _packed(record: Record, timestamp_delta: int, offset_delta: int) -> bytes:
    """Return the bytes of one record. Most of its numbers take one byte."""
    _, _, key, value, headers = record
    if not (headers or timestamp_delta or offset_delta or key is None or value is None):
        # Records of coordinators are alone in their batches.
        packed = b"\0\0\0%b%b%b%b\0" % (_varint(len(key)), key, _varint(len(value)), value)
        return _varint(len(packed)) + packed
    parts = [
        b"\0",
        _varint(timestamp_delta),
        _varint(offset_delta),
        _varint(-1 if key is None else len(key)),
        key or b"",
        _varint(-1 if value is None else len(value)),
        value or b"",
        _varint(len(headers)),
    ]
    for header_key, header_value in headers:
        name = header_key.encode()
        parts += (_varint(len(name)), name)
        parts += (_varint(-1 if header_value is None else len(header_value)), header_value or b"")
    packed = b"".join(parts)
    return _varint(len(packed)) + packed


def _varint(number: int) -> bytes:
    if -64 <= number < 64:
        return _VARINTS[number]
    number = (number << 1) ^ (number >> 63)
    made = bytearray()
    while number > 0x7F:
        made.append((number & 0x7F) | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)
