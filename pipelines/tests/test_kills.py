"""Pipelines and streams under twenty kill -9 at random moments: nothing lost, nothing twice.

Minutes long. Each test prints what was killed; `-s` shows it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pyarrow.dataset as dataset
import pytest
from broker_process import BrokerProcess
from driver_runs import STEPS
from kills import PIPELINES, environment, kill, pipeline, start, under_kills, victims
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
STARTS_MAX = 5


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
address, source, target, directory, exactly_once = sys.argv[1:]
spark = (SparkSession.builder.master("local[2, 4]").config("spark.ui.enabled", "false")
         .config("spark.driver.memory", "600m")
         .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
         .getOrCreate())
query = (spark.readStream.format("barnabas").option("kafka.bootstrap.servers", address)
         .option("subscribe", source).option("startingOffsets", "earliest")
         .option("includeHeaders", "true").option("maxOffsetsPerTrigger", 1500).load()
         .select("key", "value", "headers", "timestamp", "partition")
         .writeStream.format("barnabas").option("kafka.bootstrap.servers", address)
         .option("kafka.batch.size", 4000)
         .option("exactlyOnce", exactly_once)
         .option("topic", target).option("checkpointLocation", directory)
         .trigger(availableNow=True).start())
query.awaitTermination()
"""


def copier(tmp_path, address, source, target, exactly_once):
    script = tmp_path / "copier.py"
    script.write_text(COPIER)
    names = [source.name, target.name, str(tmp_path / "checkpoint"), str(exactly_once).lower()]
    return [sys.executable, str(script), address, *names]


KEPT = ("partition", "key", "value", "headers", "timestamp")
COMMITTED = {"kafka_isolation_level": "read_committed"}


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_stream_into_a_topic_under_kills_leaves_no_duplicate(own, source, tmp_path, exactly_once):
    """The four conditions of docs/pyspark.md hold here, so there must be none."""
    with Topic(own.address) as target:
        command = copier(tmp_path, own.address, source, target, exactly_once)
        done = under_kills(
            command, own, lambda: end(target), kills=KILLS, kinds=KINDS, seed=2,
            output=tmp_path / "output",
        )  # fmt: skip
        before, after = source.rows(KEPT), target.rows(KEPT, **(COMMITTED if exactly_once else {}))
    print(f"sink: {done}, {len(after) - len(before)} duplicates")
    assert len(after) == len(before)
    assert after == before


# Each Python process of Spark runs this at its start; that of the sink's commits stops at a step.
STOP = """
import os, sys, time
if "python_streaming_sink_runner" in " ".join(sys.orig_argv):
    from pathlib import Path
    import driver_runs

    def stop():
        Path(os.environ["CUT_REACHED"]).touch()
        time.sleep(600)

    setattr(*driver_runs.cut_by(stop, os.environ["CUT_STEP"]))
"""


def stop_at_step(command, reached, output):
    """Run a command until its driver has reached a step, and kill all of it there."""
    for _ in range(STARTS_MAX):  # on a busy machine, Spark may fail by itself
        process = start(command, output)
        try:
            while process.poll() is None:
                if reached.exists():
                    return
                time.sleep(0.05)
        finally:
            if process.poll() is None:
                kill(victims(process.pid, "all"))
                process.wait(60)
    raise AssertionError(f"it did not reach the step: {output.read_text()[-3000:]}")


def test_a_driver_killed_at_each_step_of_a_commit_leaves_no_duplicate(
    own, source, tmp_path, monkeypatch
):
    site, reached = tmp_path / "site", tmp_path / "reached"
    site.mkdir()
    (site / "sitecustomize.py").write_text(STOP)
    plain = os.environ.get("PYTHONPATH", "")
    paths = [str(site), str(PIPELINES / "tests"), plain]
    monkeypatch.setenv("CUT_REACHED", str(reached))
    with Topic(own.address) as target:
        command = copier(tmp_path, own.address, source, target, exactly_once=True)
        for step in STEPS:
            monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
            monkeypatch.setenv("CUT_STEP", step)
            reached.unlink(missing_ok=True)
            stop_at_step(command, reached, tmp_path / "output")
        monkeypatch.setenv("PYTHONPATH", plain)
        assert 0 in (start(command, tmp_path / "output").wait(1200) for _ in range(STARTS_MAX))
        before, after = source.rows(KEPT), target.rows(KEPT, **COMMITTED)
        everything = target.rows(KEPT)
    print(f"{len(STEPS)} kills, {len(everything) - len(after)} rows aborted")
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
