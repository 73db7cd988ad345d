"""A digest of the rows of a task: two runs of it had the same rows if their digests are equal.

It covers keys, values and headers, in the order of the rows, and topic by topic; not timestamps,
which the sink sets if the query has none. A column is two streams, of sizes (-1 for null) and of
bytes, each with a CRC that goes on from table to table. So it does not matter how the rows are cut
into tables, and Python looks at no single row: 0.02 microseconds for each of 100 bytes, instead of
1.7 for a CRC that goes on from row to row.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class RowsDigest:
    """The digest of what has been added."""

    def __init__(self) -> None:
        self._crcs: dict[str, int] = {}  # by topic and stream

    def add(self, topic: str, **columns: Any) -> None:
        """Add rows: columns of binary, or of lists of headers."""
        for name, column in columns.items():
            for stream, data in _streams(f"{topic} {name}", column):
                self._crcs[stream] = crc32c.crc32c(data, self._crcs.get(stream, 0))

    def value(self) -> int:
        """Return the digest, of 32 bits."""
        return zlib.crc32(repr(sorted(self._crcs.items())).encode())


def _streams(name: str, column: Any) -> Iterator[tuple[str, Any]]:
    """Yield the streams of a column, with their names."""
    if pa.types.is_list(column.type):
        yield f"{name} counts", _numbers(column.value_lengths().fill_null(0))  # null is no headers
        yield from _streams(name, column.flatten())
    elif pa.types.is_struct(column.type):
        for field, child in zip(column.type, column.flatten(), strict=True):
            yield from _streams(f"{name} {field.name}", child.cast(pa.binary()))
    else:
        yield f"{name} sizes", _numbers(pc.binary_length(column).fill_null(-1))
        yield f"{name} bytes", _bytes(column)


def _numbers(column: Any) -> Any:
    return column.cast(pa.int32()).to_numpy(zero_copy_only=False)


def _bytes(column: Any) -> Any:
    """Return the bytes of all values of a binary array, one after the other."""
    if column.null_count:  # a null may have bytes
        column = column.fill_null(b"")
    _, offsets, data = column.buffers()
    if not len(column) or data is None:
        return b""
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return memoryview(data)[ends[0] : ends[-1]]
