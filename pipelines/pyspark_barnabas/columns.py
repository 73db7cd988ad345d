"""From whole record batches to Arrow columns, many records at a time, only the columns asked for.

    decoder = Decoder(["key", "value", "offset"], topic="orders", partition=3)
    for table in decoder.decode(data, read_batches(data)):   # pyarrow.RecordBatch each
        ...

`data` is the bytes of whole batches (a fetch response's records, or a piece of a segment file),
and the second argument those batches of it that the reader is to see, in their order: leave out
control batches and aborted ones with `Visibility`. `start_offset` and `end_offset` cut the rows at
both ends. Each RecordBatch holds about `arrow_bytes` of records: 1 to 4 MiB cross into the JVM
fastest, and the more batches are decoded together the less each costs. It has exactly the schema
`arrow_schema(columns)`, which is what Spark wants of these columns. CRCs are checked by
`read_batches`; records whose bytes contradict themselves, or that do not unpack, raise CorruptBatch
with the position of their batch in `data`.

How, and why it is fast enough: a record is a chain of varints, so that where it begins is known
only from the one before. One small Python loop follows the chain by the records' lengths; all
other fields of all records are read by numpy, a field at a time; and the keys and values are
gathered by Arrow: one array over the raw bytes whose even elements are the wanted pieces and whose
odd elements are the gaps between, of which `take` copies the even ones. There is no Python object
for a record. Batches that are compressed are unpacked one after the other into one buffer first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_barnabas.wire.batches import CODEC_MASK, HEADER_BYTES, PREFIX_BYTES, Batch, Buffer
from pyspark_barnabas.wire.compression import decompress
from pyspark_barnabas.wire.errors import BadOption, BatchTooLarge, CorruptBatch
from pyspark_barnabas.wire.record_starts import (
    Int64s,
    Span,
    find_starts,
    follow_headers,
    two_bytes,
)

MiB = 1024 * 1024
ARROW_BYTES = 4 * MiB
BATCH_BYTES_MAX = 256 * MiB  # a broker's batches are 1 MiB; unpacked they may be many times that
BATCH_HEADERS_MAX = 1_000_000  # a header of two bytes packs to next to nothing, and is a row's part

_INT32_VARINT_BYTES = 5
_INT64_VARINT_BYTES = 10
_RECORD_BYTES: Final = 64  # what a record of few bytes takes while it is decoded, at the least
_HEADER_LANES_MIN: Final = 200  # with fewer records side by side a loop over headers is faster
_MILLISECONDS_MAX = (1 << 63) // 1000 - 1  # beyond, a timestamp in microseconds is no int64

_HEADERS = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
# The columns of Spark's own Kafka source, in its order.
TYPES: Final[dict[str, Any]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": _HEADERS,
}


def arrow_schema(columns: Sequence[str]) -> Any:
    """Return the pyarrow.Schema of these columns, all nullable, as Spark derives it from its own.

    Raises BadOption for a column that a log does not have.
    """
    unknown = [name for name in columns if name not in TYPES]
    if unknown:
        raise BadOption(f"no column {', '.join(unknown)}: a log has {', '.join(TYPES)}")
    return pa.schema([pa.field(name, TYPES[name]) for name in columns])


# Zigzag varints by their first byte, if that is all, and by their first two, little-endian; how
# many bytes they take, 0 for those that go on.
_ONE: Final = (np.arange(0x80) >> 1) ^ -(np.arange(0x80) & 1)
_both = np.arange(1 << 16)
_joined = np.where(_both & 0x80, _both & 0x7F | (_both >> 8 & 0x7F) << 7, _both & 0x7F)
_TWO: Final = ((_joined >> 1) ^ -(_joined & 1)).astype(np.int16)
_USED: Final = np.where(_both & 0x80, np.where(_both & 0x8000, 0, 2), 1).astype(np.int8)


class Decoder:
    """Turns batches of one partition into RecordBatches of the columns asked for.

    Keeps nothing of what it reads. `batch_bytes_max` bounds what one batch may unpack to, with
    each record counted as at least 64 bytes, and
    `batch_headers_max` how many headers it may have if headers are asked for: BatchTooLarge.
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
        pieces: list[tuple[Batch, Buffer | None]] = []  # with what a compressed batch unpacked to
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
        """Return a column whose value is always the same: a piece of one that is kept."""
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
        records = _Records(arena, spans, start, end)
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
        # One huge batch is one arena all the same; what crosses to the JVM is cut to size.
        rows = max(1, table.num_rows * self._arrow_bytes // max(1, 2 * records.size))
        if records.size <= 2 * self._arrow_bytes:
            yield table
            return
        for first in range(0, table.num_rows, rows):
            yield table.slice(first, rows)


def _arena(data: Buffer, pieces: list[tuple[Batch, Buffer | None]]) -> tuple[Buffer, list[Span]]:
    """Return one buffer with all records, and where each batch's lie: `data` itself if it can."""
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


class _Records:
    """The records of an arena that are wanted, as arrays with one element for each."""

    def __init__(self, arena: Buffer, spans: list[Span], start: int, end: int) -> None:
        self._spans = spans
        self._raw = pa.py_buffer(arena)
        self._bytes = np.frombuffer(arena, np.uint8)
        self._words = two_bytes(arena)
        positions = find_starts(arena, spans)
        self.count = len(positions)
        if not self.count:
            return
        counts = [span.batch.record_count for span in spans]
        self._span = np.repeat(np.arange(len(spans)), counts)
        # A record ends where the next one begins, the last of a batch where the batch does.
        self._ends = np.empty_like(positions)
        self._ends[:-1] = positions[1:]
        last = np.cumsum(counts) - 1
        filled = np.array(counts) > 0
        self._ends[last[filled]] = np.array([span.end for span in spans])[filled]
        positions = self._behind_lengths(positions)
        deltas, positions = self._varints(positions + 1, _INT64_VARINT_BYTES)
        offsets, self._positions = self._varints(positions, _INT32_VARINT_BYTES)
        self._offsets = self._of_batches("base_offset") + offsets
        self._deltas = deltas
        self._cut(start, end)
        self.size = int((self._ends - self._positions).sum())
        self._pieces: dict[str, tuple[Int64s, Int64s]] = {}

    def column(self, name: str) -> Any:
        """Return one column, but headers, as an Arrow array."""
        if name == "offset":
            return _array(pa.int64(), self._offsets)
        if name == "timestamp":
            return self._timestamps()
        if name == "timestampType":
            types = [int(span.batch.is_log_append_time) for span in self._spans]
            return _array(pa.int32(), np.array(types, np.int32)[self._span])
        if not self._pieces:
            self._find_pieces()
        return self._gather(*self._pieces[name])

    def _of_batches(self, field: str) -> Int64s:
        values = np.array([getattr(span.batch, field) for span in self._spans], np.int64)
        return values[self._span]

    def _cut(self, start: int, end: int) -> None:
        """Keep the records with start <= offset < end; offsets rise, so that is a slice."""
        first, last = np.searchsorted(self._offsets, [start, end])
        if first == 0 and last == self.count:
            return
        self.count = max(0, int(last - first))
        for name in ("_span", "_ends", "_positions", "_offsets", "_deltas"):
            setattr(self, name, getattr(self, name)[first:last])

    def _timestamps(self) -> Any:
        times = self._of_batches("base_timestamp") + self._deltas
        if any(span.batch.is_log_append_time for span in self._spans):
            append_time = np.array([span.batch.is_log_append_time for span in self._spans])
            times = np.where(append_time[self._span], self._of_batches("max_timestamp"), times)
        near = (times <= _MILLISECONDS_MAX) & (times >= -_MILLISECONDS_MAX)
        self._require(near, "a timestamp beyond the year 294,000")
        return _array(TYPES["timestamp"], times * 1000)

    def _find_pieces(self) -> None:
        """Find where the keys, the values and the headers lie; lengths are -1 for null."""
        key_sizes, keys = self._varints(self._positions, _INT32_VARINT_BYTES)
        after_keys = keys + np.maximum(key_sizes, 0)
        value_sizes, values = self._varints(after_keys, _INT32_VARINT_BYTES)
        after_values = values + np.maximum(value_sizes, 0)
        counts, headers = self._varints(after_values, _INT32_VARINT_BYTES)
        room = self._ends - headers
        self._require(
            (key_sizes >= -1) & (value_sizes >= -1) & (counts >= 0) & (room >= 2 * counts),
            "the sizes of a record's fields do not add up to its own",
        )
        self._require((counts > 0) | (room == 0), "bytes behind the last field of a record")
        self._pieces = {
            "key": (keys, key_sizes),
            "value": (values, value_sizes),
            "headers": (headers, counts),
        }

    def headers(self, batch_headers_max: int) -> Any:
        """Return lists of (key, value); a record without headers has null, as in Spark's source.

        Raises BatchTooLarge for a batch that has more than `batch_headers_max` of them.
        """
        if not self._pieces:
            self._find_pieces()
        positions, counts = self._pieces["headers"]
        self._require_few_headers(counts, batch_headers_max)
        firsts = np.concatenate(([0], np.cumsum(counts)))
        key_sizes, keys, value_sizes, values = self._find_headers(positions, counts, firsts)
        texts = _as_text(self._gather(keys, key_sizes))
        pairs = pa.StructArray.from_arrays(
            [texts, self._gather(values, value_sizes)], fields=list(_HEADERS.value_type)
        )
        offsets = pa.array(firsts.astype(np.int32), mask=np.append(counts == 0, False))
        return pa.ListArray.from_arrays(offsets, pairs).cast(_HEADERS)

    def _require_few_headers(self, counts: Int64s, batch_headers_max: int) -> None:
        if counts.sum() <= batch_headers_max:
            return
        of_spans = np.zeros(len(self._spans), np.int64)
        np.add.at(of_spans, self._span, counts)
        if of_spans.max() > batch_headers_max:
            span = self._spans[int(of_spans.argmax())]
            raise BatchTooLarge(
                span.batch.position,
                f"a batch of {span.batch.record_count} records with {of_spans.max()} headers, more "
                f"than {batch_headers_max}; raise the option batchHeadersMax if the batch is "
                "genuine, or read it without the column headers",
            )

    def _find_headers(
        self, positions: Int64s, counts: Int64s, firsts: Int64s
    ) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """Return (key sizes, keys, value sizes, values) of all headers, record after record.

        Where a header begins is known only from the one before it. So one step takes the next
        header of every record; the rest of long chains, when few records have headers left, is
        followed one by one.
        """
        starts = np.empty(int(firsts[-1]), np.int64)
        rows = np.flatnonzero(counts)
        positions = positions[rows]
        index = 0
        while len(rows) >= _HEADER_LANES_MIN:
            starts[firsts[rows] + index] = positions
            *_, positions = self._header(positions)
            index += 1
            more = counts[rows] > index
            rows, positions = rows[more], positions[more]
        for row, position in zip(rows.tolist(), positions.tolist(), strict=True):
            found = follow_headers(self._bytes.data, position, int(counts[row]) - index)
            starts[firsts[row] + index : firsts[row + 1]] = found
        key_sizes, keys, value_sizes, values, ends = self._header(starts)
        row_of_each = np.repeat(np.arange(self.count), counts)
        fits = (key_sizes >= 0) & (value_sizes >= -1) & (ends <= self._ends[row_of_each])
        self._require(fits, "a header does not fit its record", row_of_each)
        filled = np.flatnonzero(counts)
        complete = ends[firsts[filled + 1] - 1] == self._ends[filled]
        self._require(complete, "bytes behind the last header of a record", filled)
        return key_sizes, keys, value_sizes, values

    def _header(self, positions: Int64s) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s]:
        """Return (key size, key, value size, value, end) of the header at each position."""
        key_sizes, keys = self._varints(positions, _INT32_VARINT_BYTES)
        value_sizes, values = self._varints(keys + np.maximum(key_sizes, 0), _INT32_VARINT_BYTES)
        return key_sizes, keys, value_sizes, values, values + np.maximum(value_sizes, 0)

    def _gather(self, positions: Int64s, sizes: Int64s) -> Any:
        """Copy the pieces (position, size), which lie in rising order, into one binary array."""
        count = len(positions)
        edges = np.empty(2 * count, np.int32)
        edges[0::2] = positions
        edges[1::2] = positions + np.maximum(sizes, 0)
        pieces = pa.Array.from_buffers(
            pa.binary(), max(0, 2 * count - 1), [None, pa.py_buffer(edges), self._raw]
        )
        copied = pieces.take(_array(pa.int64(), np.arange(0, 2 * count, 2)))
        nulls = sizes < 0
        if not nulls.any():
            return copied
        # A null has been copied as a piece of no bytes; what is left is to say so.
        valid = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
        return pa.Array.from_buffers(pa.binary(), count, [valid, *copied.buffers()[1:]])

    def _behind_lengths(self, positions: Int64s) -> Int64s:
        """Return where the length at the beginning of each record ends; it has been followed."""
        used = _USED[self._words[positions]]
        after = positions + used
        rows = np.flatnonzero(used == 0)
        if len(rows):
            _, after[rows] = self._long_varints(positions[rows], _INT32_VARINT_BYTES)
        # Zigzag: an odd one is below zero, and was followed as if it were not.
        self._require(self._bytes[positions] & 1 == 0, "a record's length is not a length")
        return after

    def _varints(self, positions: Int64s, bytes_max: int) -> tuple[Int64s, Int64s]:
        """Read one zigzag varint at each position; return the values and where each one ends.

        A position beyond the buffer reads its last bytes; callers check that records end in time.
        Most fields are of one byte in all records, or of two: tables hold all of these.
        """
        byte = self._bytes.take(positions, mode="clip")
        if byte.max(initial=0) < 0x80:
            return _ONE.take(byte), positions + 1
        last = len(self._words) - 1
        words = self._words[np.minimum(positions, last)]
        used = _USED[words]
        if positions.max() > last:
            used[positions > last] = 0  # the last byte of all has none behind it
        values, after = _TWO[words].astype(np.int64), positions + used
        rows = np.flatnonzero(used == 0)
        if len(rows):
            values[rows], after[rows] = self._long_varints(positions[rows], bytes_max)
        return values, after

    def _long_varints(self, positions: Int64s, bytes_max: int) -> tuple[Int64s, Int64s]:
        """Read varints of any size, byte by byte."""
        byte = self._bytes.take(positions, mode="clip")
        value = (byte & 0x7F).astype(np.uint64)
        after = positions + 1
        rows = np.flatnonzero(byte & 0x80)
        for index in range(1, bytes_max):
            if not len(rows):
                break
            byte = self._bytes.take(after[rows], mode="clip")
            value[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * index)
            after[rows] += 1
            rows = rows[byte >= 0x80]
        if len(rows):
            self._require(np.zeros(1, bool), f"a varint of more than {bytes_max} bytes")
        half = (value >> np.uint64(1)).view(np.int64)
        return half ^ -(value & np.uint64(1)).view(np.int64), after

    def _require(self, holds: Any, reason: str, rows: Int64s | None = None) -> None:
        """Raise CorruptBatch for the batch of the first record for which `holds` is false."""
        if holds.all():
            return
        row = int(np.argmin(holds))
        row = row if rows is None else int(rows[row])
        raise CorruptBatch(self._spans[int(self._span[row])].batch.position, reason)


def _array(kind: Any, values: npt.NDArray[Any]) -> Any:
    """Return numbers as an Arrow array without a copy.

    `pa.array` would do the same, after it has looked for pandas in the whole of sys.path each time.
    """
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _as_text(keys: Any) -> Any:
    """Return header keys as strings; bytes that are no UTF-8 become U+FFFD, as in Java."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        few = keys.dictionary_encode()
        texts = [key.as_py().decode("utf-8", "replace") for key in few.dictionary]
        return pa.array(texts, pa.string()).take(few.indices)
