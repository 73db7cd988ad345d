"""Kafka Streams with `exactly_once_v2` counts each word once, however often it is killed.

An application (`programs/java/Counts.java`) counts the words of a topic in a store with a
changelog, behind a repartition topic, and writes each new count to another topic. Each round writes
more words, starts it, and kills it, or the broker, or both, once it has committed a part of them
that is drawn; it comes back with its state directory, or with an empty one, which lets its last
transaction time out and restores the store from the changelog. For each word a consumer with
read_committed that looked on, and one that comes afterwards, have read 1, 2, 3 and so on.

With BARNABAS_TEST_AGAINST=kafka the broker is an Apache Kafka.
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.committed_reader import Onlooker, Read, read_all
from tests.interop.java_process import JavaProcess, compiled
from tests.interop.oracle.kafka import libs
from tests.support.under_test import broker_on

pytestmark = pytest.mark.interop

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.min.session.timeout.ms": "1000",
}
STREAMS = (
    "consumer.session.timeout.ms=3000",
    "consumer.heartbeat.interval.ms=500",
    "producer.transaction.timeout.ms=3000",
    "num.standby.replicas=1",
)
INPUT, OUTPUT = "words", "counts"
PARTITIONS = 2
CHUNK = 2_000  # words a round
WORDS = 40
DRAWN = (0.05, 0.7)  # the share of a round's words that is counted before the kill
PATIENCE_S = 240.0

# What is killed in each round.
LIVES = {
    "one instance": ("application", "application and its state", "broker", "both"),
    "two instances": ("one of two", "broker", "one of two and its state"),
}


class Application:
    """The instances of the application; each has a state directory."""

    def __init__(self, address: str, count: int, directory: Path) -> None:
        self._command = compiled("Counts", directory)
        self._address = address
        self._directory = directory
        self._running: list[JavaProcess | None] = [None] * count

    def start(self) -> None:
        """Start the instances that do not run."""
        for number, one in enumerate(self._running):
            if one is None or not one.running:
                state = str(self._state(number))
                command = [*self._command, self._address, state, INPUT, OUTPUT, *STREAMS]
                errors = self._directory / f"instance-{number}.errors"
                self._running[number] = JavaProcess(command, errors)

    def _state(self, number: int) -> Path:
        return self._directory / f"state-{number}"

    def kill(self, number: int, *, forget: bool = False) -> None:
        """Kill an instance; with `forget`, its state is lost, too."""
        one = self._running[number]
        if one is not None:
            one.kill()
        if forget:
            shutil.rmtree(self._state(number))

    def kill_all(self) -> None:
        """Kill all instances."""
        for number in range(len(self._running)):
            self.kill(number)

    def check(self) -> None:
        """Fail if an instance has given up."""
        for one in self._running:
            assert one is None or one.running, f"{one.lines}: {one.errors()}"


class Topics:
    """The words that were written, and the counts that were read."""

    def __init__(self, address: str, chance: random.Random) -> None:
        self.address = address
        self.written: Counter[str] = Counter()
        self._chance = chance
        admin = AdminClient({"bootstrap.servers": address})
        made = admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (INPUT, OUTPUT)])
        for future in made.values():
            future.result(PATIENCE_S)
        self.onlooker = Onlooker(address, OUTPUT, PARTITIONS)
        self.onlooker.start()

    def write_more(self) -> None:
        """Write a round's words."""
        producer = Producer({"bootstrap.servers": self.address, "enable.idempotence": True})
        for _ in range(CHUNK):
            word = f"word-{int(self._chance.triangular(0, WORDS, 0))}"
            self.written[word] += 1
            producer.produce(INPUT, word, partition=self._chance.randrange(PARTITIONS))
        assert producer.flush(PATIENCE_S) == 0

    def await_counted(self, count: int, application: Application) -> None:
        """Wait until so many counts have been read."""
        deadline = time.monotonic() + PATIENCE_S
        while (found := sum(map(len, self.onlooker.found))) < count:
            application.check()
            assert time.monotonic() < deadline, f"{found} of {count} words counted"
            time.sleep(0.001)

    def check(self, read: Read) -> None:
        """See that each word was counted once."""
        found: dict[str, list[int]] = {}
        for key, value in (record for partition in read for record in partition):
            assert key is not None
            assert value is not None
            found.setdefault(key.decode(), []).append(int(value))
        wanted = {word: list(range(1, times + 1)) for word, times in self.written.items()}
        assert found == wanted


def live(broker: Any, application: Application, topics: Topics, rounds: tuple[str, ...]) -> None:
    """Let all rounds happen, and a last one in peace."""
    chance = random.Random(str(rounds))
    for killed in rounds:
        before = topics.written.total()
        topics.write_more()
        application.start()
        counted = before + int(chance.uniform(*DRAWN) * CHUNK)
        topics.await_counted(counted, application)
        time.sleep(chance.uniform(0, 0.1))  # anywhere in a transaction
        if killed in ("broker", "both"):
            broker.kill()
        if killed != "broker":
            application.kill(0, forget="state" in killed)
        if killed in ("broker", "both"):
            broker.start()
        if killed == "broker":
            topics.await_counted(topics.written.total(), application)
    topics.write_more()
    application.start()
    topics.await_counted(topics.written.total(), application)


@pytest.mark.parametrize("name", LIVES)
def test_each_word_is_counted_once(name: str, tmp_path: Path) -> None:
    libs()
    broker = broker_on(tmp_path / "broker", SETTINGS)
    with ExitStack() as ends:
        ends.callback(lambda: broker.running and broker.kill())
        broker.start()
        topics = Topics(broker.address, random.Random(name))
        ends.callback(topics.onlooker.end)
        application = Application(broker.address, 2 if "two" in name else 1, tmp_path)
        ends.callback(application.kill_all)
        live(broker, application, topics, LIVES[name])
        application.kill_all()
        topics.check(read_all(broker.address, OUTPUT, PARTITIONS))
        topics.onlooker.end()
        topics.check(topics.onlooker.found)
