"""Which source a run reads, and a Spark session that speaks to nobody but its log."""

from __future__ import annotations

import argparse
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_barnabas.jobs.progress import Progress
from pyspark_barnabas.jobs.session import (
    BOOTSTRAP,
    Run,
    _uninterrupted,
    add_common_arguments,
    add_source_arguments,
    assignment,
    source_options,
)
from pyspark_barnabas.wire.errors import BadOption

PIPELINES = Path(__file__).parents[1]


def parse(*words):
    parser = argparse.ArgumentParser()
    add_source_arguments(parser)
    add_common_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    ("words", "environment", "options"),
    [
        (["--topic", "a,b"], {},
         {"kafka.bootstrap.servers": BOOTSTRAP, "subscribe": "a,b"}),
        (["--pattern", "a.*"], {"BARNABAS_BOOTSTRAP": "h:1"},
         {"kafka.bootstrap.servers": "h:1", "subscribePattern": "a.*"}),
        (["--topic", "a", "--bootstrap", "g:2"], {"BARNABAS_BOOTSTRAP": "h:1"},
         {"kafka.bootstrap.servers": "g:2", "subscribe": "a"}),
        (["--path", "data", "--topic", "a", "--option", "startingOffsets=earliest"], {},
         {"path": "data", "subscribe": "a", "startingOffsets": "earliest"}),
        (["--option", 'assign={"a":[0]}'], {},
         {"kafka.bootstrap.servers": BOOTSTRAP, "assign": '{"a":[0]}'}),
    ],
)  # fmt: skip
def test_arguments_become_options_of_the_format(words, environment, options):
    assert source_options(parse(*words), environment) == options


def test_a_topic_must_be_named_and_only_one_place():
    with pytest.raises(BadOption, match="no topic is named: give --topic NAME"):
        source_options(parse(), {})
    for words in (["--path", "x", "--bootstrap", "y"], ["--topic", "x", "--pattern", "y"]):
        with pytest.raises(SystemExit):
            parse(*words)
    with pytest.raises(argparse.ArgumentTypeError, match="'x' is not of the form KEY=VALUE"):
        assignment("x")


def test_a_session_that_is_given_is_used_and_left():
    class Session:
        stopped = False

        def stop(self):
            self.stopped = True

    given = Session()
    run = Run(parse(), Progress(io.StringIO()), given)
    assert run.spark is given
    run.close()
    assert not given.stopped


STARTED = """
import argparse, os, sys
from pyspark_barnabas.jobs.progress import Progress
from pyspark_barnabas.jobs.session import Run, add_common_arguments
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
