"""The records of many batches as arrays with one element each, and from these Arrow columns.

All records lie in one buffer, the arena. numpy reads one field of all records at a time; keys and
values are gathered by Arrow: an array over the raw bytes whose even elements are the wanted pieces
and whose odd elements are the gaps between them, of which `take` copies the even ones. No Python
object is made for a record. Fields that do not add up raise CorruptBatch for their batch.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_barnabas.wire.batches import Buffer
from pyspark_barnabas.wire.errors import BatchTooLarge, CorruptBatch
from pyspark_barnabas.wire.varints import (
    INT32_BYTES,
    INT64_BYTES,
    Int64s,
    OverlongVarint,
    Span,
    Varints,
    find_starts,
    follow_headers,
)

TIMESTAMP: Final[Any] = pa.timestamp("us", tz="UTC")
HEADERS: Final[Any] = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
_HEADER_LANES_MIN: Final = 200  # with fewer records a loop over their headers is faster
_MILLISECONDS_MAX = (1 << 63) // 1000 - 1  # beyond, a timestamp in microseconds is no int64


class Records:
    """The records of an arena within two offsets, as arrays with one element each."""

    def __init__(self, arena: Buffer, spans: list[Span], start: int, end: int) -> None:
        self._spans = spans
        self._raw = pa.py_buffer(arena)
        self._varints = Varints(arena)
        positions = find_starts(arena, spans)
        self.count = len(positions)
        if not self.count:
            return
        counts = [span.batch.record_count for span in spans]
        self._span = np.repeat(np.arange(len(spans)), counts)
        # A record ends where the next one begins; the last of a batch ends with the batch.
        self._ends = np.empty_like(positions)
        self._ends[:-1] = positions[1:]
        last = np.cumsum(counts) - 1
        filled = np.array(counts) > 0
        self._ends[last[filled]] = np.array([span.end for span in spans])[filled]
        # Zigzag: an odd one is negative, and was followed as if it were not.
        self._require(self._varints.bytes[positions] & 1 == 0, "a record's length is not a length")
        positions = self._varints.after_lengths(positions)
        deltas, positions = self._read(positions + 1, INT64_BYTES)
        offsets, self._positions = self._read(positions, INT32_BYTES)
        self._offsets = self._of_batches("base_offset") + offsets
        self._deltas = deltas
        self._cut(start, end)
        self.size = int((self._ends - self._positions).sum())
        self._pieces: dict[str, tuple[Int64s, Int64s]] = {}

    def column(self, name: str) -> Any:
        """Return one column, except headers, as an Arrow array."""
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
        """Keep the records with start <= offset < end, which are a slice because offsets ascend."""
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
        return _array(TIMESTAMP, times * 1000)

    def _find_pieces(self) -> None:
        """Find the keys, values and headers; a size of -1 is null."""
        key_sizes, keys = self._read(self._positions, INT32_BYTES)
        after_keys = keys + np.maximum(key_sizes, 0)
        value_sizes, values = self._read(after_keys, INT32_BYTES)
        after_values = values + np.maximum(value_sizes, 0)
        counts, headers = self._read(after_values, INT32_BYTES)
        room = self._ends - headers
        self._require(
            (key_sizes >= -1) & (value_sizes >= -1) & (counts >= 0) & (room >= 2 * counts),
            "the sizes of a record's fields do not add up to its own",
        )
        self._require((counts > 0) | (room == 0), "bytes after the last field of a record")
        self._pieces = {
            "key": (keys, key_sizes),
            "value": (values, value_sizes),
            "headers": (headers, counts),
        }

    def headers(self, batch_headers_max: int) -> Any:
        """Return lists of (key, value); null for a record without headers, as in Spark's source.

        Raises BatchTooLarge for a batch that has more than `batch_headers_max` headers.
        """
        if not self._pieces:
            self._find_pieces()
        positions, counts = self._pieces["headers"]
        self._require_few_headers(counts, batch_headers_max)
        firsts = np.concatenate(([0], np.cumsum(counts)))
        key_sizes, keys, value_sizes, values = self._find_headers(positions, counts, firsts)
        texts = _as_text(self._gather(keys, key_sizes))
        pairs = pa.StructArray.from_arrays(
            [texts, self._gather(values, value_sizes)], fields=list(HEADERS.value_type)
        )
        offsets = pa.array(firsts.astype(np.int32), mask=np.append(counts == 0, False))
        return pa.ListArray.from_arrays(offsets, pairs).cast(HEADERS)

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

        A header begins where the one before it ends. So each step takes the next header of every
        record; once few records have headers left, the rest is followed one by one.
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
            found = follow_headers(self._varints.bytes.data, position, int(counts[row]) - index)
            starts[firsts[row] + index : firsts[row + 1]] = found
        key_sizes, keys, value_sizes, values, ends = self._header(starts)
        row_of_each = np.repeat(np.arange(self.count), counts)
        fits = (key_sizes >= 0) & (value_sizes >= -1) & (ends <= self._ends[row_of_each])
        self._require(fits, "a header does not fit its record", row_of_each)
        filled = np.flatnonzero(counts)
        complete = ends[firsts[filled + 1] - 1] == self._ends[filled]
        self._require(complete, "bytes after the last header of a record", filled)
        return key_sizes, keys, value_sizes, values

    def _header(self, positions: Int64s) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s]:
        """Return (key size, key, value size, value, end) of the header at each position."""
        key_sizes, keys = self._read(positions, INT32_BYTES)
        value_sizes, values = self._read(keys + np.maximum(key_sizes, 0), INT32_BYTES)
        return key_sizes, keys, value_sizes, values, values + np.maximum(value_sizes, 0)

    def _gather(self, positions: Int64s, sizes: Int64s) -> Any:
        """Copy the pieces (position, size), in ascending order, into one binary array."""
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
        # A null was copied as an empty piece; now mark it as null.
        valid = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
        return pa.Array.from_buffers(pa.binary(), count, [valid, *copied.buffers()[1:]])

    def _read(self, positions: Int64s, bytes_max: int) -> tuple[Int64s, Int64s]:
        try:
            return self._varints.read(positions, bytes_max)
        except OverlongVarint as error:
            position = self._spans[int(self._span[0])].batch.position
            raise CorruptBatch(position, str(error)) from None

    def _require(self, holds: Any, reason: str, rows: Int64s | None = None) -> None:
        """Raise CorruptBatch for the batch of the first record for which `holds` is false."""
        if holds.all():
            return
        row = int(np.argmin(holds))
        row = row if rows is None else int(rows[row])
        raise CorruptBatch(self._spans[int(self._span[row])].batch.position, reason)


def _array(kind: Any, values: npt.NDArray[Any]) -> Any:
    """Return numbers as an Arrow array without a copy.

    `pa.array` does the same, but searches all of sys.path for pandas on every call.
    """
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _as_text(keys: Any) -> Any:
    """Return header keys as strings; invalid UTF-8 becomes U+FFFD, as in Java."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        few = keys.dictionary_encode()
        texts = [key.as_py().decode("utf-8", "replace") for key in few.dictionary]
        return pa.array(texts, pa.string()).take(few.indices)
