"""`advance(days=8)` of the test kit deletes by retention what Apache Kafka 4.3 deletes.

The kit's broker gets records of now and lets eight days pass; Kafka, whose clock nobody moves, gets
the same records with timestamps that lie eight days back. Both end with the same offsets.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pytest_barnabas import Barnabas
from tests.interop.oracle.kafka import KafkaNode, libs
from tests.support.patience import Limit

pytestmark = pytest.mark.interop

DAY_MS = 24 * 3600 * 1000
AGE_DAYS = 8
SEGMENT = 1024 * 1024  # Kafka's least
LARGE = 300_000
SETTINGS = {
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "log.cleaner.backoff.ms": "200",  # the cleaner deletes from topics that are compacted, too
}
QUIET_S = 3  # of Kafka: many checks that delete nothing
# topic: its configs, and (days after the first record, bytes) of each record
STORIES: dict[str, tuple[dict[str, str], list[tuple[float, int]]]] = {
    "by-default": ({}, [(0, 10), (0, 10)]),
    "a-month": ({"retention.ms": str(30 * DAY_MS)}, [(0, 10)]),
    "for-ever": ({"retention.ms": "-1"}, [(0, 10)]),
    "two-days-of-nine": ({"retention.ms": str(9 * DAY_MS)}, [(0, 10), (2, 10)]),
    "compacted": ({"cleanup.policy": "compact"}, [(0, 10)]),
    "compacted-and-deleted": ({"cleanup.policy": "compact,delete"}, [(0, 10)]),
    "one-new-in-the-segment": ({}, [(0, 10), (6.5, 10), (0, 10)]),
    "old-segments": (
        {"segment.bytes": str(SEGMENT)},
        [(0, LARGE)] * 4 + [(7.5, LARGE)] * 4 + [(0, LARGE)] * 2,
    ),
    "an-old-segment-behind-a-new-one": (
        {"segment.bytes": str(SEGMENT)},
        [(7.5, LARGE)] * 4 + [(0, LARGE)] * 4,
    ),
    "empty": ({}, []),
}
KEPT = {
    "by-default": (2, 2),
    "a-month": (0, 1),
    "for-ever": (0, 1),
    "two-days-of-nine": (0, 2),
    "compacted": (0, 1),
    "compacted-and-deleted": (1, 1),
    "one-new-in-the-segment": (0, 3),
    "empty": (0, 0),
}


def write(address: str, begun_ms: int) -> None:
    """Create the topics and write their records; the first ones are of `begun_ms`."""
    topics = [
        NewTopic(name, 1, 1, config={"message.timestamp.after.max.ms": str(30 * DAY_MS), **configs})
        for name, (configs, _) in STORIES.items()
    ]
    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics(topics).values():
        made.result(60)
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
    errors = []
    for name, (_, records) in STORIES.items():
        for days, size in records:
            producer.produce(
                name,
                b"v" * size,
                key=b"k",
                timestamp=int(begun_ms + days * DAY_MS),
                callback=lambda error, _: errors.append(error),
            )
            assert producer.flush(60) == 0  # a batch for each record
    assert not any(errors)


def ends(consumer: Consumer) -> dict[str, tuple[int, int]]:
    """Return the first and the next offset of each topic."""
    return {
        name: consumer.get_watermark_offsets(TopicPartition(name, 0), timeout=60)
        for name in STORIES
    }


@pytest.fixture
def of_kafka(tmp_path: Path) -> Iterator[dict[str, tuple[int, int]]]:
    """What an Apache Kafka keeps, once it has deleted what it deletes."""
    libs()
    kafka = KafkaNode(tmp_path / "kafka", settings=SETTINGS)
    try:
        kafka.start()
        write(kafka.address, int(time.time() * 1000) - AGE_DAYS * DAY_MS)
        consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": "looks"})
        limit = Limit(60)
        found, since = ends(consumer), time.monotonic()
        while time.monotonic() - since < QUIET_S or any(found[name] != KEPT[name] for name in KEPT):
            assert not limit.is_over, found
            time.sleep(0.2)
            before, found = found, ends(consumer)
            if found != before:
                since = time.monotonic()
        consumer.close()
        yield found
    finally:
        if kafka.running:
            kafka.kill()


def test_eight_days_delete_what_kafka_deletes(of_kafka: dict[str, tuple[int, int]]) -> None:
    with Barnabas() as broker:
        write(broker.bootstrap, int(time.time() * 1000))
        broker.advance(days=AGE_DAYS)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "looks"})
        ours = ends(consumer)
        consumer.close()
    assert ours == of_kafka
    assert {name: ours[name] for name in KEPT} == KEPT
    assert ours["old-segments"][0] > 0
