"""`barnabas top` by Kafka's APIs shows the same of Apache Kafka and of us after the same work."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.both_brokers import both_brokers

pytestmark = [pytest.mark.interop]

ROOT = Path(__file__).parents[2]


def work(address: str) -> None:
    """Thirty records in two partitions; a group that has committed 12 of them."""
    settings: dict[str, str | int | float | bool] = {"bootstrap.servers": address}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic("orders", 2)])["orders"].result(30)
    producer = Producer(settings)
    for number in range(30):
        producer.produce("orders", value=f"{number}", partition=number % 2)
    assert producer.flush(30) == 0
    consumer = Consumer({**settings, "group.id": "billing"})
    places = [TopicPartition("orders", 0, 7), TopicPartition("orders", 1, 5)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def shown(address: str, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "client.cli", "top", "--kafka", "--bootstrap", address,
         "--interval", "0.3", *options],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def told(found: dict[str, Any]) -> tuple[Any, ...]:
    """Return what must be equal: topics with partitions and records, groups with their lag."""
    topics = [
        {name: value for name, value in one.items() if name not in ("size", "bytes", "rates")}
        for one in found["topics"]
        if not one["name"].startswith("__")
    ]
    groups = [
        {name: value for name, value in one.items() if name != "kind"} for one in found["groups"]
    ]
    return topics, groups


def test_top_shows_the_same_of_both(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "1"}
    with both_brokers(tmp_path_factory, settings) as connections:
        addresses = [one.address for one in connections]
        for address in addresses:
            work(address)
        kafka, ours = (json.loads(shown(address, "--json")) for address in addresses)
        assert told(kafka) == told(ours)
        (topic,) = told(kafka)[0]
        assert topic["name"] == "orders"
        (group,) = told(kafka)[1]
        assert group["lag"] == 18
        for address in addresses:
            screen = shown(address, "--once")
            assert "orders" in screen
            assert "billing" in screen
