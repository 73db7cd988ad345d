"""Transactions go on in the next broker: after a kill, and when a directory moves.

What a broker leaves is done, open, open beyond its timeout, or nothing but an id. The next broker
on the directory, Apache Kafka 4.3 or Barnabas, knows each of them, and their producers go on with
the ids that they have.
"""

import time
from pathlib import Path
from typing import Any

import pytest

from client.kafka.connection import Connection
from tests.interop.group_requests import State
from tests.interop.oracle.kafka import KafkaNode, libs
from tests.interop.transaction_brokers import SETTINGS, ready
from tests.interop.transaction_requests import NOT_YET, TIMEOUT_S, until
from tests.interop.transactor import Transactor
from tests.support.under_test import broker_on

pytestmark = pytest.mark.interop

LATE_MS = 3_000
# A Kafka that looks for timeouts soon after its start, when it cannot write markers yet, ends the
# transaction without them. With its default it usually starts sooner than it looks.
CLEANUP = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
UNHURRIED = {**SETTINGS, CLEANUP: "10000"}

Left = dict[str, Transactor]


def leave(state: State) -> Left:
    """Leave an id, transactions that are done, and open ones of both kinds of clients."""
    names = ("idle", "committed", "aborted", "open", "older", "late")
    left = {name: Transactor.create(state, name) for name in names}
    for name, t in left.items():
        assert t.init(timeout_ms=LATE_MS if name == "late" else 600_000) == "e+0"
    for name in ("committed", "aborted"):
        t = left[name]
        assert t.produce() == ("NONE", 0)
        assert t.commit_offset(offset=4) == "NONE"
        assert t.end("commit" if name == "committed" else "abort") == "e+1"
        t.rest()
    for name in ("open", "late"):
        assert left[name].produce() == ("NONE", 0)
        assert left[name].produce(partition=1) == ("NONE", 0)
        assert left[name].commit_offset(offset=5) == "NONE"
    older = left["older"]
    assert (older.add(), older.produce(8)) == ("NONE", ("NONE", 0))
    assert (older.add_offsets(), older.commit_offset(3, offset=6)) == ("NONE", "NONE")
    return left


def move(left: Left, state: State) -> None:
    """Let the producers find the next broker, and its coordinators."""
    for t in left.values():
        t.state = state
    some = left["idle"]
    until(lambda: some.find() not in NOT_YET, "the coordinator of transactions")
    until(lambda: some.state_name() == "Empty", "the state of transactions")
    until(lambda: isinstance(some.offset_of_group(), int), "the coordinator of groups")


def is_open(t: Transactor) -> bool:
    """Whether the group's offset waits for the transaction's end."""
    return t.offset_of_group(stable=True) == "UNSTABLE_OFFSET_COMMIT -1"


def go_on(left: Left) -> None:
    """See that all is as it was left, and go on with each."""
    states = {name: t.state_name() for name, t in left.items() if name != "late"}
    assert states == {
        "idle": "Empty",
        "committed": "CompleteCommit",
        "aborted": "CompleteAbort",
        "open": "Ongoing",
        "older": "Ongoing",
    }
    assert left["committed"].read() == ([b"v"], 2, 2, [])
    assert left["committed"].offset_of_group(stable=True) == 4
    assert left["aborted"].read() == ([], 2, 2, [0])
    assert left["aborted"].offset_of_group(stable=True) == -1

    t = left["open"]
    assert is_open(t)
    assert (t.read(), t.read(partition=1)) == (([], 1, 0, []), ([], 1, 0, []))
    assert (t.produce(sequence=0), t.produce()) == (("NONE", 0), ("NONE", 1))
    assert t.end() == "e+1"

    older = left["older"]
    assert is_open(older)
    assert (older.add(), older.produce(8)) == ("NONE", ("NONE", 1))
    assert older.end(version=3) == "NONE"
    for one, offset in ((t, 5), (older, 6)):
        one.rest()
        assert one.read() == ([b"v", b"v"], 3, 3, [])
        until(lambda one=one: not is_open(one), "the group's offset")
        assert one.offset_of_group() == offset

    late = left["late"]
    until(lambda: late.state_name() == "CompleteAbort", "the end of what took too long")
    assert (late.read(), late.read(partition=1)) == (([], 2, 2, [0]), ([], 2, 2, [0]))
    until(lambda: not is_open(late), "the group's offset")
    assert late.offset_of_group() == -1
    assert late.init(having=late.having()) == "e+1"

    for name in ("idle", "committed", "aborted", "late"):
        one = left[name]
        before = one.read()[0]
        assert one.produce(values=[b"next"])[0] == "NONE"
        one.end()
        one.rest()
        assert one.read()[0] == [*before, b"next"]


@pytest.fixture(autouse=True)
def _oracle() -> None:
    libs()


@pytest.mark.parametrize(
    ("first", "second"),
    [("kafka", "kafka"), ("ours", "ours"), ("kafka", "ours"), ("ours", "kafka")],
)
def test_transactions_go_on_in_the_next_broker(tmp_path: Path, first: str, second: str) -> None:
    both: dict[str, Any] = {
        "kafka": KafkaNode(tmp_path, settings=UNHURRIED),
        "ours": broker_on(tmp_path, SETTINGS),
    }
    try:
        both[first].start()
        with Connection(both[first].address, TIMEOUT_S) as connection:
            left = leave(ready(connection))
        if first == second:
            both[first].kill()
        else:
            both[first].stop()
        time.sleep(LATE_MS / 1000)
        both[second].start()
        with Connection(both[second].address, TIMEOUT_S) as connection:
            move(left, State(connection, {}))
            go_on(left)
    finally:
        for broker in both.values():
            if broker.running:
                broker.kill()
