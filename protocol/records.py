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

Varints are zigzag, 7 bits a byte, low bits first (Kafka: DefaultRecord, KIP-82 for headers).
Whatever the bytes are, reading raises RecordError and nothing else, and makes nothing from an
announced size or count. What concerns the header of a batch stands in `protocol.record_batch`
and is offered here too, so that users of records need one import.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from protocol.compression import compress, decompress
from protocol.record_batch import (
    BATCH_LENGTH_MIN,
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
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
from protocol.record_errors import InvalidRecord, RecordsWithoutKey

__all__ = [
    "BATCH_LENGTH_MIN",
    "HEADER_SIZE",
    "LOG_OVERHEAD",
    "NO_TIMESTAMP",
    "BatchHeader",
    "Buffer",
    "Record",
    "batches",
    "build",
    "check_produced",
    "check_records",
    "check_structure",
    "offset_of_timestamp",
    "read_header",
    "read_records",
    "stamp",
    "stamp_append_time",
    "verify",
    "verify_produced",
]

NO_TIMESTAMP: Final = -1

_INT64_END = 1 << 63
_VARINT_BYTES_MAX = 5
_VARLONG_BYTES_MAX = 10
_RECORD_BYTES_MIN = 7  # the size, attributes, two deltas, two lengths, and a count of no headers


class Record(NamedTuple):
    """One record, with its offset and timestamp in full."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def read_records(buffer: Buffer, position: int = 0, *, size_max: int) -> Iterator[Record]:
    """Yield the records of the batch at `position`; `size_max` bounds them when decompressed.

    The structure of the batch is checked, its CRC is not: `verify` does that. Decompression
    happens at the call, reading of records as they are taken. Raises any RecordError but
    RecordBatchTooLarge.
    """
    header = read_header(buffer, position)
    check_structure(header, len(buffer) - position, position)
    packed = memoryview(buffer)[position + HEADER_SIZE : position + header.size]
    return _iterate(header, decompress(header.codec, packed, size_max))


def check_records(buffer: Buffer, position: int = 0, *, size_max: int, keys_wanted: bool) -> None:
    """Open the batch at `position` and check every record, as Kafka does with each it is sent.

    `keys_wanted` says whether the topic is compacted, where a record without a key could never
    be told from another. Raises RecordsWithoutKey, and what `read_records` and its iteration raise.
    """
    records = enumerate(read_records(buffer, position, size_max=size_max))
    without = [index for index, record in records if keys_wanted and record.key is None]
    if without:
        raise RecordsWithoutKey(without)


def _iterate(header: BatchHeader, body: bytes) -> Iterator[Record]:
    position = 0
    count = header.record_count
    if count * _RECORD_BYTES_MIN > len(body):
        raise InvalidRecord(f"{count} records announced, but their bytes are {len(body)}")
    for index in range(count):
        try:
            record, position = _read_record(header, body, position)
        except IndexError:
            raise InvalidRecord(f"Record {index} of {count} ends inside a number") from None
        except UnicodeDecodeError as error:
            raise InvalidRecord(f"Record {index} of {count}: a header's key: {error}") from None
        yield record
    if position != len(body):
        raise InvalidRecord(
            f"{len(body) - position} bytes are left after the {count} records of the batch"
        )


def _read_record(header: BatchHeader, body: bytes, position: int) -> tuple[Record, int]:
    size, position = _read_varint(body, position)
    end = position + size
    if size < 0 or end > len(body):
        raise InvalidRecord(f"Record of {size} bytes, but {len(body) - position} are left")
    timestamp_delta, position = _read_varlong(body, position + 1)
    offset_delta, position = _read_varint(body, position)
    key, position = _read_bytes(body, position, end)
    value, position = _read_bytes(body, position, end)
    count, position = _read_varint(body, position)
    headers: tuple[tuple[str, bytes | None], ...] = ()
    if count:
        headers, position = _read_headers(body, position, end, count)
    if position != end:
        raise InvalidRecord(f"Record says {size} bytes, but takes {size + position - end}")
    if header.attributes & LOG_APPEND_TIME:
        timestamp = header.max_timestamp
    else:
        timestamp = header.base_timestamp + timestamp_delta
        if not -_INT64_END <= timestamp < _INT64_END:
            timestamp = _as_int64(timestamp)
    offset = header.base_offset + offset_delta
    return tuple.__new__(Record, (offset, timestamp, key, value, headers)), position


def _as_int64(number: int) -> int:
    """Wrap around as Java's long does, in which these sums and differences are defined."""
    return (number + _INT64_END) % (2 * _INT64_END) - _INT64_END


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
        headers.append((key.decode(), value))
    return tuple(headers), position


def _read_bytes(body: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size = body[position]  # most sizes take one byte; this saves a call for each
    position += 1
    if size < 0x80:
        size = (size >> 1) ^ -(size & 1)
    else:
        size, position = _read_varint(body, position - 1)
    if size < 0:
        if size == -1:
            return None, position
        raise InvalidRecord(f"Key or value of {size} bytes")
    stop = position + size
    if stop > end:
        raise InvalidRecord(f"Key or value of {size} bytes, but {end - position} are left")
    return body[position:stop], stop


def _read_varint(body: bytes, position: int) -> tuple[int, int]:
    byte = body[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    high = body[position + 1]
    if high < 0x80:  # two bytes reach to 8,191, which most sizes and deltas stay below
        byte += (high << 7) - 0x80
        return (byte >> 1) ^ -(byte & 1), position + 2
    return _read_long(body, position, _VARINT_BYTES_MAX, 32)


def _read_varlong(body: bytes, position: int) -> tuple[int, int]:
    byte = body[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    high = body[position + 1]
    if high < 0x80:
        byte += (high << 7) - 0x80
        return (byte >> 1) ^ -(byte & 1), position + 2
    return _read_long(body, position, _VARLONG_BYTES_MAX, 64)


def _read_long(body: bytes, position: int, bytes_max: int, bits: int) -> tuple[int, int]:
    number = shift = 0
    for index in range(position, position + bytes_max):
        byte = body[index]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            number &= (1 << bits) - 1  # as Kafka: what the last byte has too much is dropped
            return (number >> 1) ^ -(number & 1), index + 1
        shift += 7
    raise InvalidRecord(f"A number of more than {bytes_max} bytes at byte {position}")


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
    base_timestamp = taken[0].timestamp
    body = bytearray()
    for delta, record in enumerate(taken):
        _write_record(body, record, _as_int64(record.timestamp - base_timestamp), delta)
    packed = compress(codec, body) if codec else body
    attributes = codec
    attributes |= TRANSACTIONAL if transactional else 0
    attributes |= CONTROL if control else 0
    attributes |= LOG_APPEND_TIME if timestamp_type else 0
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=HEADER_SIZE - LOG_OVERHEAD + len(packed),
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=len(taken) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp for record in taken),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(taken),
    )
    try:
        batch = bytearray(pack_header(header))
    except struct.error as error:
        raise ValueError(f"{header}: {error}") from None
    batch += packed
    write_crc(batch, 0)
    return batch


def _write_record(body: bytearray, record: Record, timestamp_delta: int, offset_delta: int) -> None:
    inner = bytearray(1)
    _write_varint(inner, timestamp_delta)
    _write_varint(inner, offset_delta)
    _write_bytes(inner, record.key)
    _write_bytes(inner, record.value)
    _write_varint(inner, len(record.headers))
    for key, value in record.headers:
        _write_bytes(inner, key.encode())
        _write_bytes(inner, value)
    _write_varint(body, len(inner))
    body += inner


def _write_bytes(body: bytearray, data: bytes | None) -> None:
    if data is None:
        body.append(1)  # -1 in zigzag
        return
    _write_varint(body, len(data))
    body += data


def _write_varint(body: bytearray, number: int) -> None:
    number = (number << 1) ^ (number >> 63)
    while number > 0x7F:
        body.append((number & 0x7F) | 0x80)
        number >>= 7
    body.append(number)


def offset_of_timestamp(
    buffer: Buffer, position: int, timestamp: int, size_max: int
) -> tuple[int, int] | None:
    """Return (offset, timestamp) of the batch's first record at or after `timestamp`, or None.

    Opens the batch only when its header leaves the answer open. `size_max` and errors as in
    `read_records`.
    """
    header = read_header(buffer, position)
    if header.max_timestamp < timestamp:
        return None
    if header.attributes & LOG_APPEND_TIME:
        return header.base_offset, header.max_timestamp
    for record in read_records(buffer, position, size_max=size_max):
        if record.timestamp >= timestamp:
            return record.offset, record.timestamp
    return None
