"""The records of a batch as spans of its bytes, to read their keys and to leave records out.

Compaction needs the key of each record and whether it has a value, and copies the records it keeps
without reading the rest. A batch written anew keeps what clients and producers rely on: base
offset, last offset, leader epoch, producer and sequence, codec, timestamps and headers (Kafka:
MemoryRecords.filterTo). Left out are records alone, so offsets show gaps.

A record's timestamp is stored as the distance to the batch's base timestamp. The delete horizon
(KIP-534: attribute bit 6, and the base timestamp is the time from which tombstones may go)
therefore makes every distance new; otherwise the bytes of a record stay as they are. Distances
and their sums wrap around at 64 bits, as Java's do: no timestamp is too far from a base.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from protocol.compression import compress, decompress
from protocol.record_batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER_SIZE,
    INT64_END,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    BatchHeader,
    Buffer,
    as_int64,
    pack_header,
    write_crc,
)
from protocol.record_errors import InvalidRecord

NO_TIMESTAMP: Final = -1

_BITS_MAX = 64


class Span(NamedTuple):
    """One record: body[start:end], of which body[rest:end] does not depend on the base timestamp.

    `timestamp` is the record's own, which LogAppendTime overrules, before it wraps around. `key`
    is None for a record without one.
    """

    start: int
    rest: int
    end: int
    offset: int
    timestamp: int
    key: bytes | None
    has_value: bool


def open_batch(header: BatchHeader, batch: Buffer, size_max: int) -> bytes:
    """Return the records' bytes, decompressed to at most `size_max` bytes. Raises RecordError."""
    packed = memoryview(batch)[HEADER_SIZE : header.size]
    return decompress(header.codec, packed, size_max)


def read_spans(header: BatchHeader, body: bytes) -> Iterator[Span]:
    """Yield the records in the opened `body` of a batch.

    Raises InvalidRecord where they are not what the header says; the headers of a record are not
    looked at.
    """
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    position, index = 0, 0
    try:
        for index in range(header.record_count):
            start = position
            size = body[position]
            position += 1
            if size >= 0x80:
                size, position = _long(body, start)
            end = position + (size >> 1)
            if size & 1 or end > len(body):
                raise InvalidRecord(f"Record of {size >> 1} bytes at byte {start} of {len(body)}")
            delta = body[position + 1]  # behind the attributes, which are unused
            rest = position + 2
            if delta >= 0x80:
                delta, rest = _long(body, position + 1)
            offset = body[rest]
            position = rest + 1
            if offset >= 0x80:
                offset, position = _long(body, rest)
            if offset & 1 or offset >> 1 > header.last_offset_delta:
                raise InvalidRecord(f"Record {index} has an offset outside of its batch")
            key_size = body[position]
            position += 1
            if key_size >= 0x80:
                key_size, position = _long(body, position - 1)
            key = None
            if not key_size & 1:
                key_end = position + (key_size >> 1)
                key = body[position:key_end]
                position = key_end
            if position >= end:
                raise InvalidRecord(f"A key ends at byte {position}, behind its record at {end}")
            yield tuple.__new__(
                Span,
                (
                    start,
                    rest,
                    end,
                    base_offset + (offset >> 1),
                    base_timestamp + ((delta >> 1) ^ -(delta & 1)),
                    key,
                    not body[position] & 1,  # the lowest bit of a size is its sign
                ),
            )
            position = end
    except IndexError:
        raise InvalidRecord(f"Record {index} of {header.record_count} ends in a number") from None
    if position != len(body):
        raise InvalidRecord(
            f"{len(body) - position} bytes are left after {header.record_count} records"
        )


def _long(body: bytes, position: int) -> tuple[int, int]:
    """Return the number at `position`, zigzag not undone, and the position behind it."""
    number = shift = 0
    while True:
        byte = body[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7
        if shift >= _BITS_MAX + 6:
            raise InvalidRecord(f"A number of more than 10 bytes ends at byte {position}")


def rewrite(
    header: BatchHeader, body: bytes, kept: Iterable[Span], horizon_ms: int | None = None
) -> bytearray:
    """Return the batch with none but the `kept` records of its opened `body`, at least one.

    The records are taken one by one, since a batch may have millions. With `horizon_ms`, the batch
    gets that delete horizon. Base offset and leader epoch stay as they were stamped.
    """
    attributes, base_timestamp = header.attributes, header.base_timestamp
    if horizon_ms is not None:
        attributes |= DELETE_HORIZON
        base_timestamp = horizon_ms
    records = bytearray()
    count, max_timestamp = 0, -INT64_END
    for span in kept:
        count += 1
        timestamp = as_int64(span.timestamp)
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        if horizon_ms is None:
            records += body[span.start : span.end]
        else:
            records += _moved(body, span, horizon_ms)
    assert count, "a batch without records is `emptied`"
    packed = compress(header.codec, records) if header.codec else records
    return _assemble(
        header._replace(
            batch_length=HEADER_SIZE - LOG_OVERHEAD + len(packed),
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=(header.max_timestamp if attributes & LOG_APPEND_TIME else max_timestamp),
            record_count=count,
        ),
        packed,
    )


def _moved(body: bytes, span: Span, base_timestamp: int) -> bytes:
    """Return a record's bytes with its timestamp relative to another base."""
    delta = as_int64(span.timestamp - base_timestamp)
    inner = b"\0" + _varlong(delta) + body[span.rest : span.end]
    return _varlong(len(inner)) + inner


def _varlong(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    data = bytearray()
    while number > 0x7F:
        data.append((number & 0x7F) | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def emptied(header: BatchHeader) -> bytearray:
    """Return the batch without any record: it still says its producer's last sequence and offset.

    The codec and the delete horizon go, the timestamps are those that Kafka writes
    (DefaultRecordBatch.writeEmptyHeader).
    """
    return _assemble(
        header._replace(
            batch_length=HEADER_SIZE - LOG_OVERHEAD,
            attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON),
            base_timestamp=NO_TIMESTAMP,
            record_count=0,
        ),
        b"",
    )


def _assemble(header: BatchHeader, packed: bytes | bytearray) -> bytearray:
    batch = bytearray(pack_header(header)) + packed
    write_crc(batch, 0)
    return batch
