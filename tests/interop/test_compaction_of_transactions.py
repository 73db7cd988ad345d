"""A compacted topic with transactions, cleaned by Apache Kafka 4.3 and by Barnabas: alike.

Kafka writes the topic with its cleaner off: transactions of three producers side by side, committed
and aborted. Then each cleans a copy of the directory. In a second phase plain records make both
clean again, so that markers whose transactions have no data left get their delete horizon; in a
third these have passed. After each the same batches must be left, with the same lists of aborted
transactions.
"""

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from protocol.record_batch import BatchHeader
from protocol.records import Record, build
from tests.interop.oracle.kafka import KafkaNode, libs
from tests.interop.test_compaction import SETTINGS, TOPIC_CONFIGS, Side, numbers_of
from tests.support import raw_client
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.interop

TOPIC = "mixed"
HORIZON_MS = 2_000
CONFIGS = TOPIC_CONFIGS | {"delete.retention.ms": str(HORIZON_MS)}
OFF = SETTINGS | {"log.cleaner.enable": "false"}

TRANSACTIONS = """
import random, sys
from confluent_kafka import Producer

chance = random.Random(7)
producers = [Producer({"bootstrap.servers": sys.argv[1], "transactional.id": f"id-{n}"})
             for n in range(3)]
for producer in producers:
    producer.init_transactions()
for round in range(60):
    for producer in producers:
        producer.begin_transaction()
    for _ in range(3):
        for producer in producers:
            for _ in range(chance.randrange(1, 4)):
                key = b"key-%d" % chance.randrange(40)
                value = None if chance.random() < 0.1 else b"%d " % round * 20
                producer.produce(sys.argv[2], value, key)
            producer.flush()
    chance.shuffle(producers)
    for producer in producers:
        if chance.random() < 0.6:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
"""


def plain(phase: int) -> list[bytes]:
    """Return batches of plain records, enough for a new segment."""
    chance = random.Random(phase)
    now_ms = int(time.time() * 1000)
    return [
        bytes(build([Record(0, now_ms, b"plain-%d" % chance.randrange(30), b"v" * 200)]))
        for _ in range(120)
    ]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the parent of a directory that Kafka wrote and has not cleaned."""
    libs()
    place = tmp_path_factory.mktemp("written")
    node = KafkaNode(place, settings=OFF)
    node.start()
    try:
        side = Side(node, node.data)
        with side.client() as client:
            topic = raw_client.topic_to_create(TOPIC, configs=CONFIGS)
            assert client.create_topics(topic) == [0]
        command = [sys.executable, "-c", TRANSACTIONS, node.address, TOPIC]
        subprocess.run(command, check=True, timeout=120)
        side.produce(TOPIC, plain(0))
    finally:
        node.stop()
    return place


def lists(side: Side) -> dict[str, bytes]:
    """Return the lists of aborted transactions of the segments that are not empty."""
    paths = sorted((side.data / f"{TOPIC}-0").glob("*.txnindex"))
    return {path.name: content for path in paths if (content := path.read_bytes())}


def left(side: Side) -> list[BatchHeader]:
    return side.headers(TOPIC)


def test_the_same_batches_and_lists_are_left(original: Path, tmp_path: Path) -> None:
    for name in ("theirs", "ours"):
        shutil.copytree(original, tmp_path / name)
    brokers: list[Any] = [
        KafkaNode(tmp_path / "theirs", settings=SETTINGS),
        BrokerProcess(tmp_path / "ours" / "data", SETTINGS),
    ]
    sides = [Side(broker, broker.data) for broker in brokers]
    before = left(sides[0])
    assert lists(sides[0]), "some transactions were aborted"
    try:
        for broker in brokers:
            broker.start()
        found = []
        for phase in range(1, 5):
            for side in sides:
                side.wait_until_clean(TOPIC)
            theirs, ours = (left(side) for side in sides)
            assert [numbers_of(h) for h in ours] == [numbers_of(h) for h in theirs], phase
            assert lists(sides[1]) == lists(sides[0]), phase
            found.append(ours)
            time.sleep(HORIZON_MS / 1000 + 0.5)
            sent = plain(phase)
            for side in sides:
                side.produce(TOPIC, sent)
    finally:
        for broker in brokers:
            sys.stderr.write(broker.output()[-3000:])
            broker.kill()
    markers = [sum(h.is_control and h.record_count > 0 for h in one) for one in (before, *found)]
    assert markers[0] == 180
    assert markers[-1] < markers[1]
    # On a busy machine the horizon may have passed before a phase is looked at.
    waiting = [h for one in found for h in one if h.is_control and h.has_delete_horizon]
    assert waiting, "a marker without data waits for its horizon"
