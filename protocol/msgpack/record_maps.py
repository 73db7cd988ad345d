"""Records as maps: `{key, value, headers: [[key, value], ...], timestamp}`, and `offset` besides.

In, the maps of one partition become one uncompressed batch; a bin is whole batches as they are.
Key, value and the values of headers are bin or nil (a str is taken as its UTF-8 bytes), keys of
headers are str. Left out: nil, no headers, and the broker's clock for the timestamp.

Out, the batches of a partition become maps, from the asked offset on, control records left out.
CRCs are checked. Opening batches is work on the broker's loop, so one answer is bounded: it ends
after RECORDS_MAX records, or when OPENED_BYTES_MAX bytes of batches have been opened, and says at
which offset to go on. A batch of more than BATCH_RECORDS_MAX records or BATCH_BYTES_MAX bytes is
not opened at all: it can be fetched raw. (Measured on a 2-core VM: 1.5 µs to open a record.)
"""

from __future__ import annotations

from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.legacy_batches import read_records_any, verify_any
from protocol.msgpack.decoder import Read, or_nil, read_int64
from protocol.msgpack.reader import BodyError, Reader, is_array
from protocol.record_errors import (
    DecompressedTooLarge,
    RecordError,
    UnsupportedCompression,
)
from protocol.records import HEADER_SIZE, Buffer, Record, build

RECORDS_MAX: Final = 16 * 1024
OPENED_BYTES_MAX: Final = 1024 * 1024
BATCH_RECORDS_MAX: Final = 256 * 1024
BATCH_BYTES_MAX: Final = 64 * 1024 * 1024


def read_batch(reader: Reader, now_ms: int) -> memoryview:
    """Return the batches that stand here: a bin as it is, or an array of records as one batch."""
    if not is_array(reader.peek()):
        return reader.view()
    count = reader.array()
    if count == 0:
        raise BodyError("an empty array of records")
    records = [_read_record(reader, now_ms) for _ in range(count)]
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
            raise BodyError(f"wanted an array of key and value, found {count} elements")
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
    """Opens the batches of one answer, within the bounds that one answer has."""

    __slots__ = ("_bytes_left", "_records_left")

    def __init__(self) -> None:
        self._bytes_left = OPENED_BYTES_MAX
        self._records_left = RECORDS_MAX

    def open(self, batches: Buffer, offset: int) -> tuple[list[dict[str, Any]], int, ErrorCode]:
        """Return the records of `batches` from `offset` on, where to go on, and an error.

        An error comes alone: what stands before a batch that cannot be opened is returned first.
        """
        records: list[dict[str, Any]] = []
        position = 0
        while position < len(batches) and self._bytes_left > 0 and self._records_left > 0:
            try:
                size, offset = self._open_batch(batches, position, offset, records)
            except RecordError as error:
                return records, offset, ErrorCode.NONE if records else _code_of(error)
            if size == 0:
                break
            position += size
        return records, offset, ErrorCode.NONE

    def _open_batch(
        self, batches: Buffer, position: int, offset: int, records: list[dict[str, Any]]
    ) -> tuple[int, int]:
        """Open one batch; return its size, 0 if it was left half read, and the next offset."""
        header = verify_any(batches, position)
        if header.next_offset <= offset:
            return header.size, offset
        self._bytes_left -= header.size
        if header.is_control:
            return header.size, header.next_offset
        if header.record_count > BATCH_RECORDS_MAX:
            raise DecompressedTooLarge(header.codec, header.size, BATCH_BYTES_MAX)
        size_max = max(BATCH_BYTES_MAX, header.size)
        opened: list[dict[str, Any]] = []
        opened_bytes = 0
        for record in read_records_any(batches, position, size_max=size_max):
            if record.offset < offset:
                continue
            if len(opened) >= self._records_left or (opened and opened_bytes > OPENED_BYTES_MAX):
                # The rest of this batch is for the next request.
                self._records_left = 0
                records += opened
                return 0, record.offset
            opened.append(
                {
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "key": record.key,
                    "value": record.value,
                    "headers": record.headers,
                }
            )
            opened_bytes += len(record.key or b"") + len(record.value or b"") + HEADER_SIZE
        records += opened
        self._records_left -= len(opened)
        self._bytes_left -= max(opened_bytes - header.size, 0)
        return header.size, header.next_offset


def _code_of(error: RecordError) -> ErrorCode:
    if isinstance(error, DecompressedTooLarge):
        return ErrorCode.MESSAGE_TOO_LARGE
    if isinstance(error, UnsupportedCompression):
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return ErrorCode.CORRUPT_MESSAGE
