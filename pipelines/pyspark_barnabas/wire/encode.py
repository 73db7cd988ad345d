"""Records to the bytes of one record batch, magic 2, as a producer sends it.

For the batch's layout see `pyspark_barnabas.wire.batches`. A record is, with zigzag varints,

    length varint · attributes int8 · timestamp delta varint · offset delta varint ·
    key size varint, key · value size varint, value · header count varint ·
    (key size varint, key · value size varint, value)*

with size -1 for null. The broker sets base offset and leader epoch; both are outside the CRC.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import crc32c

from pyspark_barnabas.wire.batches import CRC_START, HEADER, HEADER_BYTES, PREFIX_BYTES
from pyspark_barnabas.wire.compression import NONE, compress
from pyspark_barnabas.wire.primitives import uvarint

Headers = Sequence[tuple[str, bytes | None]]


class Record(NamedTuple):
    """One record: timestamp in milliseconds since 1970, headers as (name, value)."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()


class Producer(NamedTuple):
    """The three fields by which a broker recognizes a batch that it has seen before."""

    producer_id: int = -1
    epoch: int = -1
    base_sequence: int = -1


NOBODY: Final = Producer()


def varint(value: int) -> bytes:
    """Return `value` as a zigzag varint of at most ten bytes."""
    return uvarint((value << 1) ^ (value >> 63))


_SMALL: Final = [varint(number) for number in range(16 * 1024)]  # nearly all sizes and deltas
_NULL: Final = varint(-1)


def _size(number: int) -> bytes:
    return _SMALL[number] if 0 <= number < len(_SMALL) else varint(number)


def build_batch(
    records: Sequence[Record],
    *,
    codec: int = NONE,
    producer: Producer = NOBODY,
    base_offset: int = 0,
    attributes: int = 0,
) -> bytearray:
    """Return the batch of `records`, at least one; `attributes` are its bits besides the codec."""
    base_timestamp = records[0].timestamp
    body = bytearray()
    for index, record in enumerate(records):
        encoded = _record_body(record, record.timestamp - base_timestamp, index)
        body += _size(len(encoded))
        body += encoded
    packed = compress(codec, body)
    count = len(records)
    batch = bytearray(HEADER_BYTES + len(packed))
    fields = (
        attributes | codec,
        count - 1,
        base_timestamp,
        max(record.timestamp for record in records),
        producer.producer_id,
        producer.epoch,
        producer.base_sequence,
        count,
    )
    HEADER.pack_into(batch, 0, base_offset, len(batch) - PREFIX_BYTES, -1, 2, 0, *fields)
    batch[HEADER_BYTES:] = packed
    crc = crc32c.crc32c(memoryview(batch)[CRC_START:])
    HEADER.pack_into(batch, 0, base_offset, len(batch) - PREFIX_BYTES, -1, 2, crc, *fields)
    return batch


def _record_body(record: Record, timestamp_delta: int, offset_delta: int) -> bytes:
    key, value, _, headers = record
    parts = [b"\0", _size(timestamp_delta), _size(offset_delta)]
    parts += (_NULL,) if key is None else (_size(len(key)), key)
    parts += (_NULL,) if value is None else (_size(len(value)), value)
    parts.append(_size(len(headers)))
    for name, content in headers:
        encoded = name.encode()
        parts += (_size(len(encoded)), encoded)
        parts += (_NULL,) if content is None else (_size(len(content)), content)
    return b"".join(parts)
