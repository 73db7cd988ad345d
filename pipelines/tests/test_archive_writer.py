"""A range of a topic as files: rows, names, and what a killed run leaves."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pyarrow.parquet as pq
import pytest

from pyspark_barnabas.jobs import archive_writer
from pyspark_barnabas.jobs.archive_files import FILE_COLUMNS, contents, partition_directory
from pyspark_barnabas.jobs.archive_writer import (
    ArchivingStream,
    Target,
    archive_range,
    check_joins,
    target_of,
)
from pyspark_barnabas.offsets import Range
from pyspark_barnabas.options import source_options
from pyspark_barnabas.source.reader import LogPartition
from pyspark_barnabas.wire.encode import Record
from pyspark_barnabas.wire.errors import BadOption, CorruptArchive, DataLost

DAY_MS = 24 * 60 * 60 * 1000
NOON_MS = int(datetime(2020, 11, 22, 12, tzinfo=UTC).timestamp() * 1000)


def records(count, first=0, step_ms=1):
    return [
        Record(
            None if number % 5 == 0 else b"k%d" % number,
            None if number % 7 == 0 else b"v%d" % number,
            NOON_MS + number * step_ms,
            [("h", b"%d" % number), ("n", None)] if number % 3 == 0 else (),
        )
        for number in range(first, first + count)
    ]


def archived(topic, target, start, end, partition=1):
    options = source_options(topic.options(), streaming=True)
    (row,) = archive_range(
        options, target, LogPartition(Range(topic.name, partition, start, end))
    ).to_pylist()
    return row


def rows(directory):
    found = []
    for path in directory.rglob("*.parquet"):
        found += pq.ParquetFile(path).read().to_pylist()
    return sorted(found, key=lambda row: row["offset"])


def names(directory):
    return sorted(
        path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()
    )


def test_a_range_is_a_file_with_its_rows(topic, tmp_path):
    topic.append(1, records(100), codec=1)
    done = archived(topic, Target(tmp_path, False, "zstd"), 10, 60)
    place = partition_directory(tmp_path, topic.name, 1)
    assert names(place) == [f"{10:020}-{60:020}.parquet"]
    assert {name: done[name] for name in ("partition", "start", "end", "records", "files")} == {
        "partition": 1, "start": 10, "end": 60, "records": 50, "files": 1,
    }  # fmt: skip
    assert done["bytes"] == (place / names(place)[0]).stat().st_size
    columns = FILE_COLUMNS
    expected = [row for row in topic.rows(columns) if 10 <= row[2] < 60]
    assert [tuple(row[name] for name in columns) for row in rows(place)] == expected
    assert rows(place)[5]["headers"] == [{"key": "h", "value": b"15"}, {"key": "n", "value": None}]


def test_a_range_that_is_written_again_is_the_same_file(topic, tmp_path):
    topic.append(1, records(50))
    target = Target(tmp_path, False, "none")
    archived(topic, target, 0, 50)
    (path,) = tmp_path.rglob("*.parquet")
    before = path.read_bytes()
    path.write_bytes(b"half")
    archived(topic, target, 0, 50)
    assert path.read_bytes() == before
    assert names(tmp_path) == [path.relative_to(tmp_path).as_posix()]


def test_many_row_groups_are_one_file(topic, tmp_path, monkeypatch):
    monkeypatch.setattr(archive_writer, "ROW_GROUP_BYTES", 1000)
    for first in range(0, 300, 100):
        topic.append(1, records(100, first))
    archived(topic, Target(tmp_path, False, "snappy"), 0, 300)
    (path,) = tmp_path.rglob("*.parquet")
    assert pq.ParquetFile(path).num_row_groups > 0
    assert [row["offset"] for row in rows(tmp_path)] == list(range(300))


def test_by_date_each_day_has_its_file(topic, tmp_path):
    topic.append(1, records(8, step_ms=DAY_MS // 2))
    target = Target(tmp_path, True, "zstd")
    assert archived(topic, target, 0, 8)["files"] == 5
    place = partition_directory(tmp_path, topic.name, 1)
    days = [date(2020, 11, 22 + number).isoformat() for number in range(5)]
    span = f"{0:020}-{8:020}"
    assert names(place) == [f"date={day}/{span}.{n}of5.parquet" for n, day in enumerate(days, 1)]
    assert [row["offset"] for row in rows(place)] == list(range(8))
    # An earlier run, when the log held more, may have left files of the same range.
    stray = place / f"date={days[0]}" / f"{span}.1of6.parquet"
    stray.touch()
    archived(topic, target, 0, 8)
    assert not stray.exists()
    assert len(names(place)) == 5


def test_by_date_a_year_of_files_at_most(topic, tmp_path):
    topic.append(1, records(450, step_ms=DAY_MS))
    with pytest.raises(BadOption, match=r"records of more than 400 days: omit --by-date"):
        archived(topic, Target(tmp_path, True, "zstd"), 0, 450)
    assert names(tmp_path) == []
    topic.append(2, [Record(b"k", b"v", -800_000 * DAY_MS) for _ in range(3)])
    archived(topic, Target(tmp_path, True, "zstd"), 0, 3, partition=2)
    assert "date=__HIVE_DEFAULT_PARTITION__" in names(tmp_path)[0]


@pytest.mark.parametrize("by_date", [False, True])
def test_a_range_without_records_is_a_file_too(topic, tmp_path, by_date, monkeypatch):
    monkeypatch.setattr(archive_writer, "read_range", lambda *_: iter(()))
    assert archived(topic, Target(tmp_path, by_date, "zstd"), 0, 3)["records"] == 0
    assert contents(tmp_path).ends() == {(topic.name, 1): 3}
    assert rows(tmp_path) == []


def test_an_error_leaves_nothing_half_written(topic, tmp_path, monkeypatch):
    topic.append(1, records(10))
    real = archive_writer.read_range

    def breaks(*arguments):
        yield from real(*arguments)
        raise DataLost("gone")

    monkeypatch.setattr(archive_writer, "read_range", breaks)
    with pytest.raises(DataLost):
        archived(topic, Target(tmp_path, False, "zstd"), 0, 10)
    assert names(tmp_path) == []


def test_a_range_must_go_on_where_the_files_end(topic, tmp_path):
    topic.append(1, records(30))
    target = Target(tmp_path, False, "zstd")
    archived(topic, target, 0, 10)
    for start in (0, 10):
        check_joins(tmp_path, [Range(topic.name, 1, start, 30)])
    check_joins(tmp_path, [Range(topic.name, 2, 5, 30)])
    with pytest.raises(CorruptArchive, match=r"continues at offset 20, but the files end at 10"):
        check_joins(tmp_path, [Range(topic.name, 1, 20, 30)])


def test_the_stream_plans_ranges_and_never_goes_back(topic, tmp_path):
    topic.append(1, records(30))
    target = Target(tmp_path, True, "lz4")
    given = topic.options(startingOffsets="earliest", failOnDataLoss="false") | target.options()
    assert target_of(given) == target
    reader = ArchivingStream(given)
    start = {topic.name: {"0": 0, "1": 5, "2": 0}}
    end = reader.latestOffset(start)
    (partition,) = reader.partitions(start, end)
    assert (partition.range.start, partition.range.end) == (5, 30)
    (row,) = next(reader.read(partition)).to_pylist()
    assert row["records"] == 25
    with pytest.raises(DataLost, match=r"ends at offset 30 and was archived up to 99"):
        reader.latestOffset({topic.name: {"0": 0, "1": 99, "2": 0}})
    reader.stop()


def test_a_topic_created_again_is_never_archived_into_the_same_directory(topic, tmp_path):
    """Neither planned from the old offsets, nor read by a task that was planned before."""
    topic.append(1, records(30))
    target = Target(tmp_path, False, "zstd")
    given = topic.options(startingOffsets="earliest", failOnDataLoss="false") | target.options()
    reader = ArchivingStream(given)
    start = reader.initialOffset()
    end = reader.latestOffset(start)
    (partition,) = reader.partitions(start, end)
    topic.recreate()
    topic.append(1, records(40))
    for attempt in (lambda: reader.latestOffset(end), lambda: list(reader.read(partition))):
        with pytest.raises(
            DataLost, match=r"created again: its id was .* Archive it into another dir"
        ):
            attempt()
    reader.stop()
    assert names(tmp_path) == []
    reader.stop()
    with pytest.raises(BadOption, match=r"archive.directory is missing"):
        ArchivingStream(topic.options())
