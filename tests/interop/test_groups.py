"""Real clients in classic groups: alone, mixed, joining, leaving, killed; and a killed broker.

What must hold: while nobody comes or goes each record reaches exactly one member; across a
rebalance none is missed, and records are told again only by a member that took over from one that
had told them and not committed. Members are processes (group_member.py); Kafka's console consumer
is one of them where the oracle is.
"""

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.oracle import kafka
from tests.support.broker_process import BrokerProcess

PARTITIONS = 16
PYPI = ("confluent-kafka", "kafka-python", "aiokafka")
JAVA = "java"
TOPIC = "lines"
ROOT = Path(__file__).parents[2]
STUCK_ROUNDS = 40  # a member without records by then will not get any


class Member:
    """A member process, and its output."""

    def __init__(self, client: str, address: str, group: str, directory: Path) -> None:
        self.client = client
        self.path = directory / f"{client}-{time.monotonic_ns()}"
        arguments = [sys.executable, "-m", "tests.interop.group_member"]
        command = [*arguments, client, address, group, TOPIC]
        if client == JAVA:
            command = console(address, group)
        self._is_java = client == JAVA
        self._output = self.path.open("wb")
        self.process = subprocess.Popen(
            command, stdout=self._output, stderr=subprocess.DEVNULL, cwd=ROOT
        )

    def told(self) -> list[tuple[int, int]]:
        """(partition, offset) of each record, in order."""
        found = []
        for line in self.path.read_text().splitlines():
            words = line.replace("Partition:", "").replace("Offset:", "").split()
            if len(words) >= 2 and words[0].isdecimal() and words[1].isdecimal():
                found.append((int(words[0]), int(words[1])))
        return found

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Leave the group; with SIGKILL die without leaving."""
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(30)
        self._output.close()


def console(address: str, group: str) -> list[str]:
    """Kafka's own console consumer, which commits each second and when it leaves."""
    return kafka.java(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", address, "--group", group, "--topic", TOPIC),
        *("--formatter-property", "print.partition=true"),
        *("--formatter-property", "print.offset=true"),
        *("--formatter-property", "print.value=false"),
        *("--command-property", "auto.offset.reset=earliest"),
        *("--command-property", "session.timeout.ms=10000"),
        *("--command-property", "heartbeat.interval.ms=500"),
        *("--command-property", "auto.commit.interval.ms=500"),
        *("--command-property", "max.poll.interval.ms=15000"),
        flags=("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
    )


class House:
    """A broker with the topic, and the members of one test."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.broker = BrokerProcess(directory / "data")
        self.broker.start()
        self.members: list[Member] = []
        self.ended: list[Member] = []
        self.produced = Counter[int]()
        admin = AdminClient({"bootstrap.servers": self.broker.address})
        made = admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
        made[TOPIC].result(10)

    def join(self, group: str, *names: str) -> list[Member]:
        made = [Member(name, self.broker.address, group, self.directory) for name in names]
        self.members += made
        return made

    def part(self, member: Member, number: signal.Signals = signal.SIGTERM) -> None:
        member.end(number)
        self.members.remove(member)
        self.ended.append(member)

    def produce(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.broker.address, "linger.ms": 5})
        for number in range(count):
            producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
            self.produced[number % PARTITIONS] += 1
        assert producer.flush(30) == 0

    def told(self) -> Counter[tuple[int, int]]:
        found = Counter[tuple[int, int]]()
        for member in (*self.members, *self.ended):
            found.update(member.told())
        return found

    def wanted(self) -> set[tuple[int, int]]:
        return {
            (number, offset) for number, count in self.produced.items() for offset in range(count)
        }

    def wait(self, seconds: float = 60) -> Counter[tuple[int, int]]:
        """Wait until everything produced has been read; return how often."""
        wait_until(lambda: self.wanted() <= set(self.told()), seconds, self.missing)
        return self.told()

    def missing(self) -> str:
        absent = sorted(self.wanted() - set(self.told()))
        return (
            f"{len(absent)} records never told, first {absent[:5]}; {self.broker.output()[-500:]}"
        )

    def close(self) -> None:
        for member in self.members:
            member.end()
        if self.broker.running:
            self.broker.kill()


def wait_until(holds: Callable[[], bool], seconds: float, why: Callable[[], str]) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, why()
        time.sleep(0.2)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.close()


def committed(house: House, group: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": house.broker.address, "group.id": group})
    asked = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    found = {one.partition: one.offset for one in consumer.committed(asked, 10)}
    consumer.close()
    return found


def readers(house: House, settled: int) -> set[int]:
    """Return the members that read records beyond the first `settled` offsets of a partition."""
    return {
        index
        for index, member in enumerate(house.members)
        if any(offset >= settled for _, offset in member.told())
    }


def replace_stuck(house: House) -> None:
    """Start members of kafka-python anew that never read anything.

    Now and then one stays in its own event loop from its start on, with nothing unread on its
    connections (3.0.12: NetworkSelector._poll_once goes round and round).
    """
    for member in [one for one in house.members if one.client == "kafka-python"]:
        if not member.told():
            house.part(member, signal.SIGKILL)
            house.join("g", member.client)


def live(house: House, *names: str) -> None:
    """One group: all together; one leaves, one is killed, one joins; the broker is killed."""
    house.join("g", *names)
    rounds = 0

    def all_read() -> bool:
        """Return whether every member has records of the last round: all have their partitions."""
        nonlocal rounds
        settled = house.produced[0]
        house.produce(20 * PARTITIONS)
        house.wait()
        rounds += 1
        if rounds == STUCK_ROUNDS:
            replace_stuck(house)
        return len(readers(house, settled)) == len(house.members)

    wait_until(all_read, 60, lambda: f"not all members got partitions in {rounds} rounds")
    before = house.told()
    house.produce(100 * PARTITIONS)
    after = house.wait()
    assert {after[key] for key in after if key not in before} == {1}, (
        "told twice without a rebalance"
    )

    house.part(house.members[0])
    house.produce(50 * PARTITIONS)
    house.wait()
    house.part(house.members[0], signal.SIGKILL)
    house.produce(50 * PARTITIONS)
    house.join("g", names[0])
    house.wait()
    house.broker.kill()
    house.broker.start()
    house.produce(50 * PARTITIONS)
    house.wait()
    wait_until(
        lambda: committed(house, "g") == dict(house.produced),
        30,
        lambda: f"committed {committed(house, 'g')}, expected {dict(house.produced)}",
    )
    house.broker.kill()
    house.broker.start()
    assert committed(house, "g") == dict(house.produced)


@pytest.mark.parametrize("client", PYPI)
def test_three_members_of_one_client(house: House, client: str) -> None:
    live(house, client, client, client)


def test_members_of_three_clients(house: House) -> None:
    live(house, *PYPI)


@pytest.mark.interop
def test_members_of_four_clients_one_of_them_javas(house: House) -> None:
    kafka.libs()
    live(house, *PYPI, JAVA)
