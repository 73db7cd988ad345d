"""Transactions of real clients: the same life (`transactional_clients`) on Kafka and Barnabas."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.group_requests import State
from tests.interop.transaction_brokers import kafka_with_transactions, ours_with_transactions
from tests.interop.transaction_requests import until
from tests.interop.transactional_clients import COMMITTED, GROUP_OFFSET, LIVES, Place, run
from tests.interop.transactor import Transactor

pytestmark = pytest.mark.interop

# What each library calls it to be fenced, and to have taken too long.
ERRORS = {
    "java": [
        "InvalidProducerEpochException InvalidProducerEpochException",
        "InvalidProducerEpochException",
        "InvalidTxnStateException",
    ],
    "confluent-kafka": ["_FENCED", "_FENCED"],
    "kafka-python": ["KafkaError", "ProducerFencedError"],
    "aiokafka": ["AssertionError", "ProducerFenced"],
}


def life(state: State, client: str, directory: Path) -> None:
    """Let a client live on a broker, and look at what it left."""
    sink = Transactor.create(state, f"sink-{client}")
    source = Transactor.create(state, f"source-{client}")
    for _ in range(GROUP_OFFSET):
        source.produce(transactional_id=None, transactional=False, producer_id=-1)
    place = Place(
        state.connection.address,
        sink.topic,
        source.topic,
        f"group-{client}",
        client,
        str(directory),
    )
    assert run(client, place) == ERRORS[client]
    until(lambda: sink.offset_at() == sink.offset_at(isolation=0), "the end of all")
    assert sink.read()[0] == COMMITTED
    assert source.offset_of_group(group=place.group, stable=True) == GROUP_OFFSET


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
    life(kafka, client, tmp_path)


@pytest.mark.parametrize("client", LIVES)
def test_on_ours(ours: State, client: str, tmp_path: Path) -> None:
    life(ours, client, tmp_path)
