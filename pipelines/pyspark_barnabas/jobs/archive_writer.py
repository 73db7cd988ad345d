"""A stream that writes what it reads into an archive, and gives Spark only what it has done.

`format("barnabas-archive-writer")` is the streaming source of a topic with another task: it plans
offsets, limits and micro-batches as `pyspark_barnabas.source.stream` does, and its tasks write
their range of offsets to Parquet where they read it. The records do not pass through the JVM, the
files keep the order of the log, and a task knows the range that was planned, after which it names
its file. Each task gives one row:

    topic string, partition int, start bigint, end bigint, records bigint, files int, bytes bigint

A task may run again, in part or whole, also beside another of its kind: the same range is the same
file with the same rows. That makes a write in a read harmless, whatever Spark repeats.

A task holds one row group of each open file, ROW_GROUP_BYTES of records together, and one fetch.
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
from pyspark_barnabas.source.reader import LogPartition, read_range, remade_since
from pyspark_barnabas.source.stream import WireStreamReader
from pyspark_barnabas.wire.cluster import Cluster
from pyspark_barnabas.wire.errors import BadOption, CorruptArchive, DataLost

MiB = 1024 * 1024
ROW_GROUP_BYTES: Final = 64 * MiB
DATES_MAX: Final = 400  # files that one task has open: more than a year of days
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
ELSEWHERE: Final = "Archive it into another directory"  # what to do about a topic made anew
_DAY_US: Final = 24 * 60 * 60 * 1_000_000


class ArchiveWriter(DataSource):
    """What Spark finds under the name, once it is registered."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "barnabas-archive-writer"

    def schema(self) -> str:
        """Return the columns of a task's one row."""
        return DONE

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """Return the stream; its options are those of the topic's, and `Target`'s."""
        return ArchiveStreamReader(self.options)


@dataclass(frozen=True)
class Target:
    """Where and how files are written."""

    root: Path
    by_date: bool
    codec: str

    def options(self) -> dict[str, str]:
        """Return itself as options of a stream."""
        return {
            "archive.directory": str(self.root),
            "archive.by.date": str(self.by_date).lower(),
            "archive.codec": self.codec,
        }


def target_of(given: Mapping[str, str]) -> Target:
    """Read what `Target.options` gave."""
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
class ArchiveStreamReader(WireStreamReader):
    """Plans as the stream of a topic does; a task writes its range."""

    def __init__(self, given: Mapping[str, str]) -> None:
        own = [name for name in given if name.lower().startswith(_OWN_OPTIONS)]
        super().__init__(COLUMNS, {name: given[name] for name in given if name not in own})
        self._target_files = target_of(given)
        self._is_checked = False

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """Return where the next batch ends; never before its start, whatever failOnDataLoss says.

        A topic that was made anew has the offsets of the old one a second time, and with them the
        names of its files.
        """
        found = super().latestOffset(start, limit)
        ends = from_json(found)
        for (topic, partition), offset in from_json(start or {}).items():
            if ends.get((topic, partition), offset) < offset:
                raise DataLost(
                    f"{topic}-{partition} ends at offset {ends[topic, partition]} and was archived "
                    f"up to {offset}: the topic was made anew. {ELSEWHERE}"
                )
        return found

    def lose_topic(self, what: str) -> None:
        """Raise DataLost, whatever failOnDataLoss says."""
        _require_same(what)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the ranges; the first time, check that they go on where the files end."""
        found = super().partitions(start, end)
        if not self._is_checked:
            ranges = [each.range for each in found if isinstance(each, LogPartition)]
            check_joins(self._target_files.root, ranges)
            self._is_checked = True
        return found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Write the range and yield the one row."""
        if isinstance(partition, LogPartition):  # for no partitions Spark makes one with nothing
            yield archive_range(self._options, self._target_files, partition)


def _require_same(what: str) -> None:
    """Raise DataLost with the words for a topic that was made anew, if there are any."""
    if what:
        raise DataLost(f"{what}. {ELSEWHERE}")


def check_joins(root: Path, ranges: Sequence[Range]) -> None:
    """Raise CorruptArchive if there are files, but none that ends where a range begins.

    A range that is there already is one of a micro-batch that is run again.
    """
    there = contents(root).pieces
    for part in ranges:
        found = there.get((part.topic, part.partition), [])
        if found and all(part.start not in (each.start, each.end) for each in found):
            where = partition_directory(root, part.topic, part.partition)
            raise CorruptArchive(
                f"{where}: the checkpoint goes on at offset {part.start}, but the files end at "
                f"{found[-1].end}. If files were removed on purpose, remove {root}/_checkpoint "
                "too: the archive then goes on where its files end"
            )


def archive_range(options: SourceOptions, target: Target, planned: LogPartition) -> Any:
    """Write one range's files, durably, and return the row that says so, a RecordBatch."""
    part = planned.range
    with _Files(target, part) as files:
        for table in read_range(options, COLUMNS, planned):
            files.add(table.select(FILE_COLUMNS))
        with Cluster(options.cluster) as cluster:
            _require_same(remade_since(cluster, planned))
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
    """The files of one range: one, or by date one for each day."""

    def __init__(self, target: Target, part: Range) -> None:
        self._target = target
        self._part = part
        self._directory = partition_directory(target.root, part.topic, part.partition)
        self._files: dict[str, _File] = {}
        self.record_count = 0

    def __enter__(self) -> _Files:
        """Nothing is made until there are records."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove what was not finished."""
        for file in self._files.values():
            file.abandon()

    def add(self, table: Any) -> None:
        """Take records, in the order of the log."""
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
        """Give the files their names, and take away what else an earlier run left of the range."""
        if not self._files:  # no record is visible in these offsets: the ranges join all the same
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
                    f"{self._part.partition} have records of more than {DATES_MAX} days: leave "
                    "out --by-date, or give a lower --max-offsets"
                )
            self._files[below] = _File(
                self._target.root, self._directory / below, self._target.codec
            )
        return self._files[below]

    def _flush_largest(self) -> None:
        """Hold the bound with many files open as with one."""
        while sum(file.size for file in self._files.values()) >= ROW_GROUP_BYTES:
            max(self._files.values(), key=lambda file: file.size).flush()


def _day(number: int) -> str:
    """Return the date of a day since 1970, in UTC; null for one that no calendar here has."""
    try:
        return (date(1970, 1, 1) + timedelta(days=number)).isoformat()
    except OverflowError:
        return NO_DATE


class _File:
    """One Parquet file under its hidden name, until it has its own."""

    def __init__(self, root: Path, directory: Path, codec: str) -> None:
        self._root = root
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._scratch: Path | None = directory / f".{uuid.uuid4().hex}.tmp"
        self._stream = self._scratch.open("wb")
        schema = pa.schema([(name, TYPES[name]) for name in FILE_COLUMNS])
        # Readers skip row groups by offset and time; statistics of keys and values are only weight.
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
        """Take records; write a row group when there are enough."""
        self._tables.append(table)
        self.size += table.nbytes
        if self.size >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what there is as a row group."""
        if self._tables:
            table = pa.Table.from_batches(self._tables)
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._tables, self.size = [], 0

    def finish(self, name: str) -> Path:
        """Flush to the disk, rename, and make the name durable."""
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
