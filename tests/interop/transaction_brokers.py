"""A Kafka, or a Barnabas, whose coordinators are up: for tests of transactions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from client.kafka.connection import Connection
from tests.interop.group_requests import EXISTING, State, await_coordinator
from tests.interop.oracle.kafka import KafkaNode, libs
from tests.interop.transaction_requests import NOT_YET, TIMEOUT_S, until
from tests.interop.transactor import Transactor
from tests.support.broker_process import BrokerProcess

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
}


def ready(connection: Connection) -> State:
    """Wait for the coordinators of transactions and of groups."""
    state = State(connection, {})
    Transactor.create(state, EXISTING)
    first = Transactor.create(state, "first")
    until(lambda: first.find() not in NOT_YET, "the coordinator of transactions")
    first.init()
    await_coordinator(state)
    return state


@contextmanager
def kafka_with_transactions(directory: Path) -> Iterator[State]:
    """Run Apache Kafka in a directory; skip the test if it cannot be run."""
    libs()
    node = KafkaNode(directory, settings=SETTINGS)
    node.start()
    try:
        with Connection(node.address, TIMEOUT_S) as connection:
            yield ready(connection)
    finally:
        node.kill()


@contextmanager
def ours_with_transactions(directory: Path) -> Iterator[State]:
    """Run Barnabas on a directory."""
    with (
        BrokerProcess(directory / "data", SETTINGS) as broker,
        Connection(broker.address, TIMEOUT_S) as connection,
    ):
        yield ready(connection)
