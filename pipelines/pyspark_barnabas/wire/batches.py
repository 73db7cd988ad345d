"""Record batches as a Fetch response holds them: headers, CRCs, visibility.

Layout (big-endian), Kafka's DefaultRecordBatch, magic 2:

    base_offset int64 · batch_length int32 · leader_epoch int32 · magic int8 · crc uint32 ·
    attributes int16 · last_offset_delta int32 · base_timestamp int64 · max_timestamp int64 ·
    producer_id int64 · producer_epoch int16 · base_sequence int32 · record_count int32 · records

`batch_length` counts the bytes after itself. The CRC-32C covers everything from `attributes` on.
Attributes: bits 0-2 codec, 3 log append time, 4 transactional, 5 control.

`read_batches` walks the whole batches of a buffer; `Visibility` tells which of them a reader with
an isolation level may see; `pyspark_barnabas.columns` turns them into Arrow columns. Formats before
magic 2 are refused by name: no broker since Kafka 0.11 writes them, and Kafka 4 serves none.

Nothing here reads a file or a socket.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import crc32c

from pyspark_barnabas.wire.errors import CorruptBatch

Buffer = bytes | bytearray | memoryview

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
assert HEADER_BYTES == 61
PREFIX_BYTES: Final = 12  # base_offset and batch_length, which batch_length does not count
CRC_START: Final = 21  # the CRC covers from `attributes` on
_prefix = struct.Struct(">qi")
_control_key = struct.Struct(">hh")

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20

_ABORT_MARKER = 0  # the type in a control record's key: 0 abort, 1 commit


class Batch(NamedTuple):
    """The header of one batch, and the position of the batch in its buffer."""

    position: int
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
        """Bytes of the whole batch, including its header."""
        return self.batch_length + PREFIX_BYTES

    @property
    def last_offset(self) -> int:
        """Offset of its last record as it was written; compaction may have removed it."""
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        """Whether its records are transaction markers and not a user's."""
        return self.attributes & CONTROL != 0

    @property
    def is_transactional(self) -> bool:
        """Whether its records belong to a transaction."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_log_append_time(self) -> bool:
        """Whether `max_timestamp` is the time of all its records."""
        return self.attributes & LOG_APPEND_TIME != 0


def read_batches(data: Buffer, position: int = 0, *, check_crc: bool = True) -> Iterator[Batch]:
    """Yield the whole batches of `data` from `position` on; stop before an incomplete one.

    A fetch may end inside a batch, so an incomplete one is no error. Raises CorruptBatch, with the
    position in `data`, at the first damaged batch.
    """
    view = memoryview(data)
    end = len(view)
    unpack = HEADER.unpack_from
    crc_of = crc32c.crc32c
    while end - position >= HEADER_BYTES:
        # tuple.__new__ and local names are faster, and this runs for every 16 KiB of a log.
        batch = tuple.__new__(Batch, (position, *unpack(view, position)))
        _, base_offset, length, _, magic, crc, _, last_offset_delta, *_, record_count = batch
        if magic != 2 or length < HEADER_BYTES - PREFIX_BYTES:
            raise CorruptBatch(position, _not_a_batch(batch))
        batch_end = position + length + PREFIX_BYTES
        if batch_end > end:
            return
        if last_offset_delta < 0 or record_count < 0 or base_offset < 0:
            raise CorruptBatch(
                position,
                f"base offset {base_offset}, last offset delta {last_offset_delta}, "
                f"{record_count} records: none may be negative",
            )
        if check_crc:
            found = crc_of(view[position + CRC_START : batch_end])
            if found != crc:
                raise CorruptBatch(
                    position,
                    f"CRC-32C {found:#010x} of {batch.size} bytes, the header says {crc:#010x}",
                )
        yield batch
        position = batch_end


def first_batch_size(data: Buffer) -> int | None:
    """Return the size in the header of the batch at the start of `data`; None if that is cut off.

    A reader whose fetch returned no whole batch asks again for at least this many bytes.
    """
    if len(data) < PREFIX_BYTES:
        return None
    return int(_prefix.unpack_from(data)[1]) + PREFIX_BYTES


def is_abort_marker(data: Buffer, batch: Batch) -> bool:
    """Return whether a control batch aborts its transaction.

    Raises CorruptBatch if the batch holds no control record. The record is small and never
    compressed: length, attributes, timestamp delta, offset delta, key length, then the key, an
    int16 version and an int16 type. Its varints are one byte each, except sometimes the length.
    """
    view = memoryview(data)[batch.position + HEADER_BYTES : batch.position + batch.size]
    start = 0
    for _ in range(5):  # length, attributes, timestamp delta, offset delta, key length
        while start < len(view) and view[start] & 0x80:
            start += 1
        start += 1
    if start + _control_key.size > len(view):
        raise CorruptBatch(batch.position, "a control batch without a control record")
    return int(_control_key.unpack_from(view, start)[1]) == _ABORT_MARKER


class Visibility:
    """Which batches of one partition a reader may see, given the aborted transactions.

    Control batches are never visible. With `aborted` (read_committed), neither are the batches of
    those transactions, each given as (producer id, first offset) by the Fetch response. An aborted
    transaction ends at its abort marker, so markers must pass through `sees` too. Call it in the
    order of the log. Kafka: CompletedFetch.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]] = ()) -> None:
        self._coming = [(first_offset, producer_id) for producer_id, first_offset in aborted]
        heapq.heapify(self._coming)
        self._open: set[int] = set()

    def sees(self, data: Buffer, batch: Batch) -> bool:
        """Whether the reader may see the records of `batch`, which is in `data`."""
        if not batch.attributes & (TRANSACTIONAL | CONTROL):
            return True
        while self._coming and self._coming[0][0] <= batch.last_offset:
            self._open.add(heapq.heappop(self._coming)[1])
        if batch.is_control:
            if batch.producer_id in self._open and is_abort_marker(data, batch):
                self._open.discard(batch.producer_id)
            return False
        return not (batch.is_transactional and batch.producer_id in self._open)


def _not_a_batch(batch: Batch) -> str:
    if batch.magic in (0, 1):
        return (
            f"message format {batch.magic}, from before Kafka 0.11, is not supported; "
            "copy the topic with a broker that converts it, or start at a later offset"
        )
    if batch.magic != 2:
        return f"magic {batch.magic}, expected 2"
    return f"batch length {batch.batch_length}, expected at least {HEADER_BYTES - PREFIX_BYTES}"
