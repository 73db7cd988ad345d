"""Configs changed on a running broker by a real client: the effect at once, and after a crash.

The client is confluent-kafka's AdminClient (librdkafka). It cannot address all brokers, so the test
builds those requests itself. The effects are observed from outside: in the files of the data
directory, and in the answers to produce and fetch. Everything holds for Apache Kafka 4.3, too; its
brokers apply a change a moment after the answer, so the tests wait for each effect.
"""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.support import raw_batches
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient, array, int8, string
from tests.support.under_test import against_kafka, broker_on

SEGMENT_BYTES = 1 << 20  # Kafka's floor
BATCH = raw_batches.batch([bytes(400_000)])  # two of them fit into a segment of a megabyte
MESSAGE_TOO_LARGE, OFFSET_OUT_OF_RANGE = 10, 1
LEADERLESS = (3, 6)
INCREMENTAL_ALTER_CONFIGS, BROKER = 44, 4
DELETE = AlterConfigOpType.DELETE
SETTINGS = {
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
    "log.message.timestamp.type": "LogAppendTime",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A running broker that checks for old segments all the time."""
    one = broker_on(tmp_path, SETTINGS)
    one.start()
    yield one
    one.end()


def change(broker: BrokerProcess, kind: ResourceType, name: str, **values: str | None) -> int:
    """Set or, with None, delete keys; return the error code."""
    named = {key.replace("_", "."): value for key, value in values.items()}
    if not name:
        return change_all_brokers(broker, named)
    entries = [
        ConfigEntry(
            key,
            value or "",
            incremental_operation=DELETE if value is None else AlterConfigOpType.SET,
        )
        for key, value in named.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    client = AdminClient({"bootstrap.servers": broker.address})
    (outcome,) = client.incremental_alter_configs([resource], request_timeout=120).values()
    try:
        outcome.result(30)
    except KafkaException as error:
        return int(error.args[0].code())
    return 0


def change_all_brokers(broker: BrokerProcess, values: dict[str, str | None]) -> int:
    configs = [
        string(key) + int8(int(value is None)) + string(value) for key, value in values.items()
    ]
    resource = int8(BROKER) + string("") + array(*configs)
    with connect(broker) as client:
        answer = client.call(INCREMENTAL_ALTER_CONFIGS, 0, array(resource) + int8(0))
    answer.number(4)
    assert answer.number(4) == 1
    return answer.number(2)


def value_of(broker: BrokerProcess, kind: ResourceType, name: str, key: str) -> tuple[str, int]:
    """Return a key's value and its source, as the broker reports them."""
    client = AdminClient({"bootstrap.servers": broker.address})
    resource = ConfigResource(kind, name)
    (outcome,) = client.describe_configs([resource], request_timeout=120).values()
    entry = outcome.result(30)[key]
    return entry.value, int(entry.source)


def connect(broker: BrokerProcess) -> RawClient:
    return RawClient(broker.host, broker.port, timeout_s=60)


def produce(broker: BrokerProcess, topic: str, batch: bytes = BATCH, count: int = 1) -> int:
    """Produce batches one by one until one is refused; return the last error code."""
    with connect(broker) as client:
        for _ in range(count):
            told = client.produce(topic, batch)
            while told.error in LEADERLESS:  # Kafka's leader takes a moment after a start
                time.sleep(0.05)
                told = client.produce(topic, batch)
            if told.error:
                return told.error
    return 0


def create(broker: BrokerProcess, *topics: str) -> None:
    with connect(broker) as client:
        for topic in topics:
            assert client.create_topic(topic) == 0


def segments(broker: BrokerProcess, topic: str) -> list[int]:
    """Sizes of the partition's segments, in their order."""
    return [path.stat().st_size for path in sorted((broker.data / f"{topic}-0").glob("*.log"))]


def eventually(holds: Callable[[], bool], timeout_s: float = 120) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.05)


def test_a_topics_segment_size_applies_at_once_and_after_a_crash(broker: BrokerProcess) -> None:
    create(broker, "t", "other")
    assert produce(broker, "t", count=4) == 0
    assert len(segments(broker, "t")) == 1
    assert change(broker, ResourceType.TOPIC, "t", segment_bytes=str(SEGMENT_BYTES)) == 0
    eventually(lambda: produce(broker, "t") == 0 and len(segments(broker, "t")) > 1)
    broker.kill()
    broker.start()
    assert value_of(broker, ResourceType.TOPIC, "t", "segment.bytes") == (str(SEGMENT_BYTES), 1)
    before = len(segments(broker, "t"))
    assert produce(broker, "t", count=6) == 0
    assert len(segments(broker, "t")) >= before + 2
    assert max(segments(broker, "t")[1:]) <= SEGMENT_BYTES
    assert produce(broker, "other", count=4) == 0
    assert len(segments(broker, "other")) == 1


@pytest.mark.skipif(against_kafka(), reason="the form of a line of ours")
def test_retention_logs_each_deleted_segment(broker: BrokerProcess) -> None:
    create(broker, "t")
    assert produce(broker, "t") == 0
    assert change(broker, ResourceType.TOPIC, "t", retention_ms="100") == 0
    line = re.compile(r"^\d{4}-\d\d-\d\d \d\d:.* INFO +Deleting segment \S+.*/t-0/", re.M)
    eventually(lambda: line.search(broker.output()) is not None)


def test_a_topics_retention_applies_at_once_and_after_a_crash(broker: BrokerProcess) -> None:
    create(broker, "t", "other")
    for topic in ("t", "other"):
        assert produce(broker, topic) == 0
    assert (
        change(broker, ResourceType.TOPIC, "t", retention_ms="100", file_delete_delay_ms="0") == 0
    )

    def first_is_gone() -> bool:
        with connect(broker) as client:
            return client.fetch("t", 0).error == OFFSET_OUT_OF_RANGE

    eventually(first_is_gone)
    broker.kill()
    broker.start()
    assert value_of(broker, ResourceType.TOPIC, "t", "retention.ms") == ("100", 1)
    assert produce(broker, "t", raw_batches.batch([b"short-lived"])) == 0
    eventually(lambda: sum(segments(broker, "t")) == 0)
    assert sum(segments(broker, "other")) >= len(BATCH)
    # and while retention is long again, records stay
    assert change(broker, ResourceType.TOPIC, "t", retention_ms=None) == 0
    eventually(lambda: value_of(broker, ResourceType.TOPIC, "t", "retention.ms")[0] == "604800000")
    assert produce(broker, "t", raw_batches.batch([b"long-lived"])) == 0
    time.sleep(1)  # some rounds of retention
    assert sum(segments(broker, "t")) > 0


@pytest.mark.parametrize(("name", "source"), [("1", 2), ("", 3)])
def test_the_brokers_message_size_applies_to_all_topics_and_after_a_crash(
    broker: BrokerProcess, name: str, source: int
) -> None:
    create(broker, "t", "own")
    assert change(broker, ResourceType.TOPIC, "own", max_message_bytes="1000000") == 0
    assert produce(broker, "t") == 0
    assert change(broker, ResourceType.BROKER, name, message_max_bytes="1000") == 0
    eventually(lambda: produce(broker, "t") == MESSAGE_TOO_LARGE)
    assert produce(broker, "own") == 0
    broker.kill()
    broker.start()
    assert produce(broker, "t") == MESSAGE_TOO_LARGE
    assert produce(broker, "own") == 0
    assert value_of(broker, ResourceType.BROKER, "1", "message.max.bytes") == ("1000", source)
    assert value_of(broker, ResourceType.TOPIC, "t", "max.message.bytes") == ("1000", source)
    assert change(broker, ResourceType.BROKER, name, message_max_bytes=None) == 0
    eventually(lambda: produce(broker, "t") == 0)


@pytest.mark.parametrize(
    ("kind", "name", "values", "code"),
    [
        (ResourceType.TOPIC, "t", {"retention_ms": "x"}, 40),
        (ResourceType.TOPIC, "t", {"no_such_key": "1"}, 40),
        (ResourceType.TOPIC, "none", {"retention_ms": "1"}, 3),
        (ResourceType.BROKER, "1", {"num_partitions": "3"}, 42),
        (ResourceType.BROKER, "", {"log_segment_bytes": "1"}, 42),
    ],
)
def test_a_refused_change_leaves_everything_as_it_was(
    broker: BrokerProcess, kind: ResourceType, name: str, values: dict[str, str], code: int
) -> None:
    create(broker, "t")
    before = value_of(broker, ResourceType.TOPIC, "t", "retention.ms")
    assert change(broker, kind, name, **values) == code
    assert value_of(broker, ResourceType.TOPIC, "t", "retention.ms") == before
    assert produce(broker, "t") == 0
