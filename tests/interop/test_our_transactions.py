"""Our transactional producer and `barnabas transactions`, on Apache Kafka 4.3 and on Barnabas.

The producer speaks each version of transactions to both brokers; a broker is killed in the middle
of a transaction. The commands print the same of both, but for why a transaction ended last, which
Barnabas alone tells.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer

from client import cli
from client.kafka import admin, groups, transaction_requests, transactions
from client.kafka.connection import Connection
from client.kafka.transactional_producer import TransactionalProducer, TransactionSettings
from client.places import Place
from client.transactions.errors import ProducerFenced, TransactionTimedOut
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.interop.oracle.kafka import KafkaNode, libs
from tests.interop.transaction_requests import until
from tests.support.two_dialects import TwoDialects, run

pytestmark = pytest.mark.interop

TIMEOUT_S = 20.0
NEEDED = (EndTxnRequest, TxnOffsetCommitRequest, DescribeTransactionsRequest)
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}


def kafka_in(directory: Path) -> KafkaNode:
    """An Apache Kafka; skips the test where it cannot be run."""
    libs()
    node = KafkaNode(directory, settings=SETTINGS)
    node.start()
    return node


def ours_in(directory: Path) -> TwoDialects:
    """A Barnabas; skips the test where it does not serve transactions."""
    broker = TwoDialects(directory / "data", SETTINGS)
    broker.start()
    with Connection(broker.address, TIMEOUT_S) as connection:
        if not all(map(connection.serves, NEEDED)):
            broker.kill()
            pytest.skip("BARNABAS DOES NOT SERVE TRANSACTIONS YET: nothing was tried")
    return broker


@pytest.fixture(scope="module", params=[kafka_in, ours_in], ids=["kafka", "ours"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    found = request.param(tmp_path_factory.mktemp("transactions"))
    yield found
    if found.running:
        found.kill()


@pytest.fixture(params=[2, 1], ids=["TV2", "TV1"])
def name(request: pytest.FixtureRequest, broker: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a new topic and id, for a producer of that version of transactions."""
    if request.param == 1:
        monkeypatch.setattr(transaction_requests, "has_version_2", lambda _connection: False)
    text = re.sub(r"[^a-z0-9_]", "-", request.node.name.lower())
    create(broker, text)
    return text


def create(broker: Any, topic: str) -> None:
    with Connection(broker.address, TIMEOUT_S) as connection:
        made = admin.create_topic(
            connection, topic, partition_count=2, replication_factor=1, configs={},
            validate_only=False,
        )  # fmt: skip
        assert not made.error_code
        until_s = time.monotonic() + TIMEOUT_S  # Kafka answers before all of it knows the topic
        while topic not in [one.name for one in admin.cluster(connection).topics]:
            assert time.monotonic() < until_s


def producer(broker: Any, name: str, **settings: Any) -> TransactionalProducer:
    return TransactionalProducer(broker.address, name, TransactionSettings(**settings))


def read(broker: Any, topic: str, isolation: str = "read_committed") -> set[bytes | None]:
    """Return what a consumer of librdkafka reads up to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": f"reader-of-{topic}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    consumer.subscribe([topic])
    found = set()
    ends = 0
    until_s = time.monotonic() + TIMEOUT_S
    while ends < 2:
        assert time.monotonic() < until_s
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            ends += 1
        else:
            found.add(message.value())
    consumer.close()
    return found


def committed(broker: Any, group: str) -> dict[Place, int]:
    with Connection(broker.address, TIMEOUT_S) as connection:
        return groups.committed(connection, group)


def test_committed_is_seen_and_aborted_is_not(broker: Any, name: str) -> None:
    place = Place(name, 0)
    with producer(broker, name) as ours:
        for number in range(6):
            with contextlib.suppress(ZeroDivisionError), ours.transaction():
                for partition in (0, 1):
                    ours.send(name, b"%d-%d" % (number, partition), partition=partition)
                ours.send_offsets(f"group-{name}", {place: number + 1})
                if number % 2:
                    raise ZeroDivisionError
    wanted = {b"%d-%d" % (number, partition) for number in (0, 2, 4) for partition in (0, 1)}
    assert read(broker, name) == wanted
    assert len(read(broker, name, "read_uncommitted")) == 12
    assert committed(broker, f"group-{name}") == {place: 5}


def test_a_newer_producer_fences(broker: Any, name: str) -> None:
    with producer(broker, name) as older, pytest.raises(ProducerFenced, match="a newer producer"):
        taken_over(broker, name, older)
    assert read(broker, name) == {b"new"}


def taken_over(broker: Any, name: str, older: TransactionalProducer) -> None:
    with older.transaction():
        older.send(name, b"old")
        older.flush()
        with producer(broker, name) as newer, newer.transaction():
            newer.send(name, b"new")
        # While Kafka still writes the newer one's markers, it answers CONCURRENT_TRANSACTIONS to
        # the older one's commit, which may also mean that it stands: the outcome is then unknown.
        with Connection(broker.address, TIMEOUT_S) as connection:
            until(lambda: not transactions.is_open(state_of(connection, name)), "its end")


def state_of(connection: Connection, name: str) -> str:
    return transactions.describe(connection, name).transaction_state


def test_a_timeout_is_called_so_and_recovered_from(broker: Any, name: str) -> None:
    with producer(broker, name, timeout_ms=300) as ours:
        with pytest.raises(TransactionTimedOut, match=r"its timeout is 0.3 s"):
            slow(ours, name)
        with ours.transaction():
            ours.send(name, b"quick")
    assert read(broker, name) == {b"quick"}


def slow(ours: TransactionalProducer, name: str) -> None:
    with ours.transaction():
        ours.send(name, b"slow")
        ours.flush()
        time.sleep(2)


def test_a_transaction_goes_on_after_its_broker_was_killed(broker: Any, name: str) -> None:
    with producer(broker, name) as ours:
        for number in range(3):
            with ours.transaction():
                ours.send(name, b"%d before" % number)
                ours.send_offsets(f"group-{name}", {Place(name, 0): number})
                ours.flush()
                broker.kill()
                broker.start()
                ours.send(name, b"%d after" % number)
    assert read(broker, name) == {
        b"%d %s" % (number, when) for number in range(3) for when in (b"before", b"after")
    }
    assert committed(broker, f"group-{name}") == {Place(name, 0): 2}


@pytest.mark.parametrize("group", [[], ["--group", "lines"]], ids=["alone", "in a group"])
def test_consume_prints_by_isolation(broker: Any, name: str, group: list[str]) -> None:
    if isinstance(broker, KafkaNode):
        pytest.skip("Apache Kafka has no msgpack dialect")

    def lines(isolation: str) -> list[str]:
        told = [*group[:1], *(f"{one}-{isolation}-{name}" for one in group[1:])]
        return run(broker, "consume", name, "--isolation", isolation, *told).decode().split()

    with producer(broker, name) as ours, producer(broker, f"{name}-open") as other:
        with contextlib.suppress(ZeroDivisionError), ours.transaction():
            ours.send(name, b"aborted", partition=0)
            ours.flush()
            raise ZeroDivisionError
        with ours.transaction():
            ours.send(name, b"committed", partition=0)
        with other.transaction():
            other.send(name, b"open", partition=0)
            other.flush()
            with ours.transaction():
                ours.send(name, b"behind", partition=0)
            assert lines("read_committed") == ["committed"]
            assert lines("read_uncommitted") == ["aborted", "committed", "open", "behind"]
        rest = ["open", "behind"]
        assert lines("read_committed") == (rest if group else ["committed", *rest])


ONLY_OURS = re.compile(r"^Last one: aborted at TIME by an operator\n", re.MULTILINE)
COMMANDS = (
    "list",
    "list --pattern {name}.*",
    "list --state Ongoing",
    "list --open-for 0ms",
    "list --blocking {name}",
    "describe {name}",
    "find-hanging --older-than 0ms",
    "abort {name}",
    "abort {name} --dry-run",
    "abort {name} --yes",
    "abort {name} --yes",
    "list --blocking {name}",
    "describe {name}",
    "describe {name}x",
)


def said(broker: Any, command: str) -> str:
    result = CliRunner().invoke(
        cli.main, ["transactions", *command.split()], env={"BARNABAS_BOOTSTRAP": broker.address}
    )
    text = result.output.replace(broker.address, "ADDRESS")
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r"for [\d.]+ s", "for SOME s", text)
    text = re.sub(r"Producer id: \d+", "Producer id: ID", text)
    return f"$ {command} -> {result.exit_code}\n" + re.sub(r" +", " ", text)


def history(broker: Any) -> list[str]:
    """The output of each command, about a transaction that is open, and then is not."""
    name = "held"
    create(broker, name)
    found: list[str] = []
    with producer(broker, name) as ours, pytest.raises(ProducerFenced):
        look(broker, name, ours, found)
    return found


def look(broker: Any, name: str, ours: TransactionalProducer, found: list[str]) -> None:
    with ours.transaction():
        ours.send(name, b"open", partition=1)
        ours.send_offsets("readers", {Place(name, 0): 1})
        found += [said(broker, command.format(name=name)) for command in COMMANDS]


def test_both_brokers_have_the_commands_say_the_same(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    told = []
    for make in (ours_in, kafka_in):
        broker = make(tmp_path_factory.mktemp("commands"))
        try:
            told.append(history(broker))
        finally:
            broker.kill()
    ours, kafka = told
    assert any(ONLY_OURS.search(one) for one in ours)
    for theirs, one in zip(kafka, ours, strict=True):
        assert ONLY_OURS.sub("", one) == theirs
    assert sum("-> 0" in one for one in ours) > len(ours) / 2
