"""`barnabas-pipeline archive` in a real session: to the end, again, following, and refused."""

from __future__ import annotations

import io
import json
import shutil
import threading
import time

import pyarrow.dataset as dataset
import pyarrow.parquet as pq
import pytest
from outcomes import outcome
from test_archive_writer import records

from pyspark_barnabas.jobs import cli
from pyspark_barnabas.jobs.archive_files import COLUMNS

pytestmark = pytest.mark.spark


@pytest.fixture
def archive(spark, topic, tmp_path):
    """Archive the topic; return (exit code, facts or the error's line)."""

    def call(*words, to=tmp_path / "archive", refused=False):
        stdout, stderr = io.StringIO(), io.StringIO()
        where = ["--bootstrap", topic.address, "--to", str(to), "--json", "--quiet"]
        if not {"--topic", "--pattern"} & set(words):
            where += ["--topic", topic.name]
        code = cli.main(["archive", *where, *words], spark=spark, stdout=stdout, stderr=stderr)
        return outcome(code, stdout, stderr, refused=refused)

    return call


def test_a_topic_created_again_is_refused_even_without_the_checkpoint(archive, topic, tmp_path):
    topic.append(0, records(10))
    assert archive()[0] == 0
    topic.recreate()
    topic.append(0, records(30))
    shutil.rmtree(tmp_path / "archive" / "_checkpoint")
    code, said = archive(refused=True)
    assert code == 1
    assert f"topic {topic.name} was deleted and created again" in said


def archived(directory):
    """Read it as any reader would: every Parquet file."""
    table = dataset.dataset(directory, format="parquet", partitioning="hive").to_table()
    rows = zip(*(table[name].to_pylist() for name in COLUMNS), strict=True)
    return sorted(rows, key=lambda row: row[2:5])


def test_an_archive_is_the_topic_and_goes_on_with_it(archive, spark, topic, tmp_path):
    for partition, count in enumerate([100, 40, 0]):
        if count:
            topic.append(partition, records(count), codec=partition)
    code, facts = archive()
    assert (code, facts["records"], facts["batches"]) == (0, 140, 1)
    assert facts["endingOffsets"] == {topic.name: {"0": 100, "1": 40}}
    directory = tmp_path / "archive"
    assert archived(directory) == topic.rows(COLUMNS)
    # Spark reads the same without a list of files, and nothing is written again.
    assert spark.read.parquet(str(directory)).groupBy("topic", "partition").count().count() == 2
    before = {path: path.stat().st_mtime_ns for path in directory.rglob("*.parquet")}
    assert archive()[1]["records"] == 0
    topic.append(2, records(7))
    topic.append(0, records(5, first=100))
    code, facts = archive()
    assert (facts["records"], facts["files"]) == (12, 2)
    assert archived(directory) == topic.rows(COLUMNS)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    (path,) = directory.rglob("partition=1/*.parquet")
    assert pq.ParquetFile(path).metadata.num_rows == 40


def test_limits_make_steps_and_dates_make_directories(archive, topic, tmp_path):
    topic.append(0, records(60, step_ms=60 * 60 * 1000))
    code, facts = archive("--by-date", "--max-offsets", "25", "--codec", "snappy")
    assert (code, facts["batches"], facts["records"]) == (0, 3, 60)
    assert len(list((tmp_path / "archive").rglob("date=2020-11-2*"))) == 3
    assert archived(tmp_path / "archive") == topic.rows(COLUMNS)
    code, text = archive(refused=True)
    assert (code, "was started with --by-date: run it so" in text) == (2, True)


@pytest.mark.thorough
def test_without_its_checkpoint_an_archive_goes_on_where_its_files_end(archive, topic, tmp_path):
    topic.append(0, records(50))
    topic.append(1, records(50))
    archive("--max-offsets", "20")
    directory = tmp_path / "archive"
    last = sorted(directory.rglob("partition=1/*.parquet"))[-1]
    last.unlink()
    topic.append(1, records(20, first=50))
    code, text = archive(refused=True)
    assert code == 1
    assert f"remove {directory}/_checkpoint too: the archive then continues where" in text
    shutil.rmtree(directory / "_checkpoint")
    code, facts = archive()
    assert facts["records"] == 30
    assert archived(directory) == topic.rows(COLUMNS)
    next(iter(sorted(directory.rglob("partition=0/*.parquet")))).rename(tmp_path / "away")
    assert archive()[0] == 0  # the rest begins later, and joins
    sorted(directory.rglob("partition=1/*.parquet"))[1].rename(tmp_path / "away")
    code, text = archive(refused=True)
    assert (code, "are missing: one file ends at" in text) == (1, True)


@pytest.mark.thorough
def test_an_archive_may_begin_later_and_of_several_topics(archive, topic, broker, tmp_path):
    from topics import Topic

    with Topic(broker.address) as other:
        topic.append(0, records(30))
        other.append(2, records(5))
        starting = {topic.name: {"0": 10, "1": -2, "2": -2}, other.name: dict.fromkeys("012", -2)}
        names = f"{topic.name},{other.name}"
        option = f"startingOffsets={json.dumps(starting)}"
        code, facts = archive("--topic", names, "--option", option)
        assert (code, facts["records"]) == (0, 25)
        assert facts["startingOffsets"] == {topic.name: {"0": 10}, other.name: {"2": 0}}
        found = {(row[2], row[4]) for row in archived(tmp_path / "archive")}
        assert found == {(topic.name, n) for n in range(10, 30)} | {
            (other.name, n) for n in range(5)
        }


def test_following_ends_when_it_is_told_to(archive, spark, topic, tmp_path):
    topic.append(0, records(10))

    def later():
        deadline = time.monotonic() + 600
        while not list((tmp_path / "archive").rglob("*.parquet")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        topic.append(0, records(10, first=10))
        while len(list((tmp_path / "archive").rglob("*.parquet"))) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.2)
        for query in spark.streams.active:
            query.stop()

    thread = threading.Thread(target=later)
    thread.start()
    code, facts = archive("--follow", "--interval", "1")
    thread.join()
    assert (code, facts["records"]) == (0, 20)
    assert archived(tmp_path / "archive") == topic.rows(COLUMNS)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--topic", "nowhere"], 1, "there is no nowhere on this cluster"),
        (["--pattern", "nothing-.*"], 1, "no topic of this cluster matches --pattern"),
        (["--to", "s3://bucket/a"], 2, "s3://bucket/a, expected a path"),
        (["--max-offsets", "0"], 2, "--max-offsets is 0, expected at least 1"),
        (["--option", "startingOffsets=never"], 2, "startingOffsets is 'never', which is not JSON"),
    ],
)
def test_what_is_refused(archive, words, code, said):
    found, text = archive(*words, refused=True)
    assert (found, said in text) == (code, True), text


def test_a_directory_with_other_things_is_refused(archive, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").touch()
    code, text = archive(to=tmp_path / "other", refused=True)
    assert (code, "holds thesis.txt and no _archive.json" in text) == (2, True)
