"""Our consumer and confluent-kafka's in one group, theirs of either protocol.

Ours speaks KIP-848 in msgpack; a classic group is made a consumer group when it comes. They share
16 partitions, leave, are killed and rejoin: each record reaches exactly one of them while no member
joins or leaves, and none is left out.
"""

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tests.support.two_dialects import WAIT_S, TwoDialects, command, run
from tests.support.under_test import against_kafka

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(against_kafka(), reason="Apache Kafka has no msgpack dialect"),
]

PARTITIONS = 16
COUNT = 320
SETTINGS = {
    "num.partitions": str(PARTITIONS),
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.heartbeat.interval.ms": "200",
}
Told = Counter[tuple[int, int]]


class Theirs:
    """A member by confluent-kafka, polled by the test."""

    def __init__(self, broker: TwoDialects, protocol: str) -> None:
        classic = {"heartbeat.interval.ms": 300, "session.timeout.ms": 6_000}
        self.told: Told = Counter()
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.address,
                "group.id": "g",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "client.id": "theirs",
                **(classic if protocol == "classic" else {}),
            }
        )
        self._consumer.subscribe(["lines"])

    def poll(self) -> None:
        """Poll records, and commit them."""
        messages = [one for one in self._consumer.consume(500, 0.1) if one.error() is None]
        self.told.update((one.partition(), one.offset()) for one in messages)
        if messages:
            self._consumer.commit(asynchronous=False)

    def share(self) -> int:
        """Return the number of its partitions."""
        return len(self._consumer.assignment())

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()


class Ours:
    """A member by `barnabas consume`, as a process."""

    def __init__(self, broker: TwoDialects, path: Path) -> None:
        self._path = path
        self._output = path.open("wb")
        arguments = ["consume", "lines", "--group", "g", "--follow", "--json"]
        self.process = command(broker, *arguments, stdout=self._output, stderr=subprocess.DEVNULL)

    @property
    def told(self) -> Told:
        """Return its output; a torn last line is skipped."""
        lines = self._path.read_text().split("\n")[:-1]
        return Counter((one["partition"], one["offset"]) for one in map(json.loads, lines))

    def end(self, number: signal.Signals) -> None:
        """Leave the group with SIGTERM; with SIGKILL die without leaving."""
        self.process.send_signal(number)
        self.process.wait(WAIT_S)
        self._output.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TwoDialects]:
    with TwoDialects(tmp_path / "data", SETTINGS) as one:
        run(one, "topics", "create", "lines", "--partitions", str(PARTITIONS))
        yield one


def produce(broker: TwoDialects) -> None:
    lines = b"".join(b"%d\n" % number for number in range(COUNT))
    run(broker, "produce", "lines", "--partitioner", "round_robin", data=lines)


def everything(rounds: int) -> Told:
    """Return each record once, after `rounds` rounds of producing."""
    each = rounds * COUNT // PARTITIONS
    return Counter((number, offset) for number in range(PARTITIONS) for offset in range(each))


def until_share(theirs: Theirs, share: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while theirs.share() != share:
        assert time.monotonic() < deadline, f"it has {theirs.share()} partitions, not {share}"
        theirs.poll()


def until_told(theirs: Theirs | None, ours: list[Ours], rounds: int) -> Told:
    """Poll until all records have been read; return how often each was."""
    deadline = time.monotonic() + WAIT_S
    polled = theirs.told if theirs else Counter()
    while True:
        if theirs is not None:
            theirs.poll()
        told = sum((one.told for one in ours), Counter(polled))
        if told.keys() >= everything(rounds).keys():
            return told
        assert time.monotonic() < deadline, f"{len(everything(rounds) - told)} records are missing"


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
@pytest.mark.parametrize("farewell", [signal.SIGTERM, signal.SIGKILL])
def test_they_share_and_take_over_from_each_other(
    broker: TwoDialects, tmp_path: Path, farewell: signal.Signals, protocol: str
) -> None:
    theirs = Theirs(broker, protocol)
    until_share(theirs, PARTITIONS)
    ours = [Ours(broker, tmp_path / "first")]
    try:
        until_share(theirs, PARTITIONS // 2)
        produce(broker)
        assert until_told(theirs, ours, 1) == everything(1)
        assert ours[0].told.total() == COUNT // 2
        time.sleep(1.5)  # it commits about once a second
        theirs.poll()

        ours[0].end(farewell)
        until_share(theirs, PARTITIONS)
        produce(broker)
        assert until_told(theirs, ours, 2) == everything(2)

        ours.append(Ours(broker, tmp_path / "second"))
        until_share(theirs, PARTITIONS // 2)
        produce(broker)
        assert until_told(theirs, ours, 3) == everything(3)
        told_by_theirs = theirs.told
    finally:
        theirs.close()
    try:
        produce(broker)
        deadline = time.monotonic() + WAIT_S
        while (told := ours[1].told + ours[0].told + told_by_theirs) != everything(4):
            assert time.monotonic() < deadline, f"{len(everything(4) - told)} records are missing"
            time.sleep(0.1)
    finally:
        ours[1].end(signal.SIGKILL)
