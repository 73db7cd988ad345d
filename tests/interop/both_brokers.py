"""An Apache Kafka 4.3 and a Barnabas in parallel, for tests that send the same to both."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from client.kafka.connection import Connection
from tests.interop.oracle.kafka import KafkaNode, libs
from tests.support.broker_process import BrokerProcess

TIMEOUT_S = 10


@contextmanager
def both_brokers(
    tmp_path_factory: pytest.TempPathFactory, settings: Mapping[str, str] | None = None
) -> Iterator[list[Connection]]:
    """Start both with the same settings; yield a connection to Kafka and one to Barnabas.

    Skips the test, with the reason, if Kafka cannot be run.
    """
    libs()
    kafka = KafkaNode(tmp_path_factory.mktemp("kafka"), settings=settings)
    ours = BrokerProcess(tmp_path_factory.mktemp("ours") / "data", settings)
    connections = []
    try:
        for broker in (kafka, ours):
            broker.start()
            connection = Connection(broker.address, TIMEOUT_S)
            connection.open()
            connections.append(connection)
        yield connections
    finally:
        for connection in connections:
            connection.close()
        for broker in (kafka, ours):
            if broker.running:
                broker.kill()
