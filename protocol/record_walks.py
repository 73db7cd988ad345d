"""Walks over the records of a batch that build none of them, with bounds on their work.

For checks that must see every record and need little of each: whether records for a compacted
topic have keys, which of them are mistimed, where a timestamp is. Sizes are checked and stepped
over, also those of headers, of which four million fit into 831 bytes of zstd.

A walk may take seconds of a thread, so it has bounds: RECORDS_MAX records a batch, and where they
are looked at HEADERS_MAX headers, beyond which it is refused with TooManyRecords before it costs
anything; its bytes are bounded by the caller. (A batch of a MiB that is not compressed has at
most 149,796 records. Measured on a 2-core VM: 0.6 µs a record, 0.15 µs a header.) There is no
bound in seconds: what is refused should not hang on the machine. Every STEP_COUNT records or
headers the walk calls `rest`, in which a thread lets others run.

Of records that are found wrong the first REPORTED_MAX are named, and all are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from protocol.compression import decompress
from protocol.record_batch import (
    HEADER_SIZE,
    INT64_END,
    LOG_APPEND_TIME,
    BatchHeader,
    Buffer,
    as_int64,
    check_structure,
    read_header,
)
from protocol.record_errors import InvalidRecord, RecordsWithoutKey, TooManyRecords
from protocol.records import NO_TIMESTAMP, RECORD_BYTES_MIN
from protocol.varints import read_varint, read_varlong

RECORDS_MAX: Final = 1024 * 1024
HEADERS_MAX: Final = 1024 * 1024
REPORTED_MAX: Final = 100
STEP_COUNT: Final = 512

Rest = Callable[[], None]


def no_rest() -> None:
    """Do not pause: for short walks, and for programs without an event loop."""


class Outline(NamedTuple):
    """The outline of a record that a walk yields."""

    offset: int
    timestamp: int
    has_key: bool


class Mistimed(NamedTuple):
    """Records out of their topic's bounds: how many, and (index, timestamp in ms) of the first."""

    total: int
    first: list[tuple[int, int]]


def opened(buffer: Buffer, size_max: int) -> tuple[BatchHeader, bytes]:
    """Return the header and the decompressed records of the batch that `buffer` begins with.

    Raises what `read_records` raises at its call.
    """
    header = read_header(buffer)
    check_structure(header, len(buffer))
    return header, decompress(header.codec, memoryview(buffer)[HEADER_SIZE : header.size], size_max)


def outlines(
    header: BatchHeader, body: bytes, rest: Rest = no_rest, *, sizes_only: bool = False
) -> Iterator[Outline]:
    """Yield the outline of each record in the opened `body`, of which all sizes are checked.

    With `sizes_only` those of the records alone: what is behind the key's is stepped over, however
    much it is. What the keys of headers say is not looked at. Raises InvalidRecord, TooManyRecords.
    """
    count = _checked_count(header, body)
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    is_append_time = bool(header.attributes & LOG_APPEND_TIME)
    append_time = header.max_timestamp
    new = tuple.__new__
    headers_left = HEADERS_MAX
    position = index = 0
    size_of_body = len(body)
    try:
        for index in range(count):
            if not index % STEP_COUNT:
                rest()
            size = body[position]  # most numbers have one byte: each saves a call
            position += 1
            if size < 0x80:
                size = (size >> 1) ^ -(size & 1)
            else:
                size, position = read_varint(body, position - 1)
            end = position + size
            if size < 0 or end > size_of_body:
                raise InvalidRecord(f"Record of {size} bytes, but {len(body) - position} are left")
            delta = body[position + 1]  # behind the attributes
            position += 2
            if delta < 0x80:
                delta = (delta >> 1) ^ -(delta & 1)
            else:
                delta, position = read_varlong(body, position - 1)
            offset_delta, position = read_varint(body, position)
            key_size = body[position]
            position += 1
            if key_size < 0x80:
                key_size = (key_size >> 1) ^ -(key_size & 1)
            else:
                key_size, position = read_varint(body, position - 1)
            if not sizes_only:
                headers_left = _check_rest(body, position, key_size, end, headers_left, rest)
            position = end
            timestamp = append_time if is_append_time else base_timestamp + delta
            if not -INT64_END <= timestamp < INT64_END:
                timestamp = as_int64(timestamp)
            yield new(Outline, (base_offset + offset_delta, timestamp, key_size >= 0))
    except IndexError:
        raise InvalidRecord(f"Record {index} of {count} ends inside a number") from None
    if position != len(body):
        raise InvalidRecord(
            f"{len(body) - position} bytes are left after the {count} records of the batch"
        )


def _checked_count(header: BatchHeader, body: bytes) -> int:
    count = header.record_count
    if count > RECORDS_MAX:
        raise TooManyRecords("records in a batch", count, RECORDS_MAX)
    if count * RECORD_BYTES_MIN > len(body):
        raise InvalidRecord(f"{count} records announced, but their bytes are {len(body)}")
    return count


def _left_of(headers_left: int, count: int, bytes_left: int) -> int:
    """Return how many headers the batch may still have behind a record with `count` of them."""
    if not 0 < count <= bytes_left:
        raise InvalidRecord(f"Found invalid number of record headers {count}")
    if count > headers_left:
        raise TooManyRecords("headers in a batch", HEADERS_MAX - headers_left + count, HEADERS_MAX)
    return headers_left - count


def _check_rest(
    body: bytes, position: int, key_size: int, end: int, headers_left: int, rest: Rest
) -> int:
    """Check a record from its key on; return how many headers the batch may still have."""
    if key_size > 0:
        position += key_size
    value_size, position = read_varint(body, position)
    if value_size > 0:
        position += value_size
    count = body[position]
    position += 1
    if count:
        count, position = read_varint(body, position - 1)
    if key_size < -1 or value_size < -1:
        raise InvalidRecord(f"Key of {key_size} bytes, value of {value_size} bytes")
    if count:
        headers_left = _left_of(headers_left, count, end - position)
        position = _behind_headers(body, position, end, count, rest)
    if position != end:
        raise InvalidRecord(f"Record ends at byte {end}, but its fields at {position}")
    return headers_left


def _behind_headers(body: bytes, position: int, end: int, count: int, rest: Rest) -> int:
    for index in range(count):
        if not index % STEP_COUNT:
            rest()
        size = body[position]
        position += 1
        if size < 0x80:  # nearly every size: a call for each would double the time
            size = (size >> 1) ^ -(size & 1)
        else:
            size, position = read_varint(body, position - 1)
        if size < 0:
            raise InvalidRecord("A record header has no key")
        position += size
        size = body[position]
        position += 1
        if size < 0x80:
            size = (size >> 1) ^ -(size & 1)
        else:
            size, position = read_varint(body, position - 1)
        if size < -1:
            raise InvalidRecord(f"The value of a record header has {size} bytes")
        if size > 0:
            position += size
        if position > end:
            raise InvalidRecord(f"Header {index} of {count} ends behind its record")
    return position


def check_body(
    header: BatchHeader, body: bytes, *, keys_wanted: bool, rest: Rest = no_rest
) -> None:
    """Check every record in the opened `body`, as Kafka does with each it is sent.

    `keys_wanted` says whether the topic is compacted, where a record without a key could never
    be told from another. Raises RecordsWithoutKey, and what `outlines` raises.
    """
    without: list[int] = []
    count = 0
    for index, (_, _, has_key) in enumerate(outlines(header, body, rest)):
        if keys_wanted and not has_key:
            count += 1
            if count <= REPORTED_MAX:
                without.append(index)
    if count:
        raise RecordsWithoutKey(without, count)


def mistimed(
    batch: Buffer, earliest: int, latest: int, *, size_max: int, rest: Rest = no_rest
) -> Mistimed:
    """Return the records whose timestamp is set and lies outside the bounds, in ms.

    Raises RecordError if the records cannot be read.
    """
    header, body = opened(batch, size_max)
    first: list[tuple[int, int]] = []
    count = 0
    for index, (_, timestamp, _) in enumerate(outlines(header, body, rest, sizes_only=True)):
        if timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
            count += 1
            if count <= REPORTED_MAX:
                first.append((index, timestamp))
    return Mistimed(count, first)


def offset_of_timestamp(
    batch: Buffer,
    timestamp: int,
    size_max: int,
    *,
    from_offset: int = 0,
    rest: Rest = no_rest,
) -> tuple[int, int] | None:
    """Return (offset, timestamp) of the batch's first record at or after `timestamp`, or None.

    Records below `from_offset` do not count. Opens the batch only when its header leaves the
    answer open. Raises RecordError.
    """
    header = read_header(batch)
    if header.max_timestamp < timestamp:
        return None
    if header.attributes & LOG_APPEND_TIME and header.base_offset >= from_offset:
        return header.base_offset, header.max_timestamp
    header, body = opened(batch, size_max)
    for found in outlines(header, body, rest, sizes_only=True):
        if found.timestamp >= timestamp and found.offset >= from_offset:
            return found.offset, found.timestamp
    return None
