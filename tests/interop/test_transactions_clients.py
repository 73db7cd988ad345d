"""Transactions of real clients: the same life (`transactional_clients`) on Kafka and Barnabas.

The clients live one by one, and on Barnabas also all at once in one topic. Producers are fenced by
an administrator, too, as Kafka Connect does it (`programs/java/Fencing.java`).
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from client.kafka.connection import Connection
from tests.interop.go_program import franz_go
from tests.interop.group_requests import State
from tests.interop.oracle.kafka import older_clients
from tests.interop.transaction_brokers import kafka_with_transactions, ours_with_transactions
from tests.interop.transaction_requests import TIMEOUT_S, until
from tests.interop.transactional_clients import (
    COMMITTED,
    GROUP_OFFSET,
    LIVES,
    Place,
    run,
    run_java,
)
from tests.interop.transactor import Transactor

pytestmark = pytest.mark.interop

# What each library calls it to be fenced, and to have taken too long.
ERRORS = {
    "java": [
        "InvalidProducerEpochException InvalidProducerEpochException",
        "InvalidProducerEpochException aborted",
        "InvalidTxnStateException",
    ],
    "java-3.9": [
        "ProducerFencedException ProducerFencedException",
        "InvalidProducerEpochException ProducerFencedException",
        "ProducerFencedException",
    ],
    "confluent-kafka": ["_FENCED", "_FENCED"],
    "kafka-python": ["KafkaError", "ProducerFencedError"],
    "aiokafka": ["AssertionError", "ProducerFenced"],
    "franz-go": ["INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE"],
    "ours": ["ProducerFenced", "TransactionTimedOut"],
}

# Those of `Fencing`: each id's epoch once it is fenced, and what its producer gets.
FENCED = [
    "epochs 1 2 2 0",
    "idle InvalidProducerEpochException",
    "open ProducerFencedException",
    "done InvalidProducerEpochException",
    "epochs 2 3 3 1",
    "next committed",
]


def live(state: State, client: str, topic: str, directory: Path) -> None:
    """Let a client live on a broker, with a topic to write to; look at its errors and offset."""
    if client == "java-3.9":
        older_clients()
    if client == "franz-go":
        franz_go(directory)
    source = Transactor.create(state, f"source-{topic}-{client}")
    for _ in range(GROUP_OFFSET):
        source.produce(transactional_id=None, transactional=False, producer_id=-1)
    place = Place(
        state.connection.address,
        topic,
        source.topic,
        f"group-{source.topic}",
        source.topic,
        str(directory),
    )
    assert run(client, place) == ERRORS[client]
    assert source.offset_of_group(group=place.group, stable=True) == GROUP_OFFSET


def committed(sink: Transactor) -> list[bytes]:
    """Return what is committed in a topic, once all transactions have ended."""
    until(lambda: sink.offset_at() == sink.offset_at(isolation=0), "the end of all")
    return sink.read()[0]


def live_alone(state: State, client: str, directory: Path) -> None:
    """Let a client live with a topic of its own."""
    sink = Transactor.create(state, f"sink-{client}")
    live(state, client, sink.topic, directory)
    assert committed(sink) == COMMITTED


def fence(state: State, directory: Path) -> None:
    """Let an administrator fence producers; only what was committed is there."""
    sink = Transactor.create(state, "fenced")
    assert run_java("Fencing", directory, state.connection.address, sink.topic) == FENCED
    assert committed(sink) == [b"done", b"next"]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[State]:
    """Apache Kafka."""
    with kafka_with_transactions(tmp_path_factory.mktemp("kafka")) as state:
        yield state


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[State]:
    """Barnabas."""
    with ours_with_transactions(tmp_path_factory.mktemp("ours")) as state:
        yield state


@pytest.mark.parametrize("client", LIVES)
def test_on_kafka(kafka: State, client: str, tmp_path: Path) -> None:
    live_alone(kafka, client, tmp_path)


@pytest.mark.parametrize("client", LIVES)
def test_on_ours(ours: State, client: str, tmp_path: Path) -> None:
    live_alone(ours, client, tmp_path)


def test_all_at_once_in_one_topic(ours: State, tmp_path: Path) -> None:
    sink = Transactor.create(ours, "mixed")

    def live_beside(client: str) -> None:
        with Connection(ours.connection.address, TIMEOUT_S) as connection:
            live(State(connection, {}), client, sink.topic, tmp_path)

    with ThreadPoolExecutor(len(LIVES)) as pool:
        assert list(pool.map(live_beside, LIVES)) == [None] * len(LIVES)
    assert sorted(committed(sink)) == sorted(COMMITTED * len(LIVES))


def test_an_administrator_fences_on_kafka(kafka: State, tmp_path: Path) -> None:
    fence(kafka, tmp_path)


def test_an_administrator_fences_on_ours(ours: State, tmp_path: Path) -> None:
    fence(ours, tmp_path)
