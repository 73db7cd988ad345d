"""A topic that its first writer creates, with several partitions: all accept records at once.

Asked of Apache Kafka 4.3 and Barnabas: the partitions that metadata names, a record for each,
the last one first, and the refusal of the partition behind the last. librdkafka's producer, which
does all this by itself, then writes to partition 1 of a topic that nobody has made.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer

from client.kafka.connection import Connection
from protocol.errors import ErrorCode
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from protocol.records import Record, build
from tests.interop.both_brokers import both_brokers

pytestmark = pytest.mark.interop

SETTINGS = {"num.partitions": "4"}
NOW_MS = 1_700_000_000_000
SIDES = {"Kafka": 0, "Barnabas": 1}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Connection]]:
    with both_brokers(tmp_path_factory, SETTINGS) as connections:
        yield connections


def made(connection: Connection, name: str) -> MetadataResponseTopic:
    """Request metadata of a topic, which creates it, until all its partitions have a leader."""
    deadline = time.monotonic() + 120
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True
    )
    while True:
        (topic,) = connection.call(request, MetadataResponse).topics
        errors = {topic.error_code, *(partition.error_code for partition in topic.partitions)}
        if errors == {0}:
            return topic
        # Kafka creates it after it has answered, so its first answer cannot include it.
        assert errors <= {
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.LEADER_NOT_AVAILABLE,
            0,
        }, errors
        assert time.monotonic() < deadline, errors
        time.sleep(0.02)


def produced(side: str, connection: Connection, topic: Any, partition: int) -> tuple[int, int]:
    """Produce a record. On a busy machine Kafka's metadata is known before its replicas lead."""
    records = bytes(build([Record(0, NOW_MS, None, b"first")]))
    data = PartitionProduceData(index=partition, records=records)
    request = ProduceRequest(
        acks=-1,
        timeout_ms=5_000,
        topic_data=[TopicProduceData(topic_id=topic.topic_id, partition_data=[data])],
    )
    deadline = time.monotonic() + 120
    while True:
        (answered,) = connection.call(request, ProduceResponse).responses
        (result,) = answered.partition_responses
        late = side == "Kafka" and result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not late or time.monotonic() > deadline:
            return result.error_code, result.base_offset
        time.sleep(0.02)


@pytest.mark.parametrize("side", SIDES)
def test_every_partition_takes_records_at_once(both: list[Connection], side: str) -> None:
    connection = both[SIDES[side]]
    topic = made(connection, "asked.for")
    assert sorted(partition.partition_index for partition in topic.partitions) == [0, 1, 2, 3]
    found = [produced(side, connection, topic, partition) for partition in (3, 2, 1, 0)]
    assert found == [(0, 0)] * 4
    refused, _ = produced(side, connection, topic, 4)
    assert refused == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("side", SIDES)
def test_a_producer_writes_to_partition_1_of_a_topic_nobody_made(
    both: list[Connection], side: str
) -> None:
    delivered: list[tuple[KafkaError | None, int | None, int | None]] = []

    def done(error: KafkaError | None, message: Message) -> None:
        delivered.append((error, message.partition(), message.offset()))

    producer = Producer({"bootstrap.servers": both[SIDES[side]].address})
    for value in (b"1", b"2"):
        producer.produce("made.by.producing", value, partition=1, on_delivery=done)
    assert producer.flush(20) == 0
    assert delivered == [(None, 1, 0), (None, 1, 1)]
