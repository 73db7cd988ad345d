"""kill -9 of driver, tasks and broker of a query with exactlyOnce, each micro-batch once and whole.

Without Spark (`query_process`), so that dozens of kills take a minute; `test_kills` has Spark.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial

import pytest
from broker_process import BrokerProcess
from driver_runs import Run, open_ones
from kills import descendants, environment
from query_process import GAVE_UP, a_checkpoint, complete, rows
from topics import PARTITIONS, Topic

from pyspark_barnabas.wire.protocol import LATEST

KINDS = ("driver", "driver", "task", "broker", "all")
PATIENCE_S = 240
STEP_S = 0.02


class Query:
    """The processes of a query, started again when they have died or given up."""

    def __init__(self, topic, checkpoint, output):
        program = os.path.join(os.path.dirname(__file__), "query_process.py")
        self._command = [sys.executable, program, topic.address, topic.name, str(checkpoint)]
        self._output = output
        self._process = None
        self._everyone = set()
        self.starts = 0

    def run(self):
        """Start it unless it runs; AssertionError if it ended by itself."""
        if self._process is not None and self._process.poll() is None:
            return
        if self._process is not None:
            allowed = (-signal.SIGKILL, GAVE_UP)
            assert self._process.returncode in allowed, self._output.read_text()[-3000:]
        self.starts += 1
        with self._output.open("ab") as written:
            self._process = subprocess.Popen(
                self._command, env=environment(), stdin=subprocess.DEVNULL,
                stdout=written, stderr=written,
            )  # fmt: skip

    def await_change(self, progress):
        """Run until a number changes."""
        before, deadline = progress(), time.monotonic() + PATIENCE_S
        while progress() == before:
            self.run()
            assert time.monotonic() < deadline, self._output.read_text()[-3000:]
            time.sleep(0.005)

    def kill(self, kind, dice):
        """Kill the driver, one task, or all processes; tasks outlive their driver."""
        tasks = [pid for pid, line in descendants(self._process.pid) if "query_process" in line]
        self._everyone |= set(tasks)
        if kind == "task":
            chosen = [dice.choice(tasks)] if tasks else []
        else:
            chosen = [self._process.pid, *(tasks if kind == "all" else ())]
        for pid in chosen:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if kind != "task":
            self._process.wait(PATIENCE_S)

    def finish(self):
        """Wait for its end; start it again until that is one by itself."""
        deadline = time.monotonic() + PATIENCE_S
        while self._process.poll() != 0:
            assert time.monotonic() < deadline
            self.run()
            time.sleep(STEP_S)

    def await_tasks(self):
        """Wait until the tasks of drivers that were killed have ended."""
        deadline = time.monotonic() + PATIENCE_S
        while any(os.path.exists(f"/proc/{pid}") for pid in self._everyone):
            assert time.monotonic() < deadline, self._everyone
            time.sleep(STEP_S)


def noted(checkpoint):
    """Return how many micro-batches are complete."""
    return len(list(checkpoint.iterdir()))


def decided(topic):
    """Return a number that grows when a decision is written: before it is committed, and after."""
    at = (f"decisions-{topic.name}", 0)
    return topic.cluster.list_offsets({at: LATEST})[at]


@pytest.mark.thorough
@pytest.mark.parametrize("kills", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_each_micro_batch_is_there_once_and_whole(tmp_path, kills):
    dice = random.Random(kills)
    kinds = [KINDS[number % len(KINDS)] for number in range(kills)]
    dice.shuffle(kinds)
    checkpoint = a_checkpoint(tmp_path)
    settings = {"num.partitions": str(PARTITIONS)}
    with BrokerProcess(tmp_path / "data", settings) as broker, Topic(broker.address) as topic:
        query = Query(topic, checkpoint, tmp_path / "output")
        for number, kind in enumerate(kinds):
            progress = partial(decided, topic) if number % 2 else partial(noted, checkpoint)
            query.await_change(progress)
            time.sleep(dice.uniform(0, 0.05 if number % 2 else 0.5))
            if kind == "broker":
                broker.kill()
                broker.start()
            else:
                query.kill(kind, dice)
        query.await_tasks()
        query.await_change(partial(noted, checkpoint))  # its first commit aborts what they left
        (checkpoint / "enough").touch()
        query.finish()
        committed = topic.rows(("value",), kafka_isolation_level="read_committed")
        aborted = len(topic.rows(("value",))) - len(committed)
        written = complete(value for (value,) in committed)
        print(f"{Counter(kinds)}, {query.starts} starts, {written} batches, {aborted} rows aborted")
        assert written == len(list(checkpoint.glob("done-*")))
        assert open_ones(Run(topic, checkpoint.name)) == []


def test_the_judge_finds_what_is_missing_twice_or_mixed():
    values = [
        row["value"].encode() for batch in range(2) for task in range(3)
        for row in rows(batch, task, "r")
    ]  # fmt: skip
    assert complete(values) == 2
    mixed = [*values[:-1], values[-1][:-1] + b"s"]
    for wrong in (values[1:], [*values, values[0]], values[-1:], mixed):
        with pytest.raises(AssertionError):
            complete(wrong)
