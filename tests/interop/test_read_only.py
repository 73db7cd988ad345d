"""Apache Kafka's own directories served read-only: stopped, killed, and with transactions.

Kafka writes, is stopped or killed, and the directory is served read-only. Kafka's clients read what
they read from Kafka; afterwards not a byte has changed, and Kafka itself starts on it again.
"""

import time
from pathlib import Path

import pytest

from tests.integration.test_read_only import ReadOnly, served, state_of
from tests.interop.oracle import kafka
from tests.interop.oracle.kafka import KafkaNode

confluent_kafka = pytest.importorskip("confluent_kafka")
pytestmark = pytest.mark.interop

TOPIC, PARTITIONS, COUNT = "t", 3, 300


@pytest.fixture
def node(tmp_path: Path) -> KafkaNode:
    kafka.libs()
    return KafkaNode(tmp_path / "kafka")


def fill(address: str) -> None:
    """Records of three kinds of producers, an aborted transaction, and a committed offset."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        made.result(30)
    plain = confluent_kafka.Producer({"bootstrap.servers": address})
    idempotent = confluent_kafka.Producer(
        {"bootstrap.servers": address, "enable.idempotence": True, "compression.type": "zstd"}
    )
    for producer, name in ((plain, "plain"), (idempotent, "idempotent")):
        for number in range(COUNT):
            producer.produce(TOPIC, f"{name}-{number}", key=str(number))
        assert producer.flush(30) == 0
    settings = {"bootstrap.servers": address, "transactional.id": "tx"}
    transactional = confluent_kafka.Producer(settings)
    transactional.init_transactions(30)
    for commits in (True, False):
        transactional.begin_transaction()
        for number in range(10):
            transactional.produce(TOPIC, f"commits={commits}-{number}", partition=0)
        transactional.flush(30)
        end = transactional.commit_transaction if commits else transactional.abort_transaction
        end(30)
    consumer = consumer_of(address)
    at = confluent_kafka.TopicPartition(TOPIC, 0, 7)
    for tries_left in reversed(range(30)):  # the coordinator's first log is being created
        try:
            consumer.commit(offsets=[at], asynchronous=False)
            break
        except confluent_kafka.KafkaException:
            if not tries_left:
                raise
            time.sleep(1)
    consumer.close()


def consumer_of(address: str) -> "confluent_kafka.Consumer":
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "g",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",
        }
    )


def read(address: str) -> list[tuple[int, int, bytes, bytes]]:
    """Return every record of the topic: partition, offset, key, value."""
    consumer = consumer_of(address)
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, n, 0) for n in range(PARTITIONS)])
    found, ended = [], 0
    while ended < PARTITIONS:
        message = consumer.poll(30)
        assert message is not None
        if message.error() is None:
            found.append((message.partition(), message.offset(), message.key(), message.value()))
        else:
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            ended += 1
    (committed,) = consumer.committed([confluent_kafka.TopicPartition(TOPIC, 0)], timeout=30)
    assert committed.offset == 7
    consumer.close()
    return sorted(found)


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_a_directory_of_kafkas_is_served_and_not_changed(node: KafkaNode, ending: str) -> None:
    node.start()
    try:
        fill(node.address)
        wanted = read(node.address)
    finally:
        getattr(node, ending)()
    data = node.directory / "data"
    was = state_of(data)
    with served(data) as broker:
        assert isinstance(broker, ReadOnly)
        assert read(broker.address) == wanted
    assert state_of(data) == was
    node.start()
    try:
        assert read(node.address) == wanted
    finally:
        node.end()
