"""Pipelines and streams under twenty kill -9 at random moments: nothing lost, nothing twice.

Minutes long. Each test prints what was killed; `-s` shows it.
"""

from __future__ import annotations

import subprocess
import sys

import pyarrow.dataset as dataset
import pytest
from broker_process import BrokerProcess
from kills import PIPELINES, environment, pipeline, under_kills
from test_archive_writer import records
from topics import PARTITIONS, Topic

from pyspark_barnabas.jobs.archive_files import COLUMNS
from pyspark_barnabas.wire.protocol import LATEST

pytestmark = [pytest.mark.spark, pytest.mark.slow]
KINDS = ("driver", "jvm", "worker", "broker", "all")
KILLS = 20
# A JVM that lives for seconds is faster without its optimizing compiler.
LIGHT = ("--master", "local[2]", "--conf", "spark.driver.memory=600m", "--conf",
         "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # fmt: skip
RECORDS = 90_000


@pytest.fixture
def own(tmp_path):
    """A broker that may be killed."""
    settings = {"num.partitions": str(PARTITIONS), "log.retention.ms": "-1"}
    with BrokerProcess(tmp_path / "data", settings) as started:
        yield started


@pytest.fixture
def source(own):
    with Topic(own.address) as made:
        for first in range(0, RECORDS, 3000):
            several = records(3000, first)
            for partition in range(PARTITIONS):
                made.append(partition, several[partition::PARTITIONS], codec=first // 3000 % 5)
        yield made


def end(topic):
    """Return the sum of the end offsets, which is how much a stream has written."""
    partitions = [(topic.name, index) for index in range(PARTITIONS)]
    return sum(topic.cluster.list_offsets(dict.fromkeys(partitions, LATEST)).values())


def parquet(directory):
    table = dataset.dataset(directory, format="parquet", partitioning="hive").to_table()
    rows = zip(*(table[name].to_pylist() for name in COLUMNS), strict=True)
    return sorted(rows, key=lambda row: row[2:5])


def test_an_archive_under_kills_is_the_topic(own, source, tmp_path):
    to = tmp_path / "archive"
    command = pipeline(
        "archive", *LIGHT, "--bootstrap", own.address, "--topic", source.name,
        "--to", to, "--max-offsets", 1000,
    )  # fmt: skip

    def files():
        return sum(1 for _ in to.rglob("*.parquet"))

    done = under_kills(
        command, own, files, kills=KILLS, kinds=KINDS, seed=1, output=tmp_path / "output"
    )
    print(f"archive: {done}")
    assert parquet(to) == source.rows(COLUMNS)
    assert [path for path in to.rglob("*.tmp") if path.parent.name.startswith("partition=")] == []


COPIER = """
import sys
from pyspark.sql import SparkSession
address, source, target, directory = sys.argv[1:]
spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
         .config("spark.driver.memory", "600m")
         .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
         .getOrCreate())
query = (spark.readStream.format("barnabas").option("kafka.bootstrap.servers", address)
         .option("subscribe", source).option("startingOffsets", "earliest")
         .option("includeHeaders", "true").option("maxOffsetsPerTrigger", 1500).load()
         .select("key", "value", "headers", "timestamp", "partition")
         .writeStream.format("barnabas").option("kafka.bootstrap.servers", address)
         .option("kafka.batch.size", 4000)
         .option("topic", target).option("checkpointLocation", directory)
         .trigger(availableNow=True).start())
query.awaitTermination()
"""


def test_a_stream_into_a_topic_under_kills_leaves_no_duplicate(own, source, tmp_path):
    """The four conditions of docs/pyspark.md hold here, so there must be none."""
    script = tmp_path / "copier.py"
    script.write_text(COPIER)
    with Topic(own.address) as target:
        command = [sys.executable, str(script), own.address, source.name, target.name,
                   str(tmp_path / "checkpoint")]  # fmt: skip
        done = under_kills(
            command, own, lambda: end(target), kills=KILLS, kinds=KINDS, seed=2,
            output=tmp_path / "output",
        )  # fmt: skip
        kept = ("partition", "key", "value", "headers", "timestamp")
        before, after = source.rows(kept), target.rows(kept)
    print(f"sink: {done}, {len(after) - len(before)} duplicates")
    assert len(after) == len(before)
    assert after == before


def test_a_replay_under_kills_is_the_topic_again(own, source, tmp_path):
    to = tmp_path / "archive"
    where = [*LIGHT, "--bootstrap", own.address]
    subprocess.run(
        pipeline("archive", *where, "--topic", source.name, "--to", to),
        cwd=PIPELINES, env=environment(), check=True,
    )  # fmt: skip
    with Topic(own.address) as target:
        done = under_kills(
            pipeline("replay", to, *where, "--to", target.name, "--max-records", 1500),
            own, lambda: end(target), kills=KILLS // 2, kinds=KINDS, seed=3,
            output=tmp_path / "output",
        )  # fmt: skip
        kept = ("partition", "key", "value", "headers", "timestamp")
        before, after = source.rows(kept), target.rows(kept)
    print(f"replay: {done}, {len(after) - len(before)} duplicates")
    assert after == before
