"""Records as maps: `{key, value, headers: [[key, value], ...], timestamp}`, and `offset` besides.

In, the maps of one partition become one uncompressed batch; a bin is whole batches as they are.
Key, value and the values of headers are bin or nil (a str is taken as its UTF-8 bytes), keys of
headers are str. Left out: nil, no headers, and the broker's clock for the timestamp.

Out, the batches of a partition become maps, from the asked offset on. Control records are left out,
and those of transactions that the answer calls aborted.
CRCs are checked. One answer is bounded: it ends after RECORDS_MAX records or as many headers, or
OPENED_BYTES_MAX of their bytes, or when BATCH_BYTES_MAX bytes were unpacked to find them, and
says at which offset to go on. What
would be too much by itself is not opened at all, but can be fetched raw: a batch of more than
BATCH_RECORDS_MAX records or BATCH_BYTES_MAX bytes, and a record of more than RECORD_HEADERS_MAX
headers. (Measured on a 2-core VM: 1.5 µs to open a record, 0.5 µs for a header.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from protocol.aborted_transactions import AbortedTransactions
from protocol.errors import ErrorCode
from protocol.legacy_batches import LegacyHeader, read_records_any, verify_any
from protocol.msgpack.decoder import Read, or_nil, read_int64
from protocol.msgpack.reader import BodyError, Reader, is_array
from protocol.record_errors import (
    DecompressedTooLarge,
    RecordError,
    TooManyRecords,
    UnsupportedCompression,
)
from protocol.record_walks import STEP_COUNT, Rest, no_rest, opened
from protocol.records import HEADER_SIZE, BatchHeader, Buffer, Record, build, iterate

RECORDS_MAX: Final = 16 * 1024
OPENED_BYTES_MAX: Final = 1024 * 1024
BATCH_RECORDS_MAX: Final = 256 * 1024
BATCH_BYTES_MAX: Final = 64 * 1024 * 1024
RECORD_HEADERS_MAX: Final = 64 * 1024

TOO_MUCH: Final = (DecompressedTooLarge, TooManyRecords)


def read_batch(reader: Reader, now_ms: int) -> memoryview:
    """Return the batches that come next: a bin as it is, or an array of records as one batch."""
    if not is_array(reader.peek()):
        return reader.view()
    count = reader.array()
    if count == 0:
        raise BodyError("an empty array of records")
    records = []
    for index in range(count):
        if not index % STEP_COUNT:
            reader.rest()
        records.append(_read_record(reader, now_ms))
    try:
        return memoryview(build(records))
    except ValueError as error:
        raise BodyError(str(error)) from None


def _read_record(reader: Reader, now_ms: int) -> Record:
    values: dict[str, Any] = {}
    for _ in range(reader.map()):
        name, read = _FIELDS.get(raw := reader.name(), _UNKNOWN)
        if read is None:
            raise BodyError(f"unknown field {raw[:100].decode(errors='replace')!r} of a record")
        if name in values:
            raise BodyError(f"field {name!r} stands twice")
        try:
            values[name] = read(reader)
        except BodyError as error:
            raise error.within(name) from None
    timestamp = values.get("timestamp")
    return Record(
        0,
        now_ms if timestamp is None else timestamp,
        values.get("key"),
        values.get("value"),
        values.get("headers") or (),
    )


def _headers(reader: Reader) -> tuple[tuple[str, bytes | None], ...]:
    headers = []
    for _ in range(reader.array()):
        count = reader.array()
        if count != 2:
            raise BodyError(f"found {count} elements, expected an array of key and value")
        headers.append((reader.text(), _binary_or_nil(reader)))
    return tuple(headers)


def _binary_or_nil(reader: Reader) -> bytes | None:
    return None if reader.take_nil() else reader.binary()


_FIELDS: Final[dict[bytes, tuple[str, Read]]] = {
    b"key": ("key", _binary_or_nil),
    b"value": ("value", _binary_or_nil),
    b"headers": ("headers", or_nil(_headers)),
    b"timestamp": ("timestamp", or_nil(read_int64)),
}
_UNKNOWN: Final = ("", None)


class Opener:
    """Opens the batches of one answer, within the bounds that one answer has.

    `refused_count` is how many batches and records were too much. In a thread, `rest` lets others
    run between two records.
    """

    __slots__ = ("_bytes_left", "_headers_left", "_records_left", "_rest",
                 "_unpacked_bytes_left", "refused_count")  # fmt: skip

    def __init__(self, rest: Rest = no_rest) -> None:
        self._bytes_left = OPENED_BYTES_MAX
        self._records_left = RECORDS_MAX
        self._headers_left = RECORDS_MAX
        self._unpacked_bytes_left = BATCH_BYTES_MAX
        self._rest = rest
        self.refused_count = 0

    @property
    def is_full(self) -> bool:
        """Whether the answer has reached its limits."""
        return min(self._bytes_left, self._records_left, self._headers_left) <= 0

    def open(
        self, batches: Buffer, offset: int, aborted: Sequence[tuple[int, int]] = ()
    ) -> tuple[list[dict[str, Any]], int, ErrorCode]:
        """Return the records of `batches` from `offset` on, where to go on, and an error.

        Not those of `aborted` transactions, given as (producer id, first offset): each ends with
        the next marker of its producer. An error comes alone: what stands before a batch or record
        that cannot be opened is returned first.
        """
        records: list[dict[str, Any]] = []
        skipped = AbortedTransactions(aborted)
        position = 0
        while position < len(batches) and not self.is_full and self._unpacked_bytes_left > 0:
            try:
                header = verify_any(batches, position)
                if skipped.has(header):
                    offset = max(offset, header.next_offset)
                elif header.next_offset > offset:
                    offset = self._open_batch(header, batches, position, offset, records)
            except RecordError as error:
                if records:
                    return records, int(records[-1]["offset"]) + 1, ErrorCode.NONE
                self.refused_count += isinstance(error, TOO_MUCH)
                return records, offset, _code_of(error)
            if offset < header.next_offset:
                break  # the rest of this batch is for the next request
            position += header.size
        return records, offset, ErrorCode.NONE

    def _open_batch(
        self,
        header: BatchHeader,
        batches: Buffer,
        position: int,
        offset: int,
        records: list[dict[str, Any]],
    ) -> int:
        """Open one batch, as far as there is room; return the offset to go on at."""
        self._bytes_left -= HEADER_SIZE
        if header.is_control:
            return header.next_offset
        if header.record_count > BATCH_RECORDS_MAX:
            raise TooManyRecords("records in a batch", header.record_count, BATCH_RECORDS_MAX)
        for count, record in enumerate(self._records(header, batches, position, offset)):
            if not count % STEP_COUNT:
                self._rest()
            if self.is_full and records:
                return record.offset
            headers = record.headers
            records.append(
                {
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "key": record.key,
                    "value": record.value,
                    "headers": headers,
                }
            )
            self._records_left -= 1
            self._headers_left -= len(headers)
            size = HEADER_SIZE + len(record.key or b"") + len(record.value or b"")
            for key, value in headers:
                size += len(key) + len(value or b"")
            self._bytes_left -= size
        return header.next_offset

    def _records(
        self, header: BatchHeader, batches: Buffer, position: int, offset: int
    ) -> Iterator[Record]:
        if isinstance(header, LegacyHeader):
            found = read_records_any(batches, position, size_max=BATCH_BYTES_MAX)
            self._unpacked_bytes_left -= header.size
            return (record for record in found if record.offset >= offset)
        batch = memoryview(batches)[position : position + header.size]
        _, body = opened(batch, max(BATCH_BYTES_MAX, header.size))
        self._unpacked_bytes_left -= len(body)
        return iterate(header, body, from_offset=offset, headers_max=RECORD_HEADERS_MAX)


def _code_of(error: RecordError) -> ErrorCode:
    if isinstance(error, TOO_MUCH):
        return ErrorCode.MESSAGE_TOO_LARGE
    if isinstance(error, UnsupportedCompression):
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return ErrorCode.CORRUPT_MESSAGE
