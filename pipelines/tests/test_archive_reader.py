"""An archive read back: the same rows in the same order, for any range and any files."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_archive_writer import DAY_MS, archived, records

from pyspark_barnabas.columns import arrow_schema
from pyspark_barnabas.jobs import archive_reader, archive_writer
from pyspark_barnabas.jobs.archive_files import COLUMNS
from pyspark_barnabas.jobs.archive_reader import ArchiveStream, listed, read_archived
from pyspark_barnabas.jobs.archive_writer import Target
from pyspark_barnabas.offsets import Range, from_json
from pyspark_barnabas.wire.errors import BadOption, CorruptArchive


class Limit:
    max_rows = 10


def read(root, topic, start, end, partition=1):
    found = []
    for table in read_archived(root, Range(topic.name, partition, start, end)):
        assert table.schema.equals(arrow_schema(COLUMNS))
        found += table.to_pylist()
    return [tuple(row[name] for name in COLUMNS) for row in found]


@pytest.mark.parametrize("by_date", [False, True])
def test_a_range_read_is_what_the_topic_has(topic, tmp_path, by_date, monkeypatch):
    """Also if it begins and ends within files, row groups and days."""
    monkeypatch.setattr(archive_writer, "ROW_GROUP_BYTES", 2000)
    monkeypatch.setattr(archive_reader, "_ROWS_MAX", 7)
    # Timestamps go back and forth, so by date each range alternates between days.
    made = [record._replace(timestamp=record.timestamp + number * 37 % 5 * DAY_MS)
            for number, record in enumerate(records(200))]  # fmt: skip
    for first in range(0, 200, 50):
        topic.append(1, made[first : first + 50])
    for start, end in [(0, 80), (80, 90), (90, 200)]:
        archived(topic, Target(tmp_path, by_date, "zstd"), start, end)
    expected = topic.rows(COLUMNS)
    assert read(tmp_path, topic, 0, 200) == expected
    for start, end in [(0, 1), (79, 91), (85, 86), (33, 170), (199, 200)]:
        assert read(tmp_path, topic, start, end) == expected[start:end]
    for range_, partition in [((0, 5), 0), ((150, 210), 1)]:
        with pytest.raises(CorruptArchive, match=r"lacks files for offsets .*mounted"):
            read(tmp_path, topic, *range_, partition=partition)


def test_the_stream_goes_over_the_offsets_of_the_archive(topic, tmp_path):
    for partition, count in [(0, 5), (1, 30)]:
        topic.append(partition, records(count))
        archived(topic, Target(tmp_path, False, "zstd"), 2, count, partition=partition)
    given = {"archive.directory": str(tmp_path)}
    stream = ArchiveStream(given | {"maxOffsetsPerTrigger": "10"})
    start = stream.initialOffset()
    assert start == {topic.name: {"0": 2, "1": 2}}
    assert stream.latestOffset() == {topic.name: {"0": 5, "1": 30}}
    read_count = 0
    while (end := stream.latestOffset(start, Limit())) != start:
        for partition in stream.partitions(start, end):
            read_count += sum(table.num_rows for table in stream.read(partition))
        start = end
    assert from_json(start) == {(topic.name, 0): 5, (topic.name, 1): 30}
    assert read_count == 31
    assert stream.partitions(start, start) == []
    with pytest.raises(BadOption, match=rf"has no other; it holds {topic.name}"):
        listed(tmp_path, frozenset(["other"]))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path, table: path.write_bytes(b"PAR1 no more PAR1"), r"\.parquet: .*Restore the f"),
        (lambda path, table: pq.write_table(table.drop(["key"]), path), r"its columns are value "),
        (lambda path, table: pq.write_table(table.slice(5).slice(0, 3).append_column(
            "x", pa.nulls(3)), path), r"not an archive's"),
        (lambda path, table: pq.write_table(pa.concat_tables([table, table]), path),
         r"its offsets do not ascend"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_what_was_written(topic, tmp_path, spoil, words):
    topic.append(1, records(20))
    archived(topic, Target(tmp_path, False, "zstd"), 0, 20)
    (path,) = tmp_path.rglob("*.parquet")
    spoil(path, pq.ParquetFile(path).read())
    with pytest.raises(CorruptArchive, match=words):
        read(tmp_path, topic, 0, 20)
