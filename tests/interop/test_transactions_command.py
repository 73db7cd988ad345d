"""Each job of `kafka-transactions.sh`, on Apache Kafka 4.3 and on Barnabas.

Both brokers get the same transactions, and the tool is asked the same of both. What it prints must
be the same, once producer ids have been replaced by names, and times by a word; where Barnabas is
meant to do something else, the test says so. The last test has a Kafka leave a hanging transaction
behind, which no Barnabas would: both find it in a copy of the directory, and the tool ends it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from client.kafka.connection import Connection
from tests.interop.group_requests import State
from tests.interop.java_process import compiled
from tests.interop.oracle.kafka import KafkaNode, libs
from tests.interop.transaction_brokers import (
    SETTINGS,
    kafka_with_transactions,
    ours_with_transactions,
    ready,
)
from tests.interop.transaction_requests import TIMEOUT_S, until
from tests.interop.transactor import Transactor
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.interop

TOOL = "org.apache.kafka.tools.TransactionsCommand"
TIMES = (
    *("LastTimestamp", "CurrentTransactionStartTimeMs", "TransactionDurationMs"),
    *("Duration(min)", "Duration (min)"),
)
MEASURED = re.compile(r"[\d-]+T[\d:.]+Z|(?<=Ms=)\d+")
# Kafka's admin client gives up a call in one of two ways, depending on where it waits just then.
GIVEN_UP = re.compile(r"Timed out waiting for a node assignment.*|Call\(.* timed out at .*")
DONE = {"committed": "commit", "aborted": "abort"}
GHOST_ID = 4711  # a producer id that no coordinator has given out


class Side(NamedTuple):
    """A broker, its transactions by name, and a process of the tool."""

    state: State
    left: dict[str, Transactor]
    tool: subprocess.Popen[str]

    def run(self, arguments: str) -> list[str]:
        """Run the tool: its lines, with names for what differs from broker to broker."""
        ids = {name: one.producer_id for name, one in self.left.items()}
        pids = {f"pid-{name}": pid for name, pid in ids.items()}
        given = re.sub(r"\bpid-\w+", lambda found: str(pids[found[0]]), arguments)
        assert self.tool.stdin is not None
        assert self.tool.stdout is not None
        address = self.state.connection.address
        self.tool.stdin.write(f"--bootstrap-server {address} {given}\n")
        self.tool.stdin.flush()
        lines: list[str] = []
        while not lines or not lines[-1].startswith("exit code "):
            line = self.tool.stdout.readline()
            assert line, lines
            lines.append(line.rstrip("\n"))
        names = {str(pid): name for name, pid in pids.items()}
        return named(lines, {str(GHOST_ID): "GHOST", **names})


def named(lines: list[str], names: dict[str, str]) -> list[str]:
    """Replace what differs in the columns of a table, and sort its rows."""
    titles = [title.strip() for title in lines[0].split("\t")]
    if len(titles) == 1:
        return [MEASURED.sub("SOME", GIVEN_UP.sub("given up", line)) for line in lines]
    rows = []
    for line in lines[1:-1]:
        cells = dict(zip(titles, (cell.strip() for cell in line.split("\t")), strict=True))
        cells["ProducerId"] = names.get(cells["ProducerId"], "pid-other")
        for title in {*TIMES} & {*cells}:
            cells[title] = re.sub(r"\d+", "TIME", cells[title])
        if "TopicPartitions" in cells:
            cells["TopicPartitions"] = ",".join(sorted(cells["TopicPartitions"].split(",")))
        rows.append(" ".join(cells.values()))
    return [" ".join(titles), *sorted(rows), lines[-1]]


@contextmanager
def tool_for(state: State, left: dict[str, Transactor], classes: Path) -> Iterator[Side]:
    """Start a process of the tool."""
    process = subprocess.Popen(
        [*compiled("Tool", classes), TOOL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield Side(state, left, process)
        assert process.stdin is not None
        process.stdin.close()


def leave(state: State) -> dict[str, Transactor]:
    """Leave an id, transactions that are done, and open ones."""
    names = ("idle", "committed", "aborted", "open", "opened", "torn")
    left = {name: Transactor.create(state, name) for name in names}
    for name, t in left.items():
        assert t.init() == "e+0"
        if name == "idle":
            continue
        assert [t.produce(), t.produce(partition=1)] == [("NONE", 0), ("NONE", 0)]
        assert t.commit_offset() == "NONE"
        if name in DONE:
            assert t.end(DONE[name]) == "e+1"
            t.rest()
    return left


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    classes = tmp_path_factory.mktemp("classes")
    with ExitStack() as ends:
        found = []
        for start in (kafka_with_transactions, ours_with_transactions):
            state = ends.enter_context(start(tmp_path_factory.mktemp("broker")))
            found.append(ends.enter_context(tool_for(state, leave(state), classes)))
        yield found[0], found[1]


OPEN = "--max-transaction-timeout 0"
STEPS = (
    "list",
    "list --duration-filter 0",
    "list --duration-filter 3600000",
    "list --transactional-id-pattern op.*",
    "list --transactional-id-pattern c.* --duration-filter 0",
    "list --transactional-id-pattern (",
    "describe --transactional-id idle",
    "describe --transactional-id committed",
    "describe --transactional-id aborted",
    "describe --transactional-id open",
    "describe --transactional-id nobody",
    "describe-producers --topic open --partition 0",
    "describe-producers --topic committed --partition 1 --broker-id 1",
    "describe-producers --topic idle --partition 0",
    "--command-config {hurried} describe-producers --topic open --partition 0 --broker-id 7",
    "--command-config {hurried} describe-producers --topic nothing --partition 0",
    "find-hanging",
    "find-hanging --partition 1",
    "find-hanging --broker-id 1",
    f"find-hanging --broker-id 1 {OPEN}",
    f"find-hanging --topic open {OPEN}",
    f"find-hanging --topic open --partition 1 {OPEN}",
    "abort --topic open --partition 0",
    "abort --topic open --partition 0 --start-offset 77",
    "abort --topic open --partition 0 --producer-id pid-open",
    "abort --topic open --partition 0 --producer-id pid-open --producer-epoch 0",
    "abort --topic idle --partition 0 --start-offset 0",
    "forceTerminateTransaction --transactionalId open",
    "describe --transactional-id open",
    "describe-producers --topic open --partition 1",
    "forceTerminateTransaction --transactionalId open",
    "forceTerminateTransaction --transactionalId committed",
    "list --transactional-id-pattern (open|committed|nobody)",
)


def test_each_job_prints_the_same(sides: tuple[Side, Side], tmp_path: Path) -> None:
    hurried = tmp_path / "hurried.properties"
    hurried.write_text("default.api.timeout.ms=3000\nrequest.timeout.ms=2000\n")
    told = []
    for side in sides:
        steps = {}
        for step in STEPS:
            steps[step] = side.run(step.replace("{hurried}", str(hurried)))
            if step.startswith("force"):
                side.left["open"].rest()
        told.append(steps)
    kafkas, ours = told
    differing = {step: (kafkas[step], ours[step]) for step in STEPS if kafkas[step] != ours[step]}
    assert not differing
    ends = [lines[-1] for lines in ours.values()]
    assert ends.count("exit code 0") > len(STEPS) / 2


@pytest.mark.parametrize(
    ("name", "by"),
    [
        ("torn", "--start-offset 0"),
        ("opened", "--producer-id pid-opened --producer-epoch 0 --coordinator-epoch 0"),
    ],
)
def test_an_abort_by_hand_tears_nothing_of_ours(
    sides: tuple[Side, Side], name: str, by: str
) -> None:
    kafkas, ours = sides
    for side in sides:
        assert side.run(f"abort --topic {name} --partition 0 {by}") == ["exit code 0"]
    assert kafkas.left[name].state_name() == "Ongoing"
    t = ours.left[name]
    until(lambda: t.state_name() == "CompleteAbort", "the end of the whole transaction")
    assert (t.read(), t.read(partition=1)) == (([], 2, 2, [0]), ([], 2, 2, [0]))
    found = ours.run(f"find-hanging --topic {name} {OPEN}")
    assert (len(found), found[-1]) == (2, "exit code 0")


# Kafka takes a batch into a partition that its transaction does not have.
UNVERIFIED = {**SETTINGS, "transaction.partition.verification.enable": "false"}


def leave_hanging(directory: Path) -> None:
    """Have a Kafka leave an open transaction that its coordinator does not know, and stop."""
    node = KafkaNode(directory, settings=UNVERIFIED)
    node.start()
    try:
        with Connection(node.address, TIMEOUT_S) as connection:
            t = Transactor.create(ready(connection), "ghost")
            t.init()
            assert t.produce(8, producer_id=GHOST_ID) == ("NONE", 0)
        assert node.stop() in (0, 143)
    finally:
        node.kill()


HANGING = (
    "list",
    f"find-hanging --broker-id 1 {OPEN}",
    f"find-hanging --topic ghost {OPEN}",
    "describe-producers --topic ghost --partition 0",
    "abort --topic ghost --partition 0 --start-offset 0",
    "abort --topic ghost --partition 0 --start-offset 0",
    f"find-hanging --broker-id 1 {OPEN}",
)


def test_a_transaction_that_hangs_is_found_and_ended(tmp_path: Path) -> None:
    libs()
    leave_hanging(tmp_path / "kafka")
    shutil.copytree(tmp_path / "kafka" / "data", tmp_path / "ours" / "data")
    told = []
    for broker in (
        KafkaNode(tmp_path / "kafka", settings=SETTINGS),
        BrokerProcess(tmp_path / "ours" / "data", SETTINGS),
    ):
        broker.start()
        try:
            with Connection(broker.address, TIMEOUT_S) as connection:
                state = State(connection, {})
                ghost = Transactor(state, "ghost")
                until(lambda t=ghost: t.state_name() == "Empty", "the coordinator")
                left = {"ghost": ghost}
                ghost.init()
                assert ghost.read() == ([], 1, 0, [])
                with tool_for(state, left, tmp_path) as side:
                    told.append([side.run(step) for step in HANGING])
                assert ghost.read() == ([], 2, 2, [0])
        finally:
            broker.kill()
    kafkas, ours = told
    assert ours == kafkas
    assert [lines[-1].removeprefix("exit code ") for lines in ours] == list("0000010")
    assert [len(lines) for lines in (ours[1], ours[-1])] == [3, 2]
