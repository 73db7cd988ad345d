"""From whole record batches to Arrow columns, many records at a time, only the columns asked for.

    decoder = Decoder(["key", "value", "offset"], topic="orders", partition=3)
    for table in decoder.decode(data, read_batches(data)):   # pyarrow.RecordBatch each
        ...

`data` holds whole batches, a fetch response's records. The second argument is those of its batches
that the reader may see, in order: leave out control batches and aborted ones with `Visibility`.
`start_offset` and `end_offset` cut the rows at both ends. CRCs are checked by `read_batches`;
records whose bytes contradict themselves, or that do not unpack, raise CorruptBatch with the
position of their batch in `data`.

Compressed batches are unpacked into one buffer, the arena; `pyspark_barnabas.wire.records` reads
the records there. The more batches are decoded together, the less each costs; 1 to 4 MiB cross
into the JVM fastest, so each RecordBatch holds about `arrow_bytes` of records. Its schema is
exactly `arrow_schema(columns)`, which is what Spark expects of these columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from pyspark_barnabas.wire.batches import CODEC_MASK, HEADER_BYTES, PREFIX_BYTES, Batch, Buffer
from pyspark_barnabas.wire.compression import decompress
from pyspark_barnabas.wire.errors import BadOption, BatchTooLarge, CorruptBatch
from pyspark_barnabas.wire.records import HEADERS, TIMESTAMP, Records
from pyspark_barnabas.wire.varints import Span

MiB = 1024 * 1024
ARROW_BYTES = 4 * MiB
BATCH_BYTES_MAX = 256 * MiB  # a broker's batches are 1 MiB; decompressed they may be much larger
BATCH_HEADERS_MAX = 1_000_000  # of two bytes they compress to almost nothing, but take room

_RECORD_BYTES: Final = 64  # the least that a small record takes while it is decoded

# The columns of Spark's own Kafka source, in its order.
TYPES: Final[dict[str, Any]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP,
    "timestampType": pa.int32(),
    "headers": HEADERS,
}


def arrow_schema(columns: Sequence[str]) -> Any:
    """Return the pyarrow.Schema of these columns, all nullable, as Spark derives it from its types.

    Raises BadOption for an unknown column.
    """
    unknown = [name for name in columns if name not in TYPES]
    if unknown:
        raise BadOption(f"no column {', '.join(unknown)}: a log has {', '.join(TYPES)}")
    return pa.schema([pa.field(name, TYPES[name]) for name in columns])


class Decoder:
    """Turns batches of one partition into RecordBatches of the columns asked for.

    Keeps nothing of what it reads. A batch may decompress to `batch_bytes_max`, counting at least
    64 bytes a record, and may have `batch_headers_max` headers if headers are asked for; beyond
    that it raises BatchTooLarge.
    """

    def __init__(
        self,
        columns: Sequence[str],
        topic: str,
        partition: int,
        *,
        arrow_bytes: int = ARROW_BYTES,
        batch_bytes_max: int = BATCH_BYTES_MAX,
        batch_headers_max: int = BATCH_HEADERS_MAX,
    ) -> None:
        self.schema = arrow_schema(columns)
        self._columns = tuple(columns)
        self._topic = topic
        self._partition = partition
        self._arrow_bytes = arrow_bytes
        self._batch_bytes_max = batch_bytes_max
        self._batch_headers_max = batch_headers_max
        self._constants: dict[str, Any] = {}

    def decode(
        self,
        data: Buffer,
        batches: Iterable[Batch],
        start_offset: int = 0,
        end_offset: int | None = None,
    ) -> Iterator[Any]:
        """Yield RecordBatches of the records of `batches` with start <= offset < end.

        Batches wholly outside are not opened. No RecordBatch is empty.
        """
        end = (1 << 63) - 1 if end_offset is None else end_offset
        pieces: list[tuple[Batch, Buffer | None]] = []  # with its records, if decompressed
        size = 0
        for batch in batches:
            base_offset = batch.base_offset
            if base_offset + batch.last_offset_delta < start_offset or base_offset >= end:
                continue
            unpacked = self._unpack(data, batch) if batch.attributes & CODEC_MASK else None
            pieces.append((batch, unpacked))
            size += batch.batch_length if unpacked is None else len(unpacked)
            if size >= self._arrow_bytes:
                yield from self._decode_group(data, pieces, start_offset, end)
                pieces, size = [], 0
        yield from self._decode_group(data, pieces, start_offset, end)

    def _constant(self, name: str, count: int) -> Any:
        """Return a column of one value, as a slice of a longer one that is kept."""
        kept = self._constants.get(name)
        if kept is None or len(kept) < count:
            value = pa.scalar(self._topic if name == "topic" else self._partition, TYPES[name])
            kept = self._constants[name] = pa.repeat(value, 2 * count)
        return kept.slice(0, count)

    def _unpack(self, data: Buffer, batch: Batch) -> bytes | memoryview:
        if batch.record_count * _RECORD_BYTES > self._batch_bytes_max:
            raise BatchTooLarge(
                batch.position,
                f"{batch.record_count} records in a batch of {batch.size} bytes: at "
                f"{_RECORD_BYTES} bytes each more than {self._batch_bytes_max}, the bound on one "
                "batch; raise the option batchBytesMax if the batch is genuine",
            )
        start = batch.position + HEADER_BYTES
        packed = memoryview(data)[start : batch.position + batch.size]
        try:
            return decompress(batch.codec, packed, self._batch_bytes_max)
        except BatchTooLarge as error:
            raise BatchTooLarge(batch.position, error.reason) from None
        except CorruptBatch as error:
            raise CorruptBatch(batch.position, error.reason) from None

    def _decode_group(
        self, data: Buffer, pieces: list[tuple[Batch, Buffer | None]], start: int, end: int
    ) -> Iterator[Any]:
        arena, spans = _arena(data, pieces)
        records = Records(arena, spans, start, end)
        if records.count == 0:
            return
        made: dict[str, Any] = {}
        for name in self._columns:
            if name in ("topic", "partition"):
                made[name] = self._constant(name, records.count)
            elif name == "headers":
                made[name] = records.headers(self._batch_headers_max)
            else:
                made[name] = records.column(name)
        table = pa.RecordBatch.from_arrays(
            [made[name] for name in self._columns], schema=self.schema
        )
        # One huge batch is still one arena, but what crosses into the JVM is cut to size.
        rows = max(1, table.num_rows * self._arrow_bytes // max(1, 2 * records.size))
        if records.size <= 2 * self._arrow_bytes:
            yield table
            return
        for first in range(0, table.num_rows, rows):
            yield table.slice(first, rows)


def _arena(data: Buffer, pieces: list[tuple[Batch, Buffer | None]]) -> tuple[Buffer, list[Span]]:
    """Return one buffer with all records, if possible `data` itself, and each batch's place."""
    if all(unpacked is None for _, unpacked in pieces):
        return data, [
            Span(batch, batch[0] + HEADER_BYTES, batch[0] + PREFIX_BYTES + batch.batch_length)
            for batch, _ in pieces
        ]
    parts: list[Buffer] = []
    spans = []
    position = 0
    for batch, unpacked in pieces:
        part = unpacked
        if part is None:
            first = batch.position + HEADER_BYTES
            part = memoryview(data)[first : batch.position + batch.size]
        parts.append(part)
        spans.append(Span(batch, position, position + len(part)))
        position += len(part)
    return b"".join(parts), spans
