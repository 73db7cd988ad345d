"""A Spark session that writes only to its log, the end of a query, and the summary."""

from __future__ import annotations

import argparse
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from pyspark_barnabas.jobs.progress import Progress
from pyspark_barnabas.jobs.session import (
    Run,
    _uninterrupted,
    bytes_text,
    finish,
    plural,
    table,
)
from pyspark_barnabas.wire.errors import DataLost, RunCut

PIPELINES = Path(__file__).parents[1]


def test_a_session_that_is_given_is_used_and_left():
    class Session:
        stopped = False

        def stop(self):
            self.stopped = True

    given = Session()
    run = Run(argparse.Namespace(), Progress(io.StringIO()), given)
    assert run.spark is given
    run.close()
    assert not given.stopped


STARTED = """
import argparse, os, sys
from pyspark_barnabas.jobs.progress import Progress
from pyspark_barnabas.jobs.arguments import add_common_arguments
from pyspark_barnabas.jobs.session import Run
parser = argparse.ArgumentParser()
add_common_arguments(parser)
arguments = parser.parse_args(sys.argv[1:])
arguments.pipeline = "x"
run = Run(arguments, Progress(sys.stderr))
conf = run.spark.sparkContext.getConf()
sys.stdout.write(f"{conf.get('spark.master')} {conf.get('spark.test')}")
assert not run.log_path
run.keep_log()
assert "log4j" in open(run.log_path).read()
os.unlink(run.log_path)
run.close()
"""


@pytest.mark.spark
def test_a_session_of_its_own_has_its_settings_and_nothing_of_the_jvm_reaches_the_output():
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK_")}
    done = subprocess.run(
        [sys.executable, "-c", STARTED, "--master", "local[1]", "--conf", "spark.test=7",
         "--conf", "spark.driver.memory=500m"],
        env=environment | {"PYTHONPATH": str(PIPELINES)},
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("local[1] 7", "")


def test_an_interrupt_waits_until_spark_has_started():
    started, before = [], signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), _uninterrupted():
        started.append(os.kill(os.getpid(), signal.SIGINT))
    assert started
    assert signal.getsignal(signal.SIGINT) is before


class Query:
    """Runs for two looks, then ends or raises."""

    def __init__(self, error=None):
        self.error = error
        self.looks = 0
        self.is_stopped = False

    def awaitTermination(self, _seconds):
        if self.looks == 2 and self.error is not None:
            raise self.error
        return self.looks == 2

    def look(self):
        self.looks += 1

    def stop(self):
        self.is_stopped = True
        raise Py4JNetworkError("gone")


def test_a_query_is_looked_at_until_its_end():
    query = Query()
    finish(query, query.look)
    assert (query.looks, query.is_stopped) == (3, True)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("… SparkException: Python worker exited unexpectedly (crashed) …"),
         "a Python worker was lost: .* run the command again"),
        (RuntimeError("ExecutorLostFailure (executor 1 exited …)"), "an executor was lost"),
        (Py4JNetworkError("Error while sending"), "Spark's JVM was lost"),
        (Py4JError("An error occurred while calling o59.awaitTermination"), "Spark's JVM was"),
        (ConnectionRefusedError(111, "Connection refused"), "Spark's JVM was lost"),
    ],
)  # fmt: skip
def test_a_lost_part_is_named(error, words):
    query = Query(error)
    with pytest.raises(RunCut, match=words):
        finish(query, query.look)
    assert query.is_stopped


@pytest.mark.parametrize("error", [DataLost("expired"), RuntimeError("else"), KeyboardInterrupt()])
def test_other_errors_are_left_as_they_are(error):
    query = Query(error)
    with pytest.raises(type(error)):
        finish(query, query.look)
    assert query.is_stopped


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (3 << 40, "3.0 TiB"),
        (5 << 60, "5120.0 PiB"),
    ],
)
def test_bytes_have_a_unit(count, text):
    assert bytes_text(count) == text


def test_one_file_two_batches():
    assert [plural(1, "file"), plural(2000, "batch")] == ["1 file", "2,000 batches"]


def test_numbers_stand_to_the_right_and_nothing_is_blank():
    rows = [("a", 1000, 0.5, None), ("long", 2, 12.346, None)]
    assert table(["name", "n", "share", "x"], rows) == [
        "name      n  share  x",
        "a     1,000   0.50",
        "long      2  12.35",
    ]
    assert table(["a"], []) == ["a"]
