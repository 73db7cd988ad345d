"""The next broker ends what another has decided, and goes on with what is open, after a power cut.

The cut leaves transactions in Prepare: markers are missing in all of their partitions, or in one.
The next broker on the directory, Apache Kafka 4.3 or Barnabas, writes them before it lets their
producers go on: readers and the group see each outcome, and an EndTxn that is asked again gets it.

Kafka at times breaks this promise: a broker that loads the transactions while it is fenced again at
its start finds no leader for their partitions, takes these for deleted and writes Complete without
a marker (TransactionMarkerChannelManager: "likely deleted already and hence can be skipped").
Readers then wait for ever. How many it loses so is a matter of milliseconds; the rest is looked at.
"""

import time
from pathlib import Path
from typing import Any

import pytest

from broker.transactions.transaction_states import TransactionState
from client.kafka.connection import Connection
from tests.interop import left_prepared
from tests.interop.group_requests import State
from tests.interop.oracle.kafka import KafkaNode, libs
from tests.interop.test_transactions_move import UNHURRIED, Left, is_open, move
from tests.interop.transaction_brokers import ready
from tests.interop.transaction_requests import POLL_S, TIMEOUT_S, until
from tests.interop.transactor import Transactor
from tests.support.under_test import broker_on

pytestmark = pytest.mark.interop

ENDS = {  # id: its outcome, and the version of its EndTxn
    "committed": ("commit", 5),
    "aborted": ("abort", 5),
    "half": ("commit", 5),  # its marker is in one of two partitions
    "older": ("commit", 3),
    "older, aborted": ("abort", 3),
}
NAMES = {name: name.replace(", ", "-") for name in (*ENDS, "idle", "open")}
RECORDED_S = 0.5  # in which the record of an open transaction is written
MARKED_S = 5  # in which Kafka, that has written Complete, has written its markers, or never will


def leave(state: State) -> Left:
    """Leave ended transactions, and an open one; each has two partitions and an offset."""
    left = {name: Transactor.create(state, topic) for name, topic in NAMES.items()}
    for name, t in left.items():
        assert t.init(timeout_ms=600_000) == "e+0"
        if name == "idle":
            continue
        if ENDS.get(name, ("", 5))[1] == 3:
            assert (t.add(0, 1), t.add_offsets()) == ("NONE", "NONE")
        version, offsets_version = (8, 3) if "older" in name else (12, 5)
        for partition in (0, 1):
            assert t.produce(version, partition=partition) == ("NONE", 0)
        assert t.commit_offset(offsets_version, offset=7) == "NONE"
    time.sleep(RECORDED_S)
    for name, (outcome, version) in ENDS.items():
        assert left[name].end(outcome, version) == ("e+1" if version == 5 else "NONE")
        left[name].rest()
    return left


def cut(data: Path, left: Left) -> None:
    """Take from the files what a power cut would have taken."""
    states = left_prepared.forget_complete(data, {NAMES[name] for name in ENDS})
    for name, (outcome, _) in ENDS.items():
        wanted = f"PREPARE_{outcome.upper()}"
        assert states[NAMES[name]] is TransactionState[wanted], name
        for partition in (0, 1):
            if name == "half" and partition == 1:
                continue
            log, ids = f"{NAMES[name]}-{partition}", {left[name].producer_id}
            assert left_prepared.forget_markers(data, log, ids) == 1
    assert states["open"] is TransactionState.ONGOING
    ended = {left[name].producer_id for name in ENDS}
    assert left_prepared.forget_markers(data, left_prepared.OFFSETS, ended) == len(ENDS)
    left_prepared.forget_what_is_made_again(data)


def see_ended(t: Transactor, outcome: str, version: int) -> None:
    """See an outcome everywhere, ask for it again, and go on."""
    is_commit = outcome == "commit"
    until(lambda: t.state_name() == f"Complete{outcome.capitalize()}", "the end")
    for partition in (0, 1):
        until(lambda p=partition: is_stable(t, p), "the last stable offset")
        assert t.read(partition=partition)[0] == ([b"v"] if is_commit else [])
    until(lambda: not is_open(t), "the group's offset")
    assert t.offset_of_group() == (7 if is_commit else -1)
    before, after = (-1, "e+1") if version == 5 else (0, "NONE")
    other = "abort" if is_commit else "commit"
    assert t.end(other, version, epoch=before, keep=False) == "INVALID_TXN_STATE"
    assert t.end(outcome, version, epoch=before, keep=False) == after
    known = t.read()[0]
    if version == 3:
        assert t.add(0) == "NONE"
    assert t.produce(12 if version == 5 else 8, values=[b"next"])[0] == "NONE"
    t.end("commit", version)
    t.rest()
    assert t.read()[0] == [*known, b"next"]


def is_stable(t: Transactor, partition: int) -> bool:
    """Whether nothing is open in a partition."""
    _, high_watermark, last_stable_offset, _ = t.read(partition=partition)
    return bool(high_watermark == last_stable_offset)


def is_lost(t: Transactor) -> bool:
    """Whether a Kafka has ended a transaction without its markers."""
    until(lambda: t.state_name().startswith("Complete"), "the end")
    deadline = time.monotonic() + MARKED_S
    while not all(is_stable(t, partition) for partition in (0, 1)):
        if time.monotonic() > deadline:
            return True
        time.sleep(POLL_S)
    return False


def go_on(left: Left, *, in_kafka: bool) -> None:
    """See that all is ended as it was decided, and go on."""
    lost = {name for name in ENDS if in_kafka and is_lost(left[name])}
    assert lost < ENDS.keys()
    for name, (outcome, version) in ENDS.items():
        if name not in lost:
            see_ended(left[name], outcome, version)
    t = left["open"]
    assert t.state_name() == "Ongoing"
    assert is_open(t)
    assert (t.read(), t.read(partition=1)) == (([], 1, 0, []), ([], 1, 0, []))
    assert t.end() == "e+1"
    t.rest()
    assert (t.read()[0], t.read(partition=1)[0]) == ([b"v"], [b"v"])
    until(lambda: not is_open(t), "the group's offset")
    assert t.offset_of_group() == 7


@pytest.fixture(autouse=True)
def _oracle() -> None:
    libs()


@pytest.mark.parametrize(
    ("first", "second"),
    [("kafka", "ours"), ("ours", "kafka"), ("kafka", "kafka"), ("ours", "ours")],
)
def test_the_next_broker_ends_what_is_prepared(tmp_path: Path, first: str, second: str) -> None:
    both: dict[str, Any] = {
        "kafka": KafkaNode(tmp_path, settings=UNHURRIED),
        "ours": broker_on(tmp_path, UNHURRIED),
    }
    try:
        both[first].start()
        with Connection(both[first].address, TIMEOUT_S) as connection:
            left = leave(ready(connection))
        both[first].kill()
        cut(both[first].data, left)
        both[second].start()
        with Connection(both[second].address, TIMEOUT_S) as connection:
            move(left, State(connection, {}))
            go_on(left, in_kafka=second == "kafka")
    finally:
        for broker in both.values():
            if broker.running:
                broker.kill()
