"""Record batches written field by field, so that tests can make any field wrong.

This module is independent of the product on purpose: the bytes that a test sends must not share a
mistake with the code under test. Layout: Kafka's DefaultRecordBatch and DefaultRecord, magic 2.
"""

import struct
import time
from collections.abc import Sequence

from crc32c import crc32c

HEADER_BYTES = 61


def varint(number: int) -> bytes:
    """Return a zigzag varint of any length up to ten bytes."""
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def record(
    value: bytes | None,
    *,
    key: bytes | None = None,
    offset_delta: int = 0,
    timestamp_delta: int = 0,
    headers: bytes = b"\0",
    size: int | None = None,
) -> bytes:
    """Return one record; `headers` is the raw count and headers, `size` overrides the size."""
    inner = b"\0" + varint(timestamp_delta) + varint(offset_delta)
    for field in (key, value):
        inner += varint(-1) if field is None else varint(len(field)) + field
    inner += headers
    return varint(len(inner) if size is None else size) + inner


def records(values: Sequence[bytes | None]) -> bytes:
    """Return the bytes of one record per value, in order."""
    return b"".join(record(value, offset_delta=n) for n, value in enumerate(values))


def batch(
    values: Sequence[bytes | None] = (b"value",),
    *,
    body: bytes | None = None,
    base_offset: int = 0,
    batch_length: int | None = None,
    leader_epoch: int = -1,
    magic: int = 2,
    crc: int | None = None,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    timestamp: int | None = None,
    max_timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    record_count: int | None = None,
) -> bytes:
    """Return a batch of `values`; every field that is not given is right.

    The CRC matches the bytes unless `crc` is given, so it does not reveal damaged fields.
    """
    body = records(values) if body is None else body
    now_ms = int(time.time() * 1000) if timestamp is None else timestamp
    checked = struct.pack(
        ">hiqqqhii",
        attributes,
        len(values) - 1 if last_offset_delta is None else last_offset_delta,
        now_ms,
        now_ms if max_timestamp is None else max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(values) if record_count is None else record_count,
    )
    checked += body
    head = struct.pack(
        ">qiibI",
        base_offset,
        9 + len(checked) if batch_length is None else batch_length,
        leader_epoch,
        magic,
        crc32c(checked) if crc is None else crc,
    )
    return head + checked


def values_of(fetched: bytes) -> list[bytes]:
    """Return the values in a run of uncompressed batches, in order."""
    return [value for _, value in records_of(fetched)]


def records_of(fetched: bytes) -> list[tuple[int, bytes]]:
    """Return (offset, value) of each record in a run of uncompressed batches, in order."""
    return [(offset, value or b"") for offset, _, value in keyed_records_of(fetched)]


def keyed_records_of(fetched: bytes) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return (offset, key, value) of each record in a run of uncompressed batches, in order."""
    found = []
    for position, base_offset in _heads_of(fetched):
        (count,) = struct.unpack_from(">i", fetched, position + 57)
        at = position + HEADER_BYTES
        for _ in range(count):
            size, at = _read_varint(fetched, at)
            stop = at + size
            _, at = _read_varint(fetched, at + 1)
            delta, at = _read_varint(fetched, at)
            key, at = _read_field(fetched, at)
            value, _ = _read_field(fetched, at)
            found.append((base_offset + delta, key, value))
            at = stop
    return found


def next_offset_of(fetched: bytes) -> int:
    """Return the offset after the last whole batch, even if its last records are missing."""
    position, base_offset = _heads_of(fetched)[-1]
    (last_offset_delta,) = struct.unpack_from(">i", fetched, position + 23)
    return int(base_offset + last_offset_delta + 1)


def _heads_of(fetched: bytes) -> list[tuple[int, int]]:
    """Return (position, base offset) of each whole batch."""
    found = []
    position = 0
    while position + HEADER_BYTES <= len(fetched):
        base_offset, length = struct.unpack_from(">qi", fetched, position)
        end = position + 12 + length
        if end > len(fetched):
            break
        found.append((position, base_offset))
        position = end
    return found


def _read_field(data: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = _read_varint(data, position)
    if size < 0:
        return None, position
    return data[position : position + size], position + size


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
        shift += 7
