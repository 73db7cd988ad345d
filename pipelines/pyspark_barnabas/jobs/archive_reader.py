"""An archive as a stream: each partition's records by offset, as if they were still in the topic.

`format("barnabas-archive")` takes the option `archive.directory`, and `archive.topics` to select
some. It has the columns of a topic. Its offsets are those of the archived records, in Spark's form
of an offset map, so limits, micro-batches and checkpoints work as for a topic. A task reads one
range of one partition, in order of offset.

A task opens one file after the other, skips row groups outside its range, and holds one row group.
By date, it merges the files of a range. Files that `archive_writer` did not write raise
CorruptArchive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_barnabas.columns import ARROW_BYTES, TYPES, arrow_schema
from pyspark_barnabas.datasource import COLUMNS as KINDS
from pyspark_barnabas.jobs.archive_files import (
    COLUMNS,
    FILE_COLUMNS,
    Contents,
    check,
    contents,
    partition_directory,
    pieces,
)
from pyspark_barnabas.offsets import Offsets, Range, from_json, limited, to_json
from pyspark_barnabas.plain_errors import plainly
from pyspark_barnabas.settings import Settings
from pyspark_barnabas.source.reader import LogPartition
from pyspark_barnabas.source.stream import HAS_LIMITS
from pyspark_barnabas.wire.errors import BadOption, CorruptArchive

_limits: Any = import_module("pyspark.sql.streaming.datasource") if HAS_LIMITS else None
_AvailableNow: Any = _limits.SupportsTriggerAvailableNow if HAS_LIMITS else object
_ROWS_MAX: Final = 10_000  # of one RecordBatch


class ArchiveSource(DataSource):
    """The format's name, schema and stream, once registered."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "barnabas-archive"

    def schema(self) -> StructType:
        """Return the columns of a topic."""
        found = StructType()
        for name in COLUMNS:
            found = found.add(name, KINDS[name])
        return found

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """Return the stream."""
        return ArchiveStream(self.options)


@plainly
class ArchiveStream(DataSourceStreamReader, _AvailableNow):  # type: ignore[misc]
    """Reads what an archive holds when the query starts."""

    def __init__(self, given: Mapping[str, str]) -> None:
        settings = Settings(given)
        self._root = Path(settings.get("archive.directory") or "")
        topics = settings.get("archive.topics")
        self._topics = frozenset(topics.split(",")) if topics else None
        self._rows_max = settings.integer("maxOffsetsPerTrigger", None)
        self._found: Contents | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's
        """Return where the archive begins."""
        return to_json(self._begins())

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's
        """Return the limit of maxOffsetsPerTrigger."""
        if self._rows_max is None:
            return _limits.ReadAllAvailable()
        return _limits.ReadMaxRows(self._rows_max)

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """Return where the next batch ends; before PySpark 4.2, where the archive does."""
        ends = self._contents().ends()
        rows_max = getattr(limit, "max_rows", None)
        if rows_max is None or start is None:
            return to_json(ends)
        return to_json(limited(from_json(start), ends, self._begins(), rows_max))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        """Do nothing: the end is fixed when the archive is first listed."""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return a task for each partition with records to read."""
        begins = self._begins() | from_json(start)
        ranges = [
            Range(*at, begins.get(at, 0), offset) for at, offset in sorted(from_json(end).items())
        ]
        return [LogPartition(part) for part in ranges if part.count > 0]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the records of one range as pyarrow.RecordBatch."""
        if isinstance(partition, LogPartition):  # with no partitions Spark passes an empty one
            yield from read_archived(self._root, partition.range)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: reading does not change an archive."""

    def stop(self) -> None:
        """Nothing is open."""

    def _begins(self) -> Offsets:
        ends = self._contents().ends()
        return {at: found[0].start for at, found in self._contents().pieces.items() if at in ends}

    def _contents(self) -> Contents:
        """List the archive once, and check it. Raises CorruptArchive."""
        if self._found is None:
            self._found = listed(self._root, self._topics)
        return self._found


def listed(root: Path, topics: frozenset[str] | None) -> Contents:
    """List these topics of an archive, or all. Raises CorruptArchive, BadOption."""
    found = contents(root)
    if topics is not None:
        missing = topics - {topic for topic, _ in found.pieces}
        if missing:
            known = ", ".join(sorted({topic for topic, _ in found.pieces})) or "no topic"
            raise BadOption(f"{root} has no {', '.join(sorted(missing))}; it holds {known}")
        found.pieces = {at: several for at, several in found.pieces.items() if at[0] in topics}
    check(found, root)
    return found


def read_archived(root: Path, part: Range) -> Iterator[Any]:
    """Yield the records of a range as RecordBatches of all columns, by offset.

    Raises CorruptArchive for a file that cannot be read or is not in order.
    """
    schema = arrow_schema(COLUMNS)
    directory = partition_directory(root, part.topic, part.partition)
    missing = CorruptArchive(
        f"{directory} lacks files for offsets {part.start} to {part.end} (exclusive). Has this "
        "machine mounted the archive's disk, and was the archive changed during the run?"
    )
    if not directory.is_dir():
        raise missing
    after = part.start
    for piece in pieces(directory):
        if piece.end <= part.start or piece.start >= part.end or not piece.is_whole:
            continue
        within = Range(
            part.topic, part.partition, max(piece.start, part.start), min(piece.end, part.end)
        )
        if within.start != after:
            raise missing
        after = within.end
        streams = [_read_file(path, within) for path in piece.paths]
        for table in streams[0] if len(streams) == 1 else _merged(streams):
            columns: dict[str, Any] = dict(zip(FILE_COLUMNS, table.columns, strict=True))
            columns["topic"] = pa.repeat(part.topic, table.num_rows)
            columns["partition"] = pa.repeat(pa.scalar(part.partition, pa.int32()), table.num_rows)
            yield pa.RecordBatch.from_arrays([columns[name] for name in COLUMNS], schema=schema)
    if after != part.end:
        raise missing


def _read_file(path: Path, within: Range) -> Iterator[Any]:
    """Yield a file's records with these offsets, and check that they ascend."""
    try:
        with pq.ParquetFile(path) as file:
            _check_columns(path, file.schema_arrow)
            after = -1
            for group in _groups(file, within):
                row_bytes = group.total_byte_size // max(1, group.num_rows) + 1
                rows = max(1, min(_ROWS_MAX, ARROW_BYTES // row_bytes))
                for table in file.iter_batches(rows, [group.index], list(FILE_COLUMNS)):
                    offsets = table["offset"].to_numpy(zero_copy_only=False)
                    if offsets[0] <= after or np.any(np.diff(offsets) <= 0):
                        raise CorruptArchive(f"{path}: its offsets do not ascend. {_CURE}")
                    after = int(offsets[-1])
                    first, last = np.searchsorted(offsets, [within.start, within.end])
                    if last > first:
                        yield table.slice(int(first), int(last - first))
    except (OSError, pa.ArrowException) as error:
        raise CorruptArchive(f"{path}: {' '.join(str(error).split())}. {_CURE}") from None


_CURE: Final = "Restore the file as it was written; the archive's other files are not affected"


class _Group:
    """A row group that may have records of a range."""

    def __init__(self, index: int, metadata: Any) -> None:
        self.index = index
        self.num_rows: int = metadata.num_rows
        self.total_byte_size: int = metadata.total_byte_size


def _groups(file: Any, within: Range) -> Iterator[_Group]:
    column = FILE_COLUMNS.index("offset")
    for index in range(file.metadata.num_row_groups):
        metadata = file.metadata.row_group(index)
        if not metadata.num_rows:
            continue
        statistics = metadata.column(column).statistics
        if statistics is None or (statistics.max >= within.start and statistics.min < within.end):
            yield _Group(index, metadata)


def _check_columns(path: Path, schema: Any) -> None:
    wanted = pa.schema([(name, TYPES[name]) for name in FILE_COLUMNS])
    if not schema.equals(wanted):
        found = ", ".join(f"{field.name} {field.type}" for field in schema)
        raise CorruptArchive(
            f"{path}: its columns are {found}, which are not an archive's. {_CURE}"
        )


def _merged(streams: Sequence[Iterator[Any]]) -> Iterator[Any]:
    """Merge tables that each ascend by offset; each step finishes one table of one stream."""
    heads: dict[Iterator[Any], Any] = {}
    for stream in streams:
        _advance(heads, stream)
    while heads:
        limit = min(table["offset"][-1].as_py() for table in heads.values())
        taken = []
        for stream, table in list(heads.items()):
            offsets = table["offset"].to_numpy(zero_copy_only=False)
            count = int(np.searchsorted(offsets, limit, side="right"))
            if count:
                taken.append(table.slice(0, count))
            if count == table.num_rows:
                _advance(heads, stream)
            else:
                heads[stream] = table.slice(count)
        together = pa.Table.from_batches(taken)
        ordered = together.take(np.argsort(together["offset"].to_numpy(), kind="stable"))
        yield from ordered.combine_chunks().to_batches()


def _advance(heads: dict[Iterator[Any], Any], stream: Iterator[Any]) -> None:
    """Move to a stream's next table, or remove the stream at its end."""
    table = next(stream, None)
    if table is None:
        heads.pop(stream, None)
    else:
        heads[stream] = table
