"""A stream that writes what it reads into an archive, and returns only a summary to Spark.

`format("barnabas-archive-writer")` plans offsets, limits and micro-batches like the streaming
source of a topic (`pyspark_barnabas.source.stream`), but its tasks write their range of offsets to
Parquet where they read it. So records do not pass through the JVM, files keep the order of the log,
and a task knows the planned range, after which it names its file. Each task returns one row:

    topic string, partition int, start bigint, end bigint, records bigint, files int, bytes bigint

A task may be rerun, partly or fully, even beside another attempt: the same range is the same file
with the same rows. That makes it safe to write in a read, whatever Spark repeats.

A task holds one row group of each open file, in total ROW_GROUP_BYTES of records, and one fetch.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_barnabas.columns import TYPES
from pyspark_barnabas.jobs.archive_files import (
    COLUMNS,
    FILE_COLUMNS,
    NO_DATE,
    contents,
    file_name,
    partition_directory,
    pieces,
    sync_directory,
)
from pyspark_barnabas.offsets import Range, from_json
from pyspark_barnabas.options import SourceOptions
from pyspark_barnabas.plain_errors import plainly
from pyspark_barnabas.settings import Settings
from pyspark_barnabas.source.reader import LogPartition, read_range, recreated_since
from pyspark_barnabas.source.stream import WireStreamReader
from pyspark_barnabas.wire.cluster import Cluster
from pyspark_barnabas.wire.errors import BadOption, CorruptArchive, DataLost

MiB = 1024 * 1024
ROW_GROUP_BYTES: Final = 64 * MiB
DATES_MAX: Final = 400  # files that one task may have open: more than a year of days
CODECS: Final = ("zstd", "snappy", "gzip", "lz4", "none")
DONE: Final = (
    "topic string, partition int, start bigint, end bigint, records bigint, files int, bytes bigint"
)
_DONE_ARROW: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("records", pa.int64()),
        ("files", pa.int32()),
        ("bytes", pa.int64()),
    ]
)
_OWN_OPTIONS: Final = "archive."
ELSEWHERE: Final = "Archive it into another directory"  # the remedy for a topic created again
_DAY_US: Final = 24 * 60 * 60 * 1_000_000


class ArchiveWriter(DataSource):
    """The format's name, schema and stream, once registered."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "barnabas-archive-writer"

    def schema(self) -> str:
        """Return the columns of a task's row."""
        return DONE

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """Return the stream; its options are those of a topic's stream, and `Target`'s."""
        return ArchivingStream(self.options)


@dataclass(frozen=True)
class Target:
    """Where and how to write files."""

    root: Path
    by_date: bool
    codec: str

    def options(self) -> dict[str, str]:
        """Return this as options of a stream."""
        return {
            "archive.directory": str(self.root),
            "archive.by.date": str(self.by_date).lower(),
            "archive.codec": self.codec,
        }


def target_of(given: Mapping[str, str]) -> Target:
    """Return the Target of its options."""
    settings = Settings(given)
    directory = settings.get("archive.directory")
    if not directory:
        raise BadOption("archive.directory is missing")
    return Target(
        Path(directory),
        settings.boolean("archive.by.date", default=False),
        settings.choice("archive.codec", CODECS, CODECS[0]),
    )


@plainly
class ArchivingStream(WireStreamReader):
    """Plans like the stream of a topic; a task writes its range."""

    def __init__(self, given: Mapping[str, str]) -> None:
        own = [name for name in given if name.lower().startswith(_OWN_OPTIONS)]
        super().__init__(COLUMNS, {name: given[name] for name in given if name not in own})
        self._target_files = target_of(given)
        self._is_checked = False

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """Return where the next batch ends. Raises DataLost if that is before its start.

        This holds whatever failOnDataLoss says: a topic that was created again repeats the offsets
        of the old one, and with them the names of its files.
        """
        found = super().latestOffset(start, limit)
        ends = from_json(found)
        for (topic, partition), offset in from_json(start or {}).items():
            if ends.get((topic, partition), offset) < offset:
                raise DataLost(
                    f"{topic}-{partition} ends at offset {ends[topic, partition]} and was archived "
                    f"up to {offset}: the topic was created again. {ELSEWHERE}"
                )
        return found

    def lose_topic(self, what: str) -> None:
        """Raise DataLost, whatever failOnDataLoss says."""
        _require_same(what)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the ranges; the first time, check that they continue where the files end."""
        found = super().partitions(start, end)
        if not self._is_checked:
            ranges = [each.range for each in found if isinstance(each, LogPartition)]
            check_joins(self._target_files.root, ranges)
            self._is_checked = True
        return found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Write the range and yield its row."""
        if isinstance(partition, LogPartition):  # with no partitions Spark passes an empty one
            yield archive_range(self._options, self._target_files, partition)


def _require_same(what: str) -> None:
    """Raise DataLost if `what` says that the topic was created again."""
    if what:
        raise DataLost(f"{what}. {ELSEWHERE}")


def check_joins(root: Path, ranges: Sequence[Range]) -> None:
    """Raise CorruptArchive if there are files, but none that ends where a range begins.

    A range that exists already belongs to a micro-batch that is rerun.
    """
    there = contents(root).pieces
    for part in ranges:
        found = there.get((part.topic, part.partition), [])
        if found and all(part.start not in (each.start, each.end) for each in found):
            where = partition_directory(root, part.topic, part.partition)
            raise CorruptArchive(
                f"{where}: the checkpoint continues at offset {part.start}, but the files end at "
                f"{found[-1].end}. If files were removed on purpose, remove {root}/_checkpoint "
                "too: the archive then continues where its files end"
            )


def archive_range(options: SourceOptions, target: Target, planned: LogPartition) -> Any:
    """Write one range's files, durably, and return its row as a RecordBatch."""
    part = planned.range
    with _Files(target, part) as files:
        for table in read_range(options, COLUMNS, planned):
            files.add(table.select(FILE_COLUMNS))
        with Cluster(options.cluster) as cluster:
            _require_same(recreated_since(cluster, planned))
        paths = files.finish()
    row = {
        "topic": part.topic,
        "partition": part.partition,
        "start": part.start,
        "end": part.end,
        "records": files.record_count,
        "files": len(paths),
        "bytes": sum(path.stat().st_size for path in paths),
    }
    return pa.RecordBatch.from_pylist([row], schema=_DONE_ARROW)


class _Files:
    """The files of one range: one, or by date one a day."""

    def __init__(self, target: Target, part: Range) -> None:
        self._target = target
        self._part = part
        self._directory = partition_directory(target.root, part.topic, part.partition)
        self._files: dict[str, _File] = {}
        self.record_count = 0

    def __enter__(self) -> _Files:
        """No file is created before there are records."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove unfinished files."""
        for file in self._files.values():
            file.abandon()

    def add(self, table: Any) -> None:
        """Add records, in the order of the log."""
        self.record_count += table.num_rows
        if not self._target.by_date:
            self._file("").add(table)
            return
        times = table["timestamp"].cast(pa.int64()).to_numpy(zero_copy_only=False)
        days, which = np.unique(np.floor_divide(times, _DAY_US), return_inverse=True)
        names = np.array([_day(day) for day in days.tolist()])[which]
        for name in np.unique(names).tolist():
            rows = np.flatnonzero(names == name)
            is_all = len(rows) == table.num_rows
            self._file(f"date={name}").add(table if is_all else table.take(pa.array(rows)))
        self._flush_largest()

    def finish(self) -> list[Path]:
        """Rename the files, and remove other files of the range that an earlier run left."""
        if not self._files:  # no visible record in these offsets, but the ranges must join
            self._file(f"date={NO_DATE}" if self._target.by_date else "")
        found = []
        for number, (_, file) in enumerate(sorted(self._files.items()), 1):
            name = file_name(self._part, number, len(self._files), by_date=self._target.by_date)
            found.append(file.finish(name))
        if self._target.by_date:
            for piece in pieces(self._directory):
                if (piece.start, piece.end) == (self._part.start, self._part.end):
                    for path in set(piece.paths) - set(found):
                        path.unlink(missing_ok=True)
        return found

    def _file(self, below: str) -> _File:
        if below not in self._files:
            if len(self._files) == DATES_MAX:
                raise BadOption(
                    f"offsets {self._part.start} to {self._part.end} of {self._part.topic}-"
                    f"{self._part.partition} have records of more than {DATES_MAX} days: omit "
                    "--by-date, or lower --max-offsets"
                )
            self._files[below] = _File(
                self._target.root, self._directory / below, self._target.codec
            )
        return self._files[below]

    def _flush_largest(self) -> None:
        """Keep the bound however many files are open."""
        while sum(file.size for file in self._files.values()) >= ROW_GROUP_BYTES:
            max(self._files.values(), key=lambda file: file.size).flush()


def _day(number: int) -> str:
    """Return the date of a day since 1970, UTC; Hive's null if out of the calendar's range."""
    try:
        return (date(1970, 1, 1) + timedelta(days=number)).isoformat()
    except OverflowError:
        return NO_DATE


class _File:
    """One Parquet file, under a hidden name until it is finished."""

    def __init__(self, root: Path, directory: Path, codec: str) -> None:
        self._root = root
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._scratch: Path | None = directory / f".{uuid.uuid4().hex}.tmp"
        self._stream = self._scratch.open("wb")
        schema = pa.schema([(name, TYPES[name]) for name in FILE_COLUMNS])
        # Readers skip row groups by offset and time; other statistics only take room.
        self._writer = pq.ParquetWriter(
            self._stream,
            schema,
            compression=codec,
            use_dictionary=["key", "timestampType"],
            write_statistics=["offset", "timestamp"],
        )
        self._tables: list[Any] = []
        self.size = 0

    def add(self, table: Any) -> None:
        """Add records; write a row group when there are enough."""
        self._tables.append(table)
        self.size += table.nbytes
        if self.size >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the pending records as a row group."""
        if self._tables:
            table = pa.Table.from_batches(self._tables)
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._tables, self.size = [], 0

    def finish(self, name: str) -> Path:
        """Flush the file, rename it, and make the name durable."""
        assert self._scratch is not None, "a file is finished once"
        self.flush()
        self._writer.close()
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        path = self._directory / name
        os.replace(self._scratch, path)
        self._scratch = None
        place = self._directory
        while place != self._root:
            sync_directory(place)
            place = place.parent
        sync_directory(self._root)
        return path

    def abandon(self) -> None:
        """Remove the file unless it is finished."""
        if self._scratch is not None:
            with suppress(OSError):
                self._writer.close()
                self._stream.close()
            self._scratch.unlink(missing_ok=True)
