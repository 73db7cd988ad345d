"""Kafka's TransactionalMessageCopier copies a topic exactly once, however often it is killed.

The tool of Kafka's own system tests reads a partition, or what it is given as a member of a group,
and writes what it read to the same partition of another topic, in small transactions with the
group's offsets. Two of them copy at the same time. Each round writes more input, starts the copiers
and kills them, or the broker, or all, once they have copied a part of it that is drawn. In the end
a consumer with read_committed that looked on, and one that comes afterwards, have read each record
of the input once, in its order.

With BARNABAS_TEST_AGAINST=kafka the broker is an Apache Kafka.
"""

from __future__ import annotations

import json
import random
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.committed_reader import Onlooker, read_all
from tests.interop.java_process import FLAGS, JavaProcess
from tests.interop.oracle.kafka import java, libs
from tests.support.under_test import broker_on

pytestmark = pytest.mark.interop

COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "2"}
INPUT, OUTPUT, GROUP = "input", "output", "copiers"
PARTITIONS = 2
CHUNK = 1_000  # records a round and partition
TRANSACTION_SIZE = 10
DRAWN = (0.05, 0.7)  # how much of a round's input is copied before the kill
PATIENCE_S = 240.0


class Load(NamedTuple):
    """How the copiers run, and who is killed in each round."""

    options: tuple[str, ...]
    rounds: tuple[str, ...]


LOADS = {
    "copiers killed": Load((), ("copiers",) * 4),
    "broker killed": Load((), ("broker",) * 3),
    "both killed, random aborts": Load(
        ("--use-group-metadata", "--enable-random-aborts"),
        ("both", "broker", "copiers", "both"),
    ),
    # A group waits for the sessions of killed members: 10 s, the tool's own.
    "a group, both killed": Load(
        ("--group-mode", "--use-group-metadata"), ("copiers", "broker", "both")
    ),
}


class Copiers:
    """The copiers of a load, one a partition, or as many in a group."""

    def __init__(self, address: str, options: tuple[str, ...], directory: Path) -> None:
        self._address = address
        self._options = options
        self._directory = directory
        self._running: list[JavaProcess] = []

    def start(self) -> None:
        """Start all."""
        for partition in range(PARTITIONS):
            arguments = (
                *("--broker-list", self._address, "--consumer-group", GROUP),
                *("--input-topic", INPUT, "--input-partition", str(partition)),
                *("--output-topic", OUTPUT, "--transactional-id", f"copier-{partition}"),
                *("--transaction-size", str(TRANSACTION_SIZE), *self._options),
                # Java leaves a transaction to its timeout if the broker died with the answer to
                # the offsets, and nothing else was sent in it. A copier waits 60 s for offsets.
                *("--transaction-timeout", "20000"),
            )
            errors = self._directory / f"copier-{partition}.errors"
            self._running.append(JavaProcess(java(COPIER, *arguments, flags=FLAGS), errors))

    def copied(self) -> int:
        """Return how many records they have copied since their start."""
        last = [one.lines[-1] for one in self._running if one.lines]
        return sum(json.loads(line)["totalProcessed"] for line in last)

    def await_copied(self, count: int) -> None:
        """Wait until they have copied so many."""
        deadline = time.monotonic() + PATIENCE_S
        while self.copied() < count:
            in_time = time.monotonic() < deadline
            assert in_time, f"{self.copied()} of {count} copied: {self._errors()}"
            time.sleep(0.001)

    def _errors(self) -> list[str]:
        return [one.errors() for one in self._running]

    def kill(self) -> None:
        """Kill all."""
        for one in self._running:
            one.kill()
        self._running.clear()

    def finish(self) -> None:
        """Wait until they have reached the end of the input."""
        for one in self._running:
            assert one.wait() == 0, one.errors()
        self._running.clear()


def create_topics(address: str) -> None:
    """Create input and output."""
    admin = AdminClient({"bootstrap.servers": address})
    made = admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (INPUT, OUTPUT)])
    for future in made.values():
        future.result(PATIENCE_S)


def values(first: int, end: int, partition: int) -> list[bytes]:
    """Records of the input."""
    return [b"%d of %d" % (number, partition) for number in range(first, end)]


def write_more(address: str, chunk: int) -> None:
    """Write a round's input."""
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for partition in range(PARTITIONS):
        for value in values(chunk * CHUNK, (chunk + 1) * CHUNK, partition):
            producer.produce(INPUT, value, partition=partition)
    assert producer.flush(PATIENCE_S) == 0


def committed(address: str) -> list[int]:
    """Return the group's offsets."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": GROUP})
    places = [TopicPartition(INPUT, partition) for partition in range(PARTITIONS)]
    found = consumer.committed(places, PATIENCE_S)
    consumer.close()
    return [place.offset for place in found]


def copy(broker: Any, copiers: Copiers, load: Load, chance: random.Random) -> None:
    """Let all rounds happen, and a last one in peace."""
    for number, killed in enumerate(load.rounds):
        write_more(broker.address, number)
        copiers.start()
        share = chance.uniform(*DRAWN)
        copiers.await_copied(int(share * CHUNK * PARTITIONS))
        time.sleep(chance.uniform(0, 0.01))  # anywhere in a transaction
        if killed != "copiers":
            broker.kill()
        if killed != "broker":
            copiers.kill()
        if killed != "copiers":
            broker.start()
        copiers.finish()
    write_more(broker.address, len(load.rounds))
    copiers.start()
    copiers.finish()


@pytest.mark.parametrize("name", LOADS)
def test_each_record_is_copied_once_and_in_order(name: str, tmp_path: Path) -> None:
    libs()
    load = LOADS[name]
    total = CHUNK * (len(load.rounds) + 1)
    broker = broker_on(tmp_path / "broker", SETTINGS)
    with ExitStack() as ends:
        ends.callback(lambda: broker.running and broker.kill())
        broker.start()
        create_topics(broker.address)
        onlooker = Onlooker(broker.address, OUTPUT, PARTITIONS)
        ends.callback(onlooker.end)
        onlooker.start()
        copiers = Copiers(broker.address, load.options, tmp_path)
        ends.callback(copiers.kill)
        copy(broker, copiers, load, random.Random(name))
        wanted = [
            [(None, value) for value in values(0, total, partition)]
            for partition in range(PARTITIONS)
        ]
        assert committed(broker.address) == [total] * PARTITIONS
        assert read_all(broker.address, OUTPUT, PARTITIONS) == wanted
        assert onlooker.all_of([total] * PARTITIONS) == wanted
