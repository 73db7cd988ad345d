"""Third-party admin clients change a running broker; the changes survive a kill.

Partitions are added while a producer and a consumer are connected; records are
deleted; then the broker is killed and started again. Consuming is by assignment, without groups.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_END, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from tests.support.broker_process import BrokerProcess
from tests.support.under_test import broker_on

with warnings.catch_warnings():
    # While kafka-python is imported, it reads its schemas with a deprecated function.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.admin import KafkaAdminClient
    from kafka.structs import TopicPartition as PythonPartition

TOPIC = "orders"
TIMEOUT_S = 120
REFRESH_MS = 200


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = broker_on(tmp_path)
    broker.start()
    yield broker
    broker.kill()


def librdkafka(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.address, "log_level": 2})


def settled(futures: dict) -> list:
    return [future.result(TIMEOUT_S) for future in futures.values()]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(REFRESH_MS / 1000)


def create(broker: BrokerProcess, partitions: int) -> AdminClient:
    admin = librdkafka(broker)
    settled(admin.create_topics([NewTopic(TOPIC, partitions, 1)]))
    return admin


def partition_count(broker: BrokerProcess) -> int:
    return len(librdkafka(broker).list_topics(TOPIC, timeout=TIMEOUT_S).topics[TOPIC].partitions)


def bounds(broker: BrokerProcess, partition: int) -> tuple[int, int]:
    asked = TopicPartition(TOPIC, partition)
    admin = librdkafka(broker)
    (first,) = settled(admin.list_offsets({asked: OffsetSpec.earliest()}))
    (end,) = settled(admin.list_offsets({asked: OffsetSpec.latest()}))
    return first.offset, end.offset


def fill(broker: BrokerProcess, partition: int, count: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.address, "log_level": 2})
    for number in range(count):
        producer.produce(TOPIC, b"%d" % number, partition=partition)
    assert producer.flush(TIMEOUT_S) == 0


def test_connected_clients_see_new_partitions_which_survive_a_kill(
    broker: BrokerProcess,
) -> None:
    admin = create(broker, 2)
    producer = KafkaProducer(bootstrap_servers=broker.address, metadata_max_age_ms=REFRESH_MS)
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=broker.address,
        group_id=None,
        auto_offset_reset="earliest",
        metadata_max_age_ms=REFRESH_MS,
    )
    producer.send(TOPIC, b"old", partition=0).get(TIMEOUT_S)
    assert next(consumer).value == b"old"

    assert settled(admin.create_partitions([NewPartitions(TOPIC, 5)])) == [None]
    until(lambda: producer.partitions_for(TOPIC) == set(range(5)))
    assert producer.send(TOPIC, b"new", partition=4).get(TIMEOUT_S).offset == 0
    record = next(consumer)
    assert (record.partition, record.value) == (4, b"new")
    consumer.close()
    producer.close()

    broker.kill()
    broker.start()
    assert partition_count(broker) == 5
    assert bounds(broker, 0) == bounds(broker, 4) == (0, 1)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_partition_count_cannot_be_reduced(broker: BrokerProcess, count: int) -> None:
    admin = create(broker, 3)
    with pytest.raises(KafkaException) as caught:
        settled(admin.create_partitions([NewPartitions(TOPIC, count)]))
    assert caught.value.args[0].code() == KafkaError.INVALID_PARTITIONS
    settled(admin.create_partitions([NewPartitions(TOPIC, 9)], validate_only=True))
    assert partition_count(broker) == 3


def test_deleted_records_stay_deleted_after_a_kill(broker: BrokerProcess) -> None:
    """Kafka 4.3 fails this test: it writes its log starts once a minute, and the records return."""
    admin = create(broker, 2)
    fill(broker, 0, 100)
    fill(broker, 1, 10)
    cuts = [TopicPartition(TOPIC, 0, 40), TopicPartition(TOPIC, 1, OFFSET_END)]
    deleted = settled(admin.delete_records(cuts))
    assert sorted(one.low_watermark for one in deleted) == [10, 40]

    broker.kill()
    broker.start()
    assert (bounds(broker, 0), bounds(broker, 1)) == ((40, 100), (10, 10))
    consumer = KafkaConsumer(
        bootstrap_servers=broker.address, group_id=None, auto_offset_reset="earliest"
    )
    consumer.assign([PythonPartition(TOPIC, 0)])
    assert [int(next(consumer).value) for _ in range(60)] == list(range(40, 100))
    consumer.close()
    admin = librdkafka(broker)
    with pytest.raises(KafkaException) as caught:
        settled(admin.delete_records([TopicPartition(TOPIC, 0, 101)]))
    assert caught.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE
    assert bounds(broker, 0) == (40, 100)


def test_kafka_python_describes_the_cluster(broker: BrokerProcess) -> None:
    create(broker, 2)
    fill(broker, 1, 10)
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    (node,) = admin.describe_cluster()["brokers"]
    assert (node["host"], node["port"]) == (broker.host, broker.port)

    ((directory,),) = (one["log_dirs"] for one in admin.describe_log_dirs())
    assert directory["log_dir"] == str(broker.data)
    sizes = {
        (topic["name"], one["partition_index"]): one["partition_size"]
        for topic in directory["topics"]
        for one in topic["partitions"]
    }
    assert sizes[TOPIC, 0] == 0 < sizes[TOPIC, 1]

    (topic,) = admin.describe_topic_partitions([TOPIC])["topics"]
    assert [one["partition_index"] for one in topic["partitions"]] == [0, 1]

    ((quorum,),) = (one["partitions"] for one in admin.describe_metadata_quorum()["topics"])
    assert quorum["leader_id"] == quorum["current_voters"][0]["replica_id"] == 1
    assert quorum["high_watermark"] > 0

    idempotent = KafkaProducer(bootstrap_servers=broker.address, enable_idempotence=True)
    idempotent.send(TOPIC, b"x", partition=0).get(TIMEOUT_S)
    idempotent.close()
    asked = PythonPartition(TOPIC, 0)
    (state,) = admin.describe_producers([asked])[asked].active_producers
    assert state.last_sequence == 0
    admin.close()
