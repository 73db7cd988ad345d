"""The directory of a real Apache Kafka, read without it, has the rows that it gave over the wire.

Written by librdkafka: five codecs, nulls, headers, transactions of which every second is aborted
and one is left open, over many segments; a compacted topic; a trimmed one. Compared while Kafka
runs on the directory, after it stopped, after a kill, and without any of its caches.
"""

from __future__ import annotations

import json
import random
import time

import pytest
from decided import wait_until_decided
from files import ALL, copy_directory, offline_rows
from oracle import kafka

from pyspark_barnabas.options import source_options
from pyspark_barnabas.source.offline_log import DataDirectory
from pyspark_barnabas.source.reader import WireReader

pytestmark = pytest.mark.interop
confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
START_MS = 1_700_000_000_000
PARTITIONS = 3
SETTINGS = {
    "log.retention.ms": "-1",
    "log.cleaner.backoff.ms": "200",
    "transaction.max.timeout.ms": "900000",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
SMALL = {"internal.segment.bytes": "60000", "index.interval.bytes": "2000"}
COMMITTED = {"kafka.isolation.level": "read_committed"}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    try:
        kafka.libs()
    except kafka.OracleMissingError as missing:
        pytest.skip(str(missing))
    started = kafka.KafkaNode(tmp_path_factory.mktemp("kafka"), settings=SETTINGS)
    started.start()
    try:
        yield started
    finally:
        started.kill()


def create(node, name, **config):
    client = admin.AdminClient({"bootstrap.servers": node.address})
    topic = admin.NewTopic(name, PARTITIONS, 1, config={**SMALL, **config})
    for made in client.create_topics([topic]).values():
        made.result()


def produce(producer, topic, dice, count, start_ms, keys=500):
    for number in range(count):
        headers = [("h", dice.choice([None, b"", dice.randbytes(9)]))] * dice.choice([0, 0, 2])
        producer.produce(
            topic,
            key=dice.choice([None, b"", *[b"k%d" % dice.randrange(keys)] * 4])
            if keys > 50
            else b"k%d" % dice.randrange(keys),
            value=dice.choice([None, b"", dice.randbytes(90), b"abc" * dice.randrange(90)]),
            partition=dice.randrange(PARTITIONS),
            headers=headers or None,
            timestamp=start_ms + number + dice.randrange(50),
        )
        if number % 500 == 0:
            producer.poll(0)
    producer.flush()


def transact(node, topic, dice, count):
    """Transactions of two producers side by side; every second is aborted."""
    producers = []
    for name in ("x", "y"):
        made = confluent_kafka.Producer(
            {"bootstrap.servers": node.address, "transactional.id": f"{topic}-{name}",
             "transaction.timeout.ms": 900_000}
        )  # fmt: skip
        made.init_transactions(60)
        producers.append(made)
    for number in range(count):
        for made in producers:
            made.begin_transaction()
        for made in producers:
            produce(made, topic, dice, 120, START_MS + 600_000 + number * 1000)
        for index, made in enumerate(producers):
            (made.abort_transaction if (number + index) % 2 else made.commit_transaction)()
    wait_until_decided(node.address, topic)
    return producers


@pytest.fixture(scope="module")
def topic(node):
    create(node, "t")
    dice = random.Random(7)
    for index, codec in enumerate(CODECS):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": node.address, "compression.type": codec, "linger.ms": 20}
        )
        produce(producer, "t", dice, 1500, START_MS + index * 100_000)
    transact(node, "t", dice, 20)
    return "t"


def wire_rows(node, columns=ALL, **options):
    given = {"kafka.bootstrap.servers": node.address, "subscribe": "t", **options}
    reader = WireReader(columns, source_options(given, streaming=False))
    found = []
    for partition in reader.partitions():
        for table in reader.read(partition):
            found += zip(*(table[name].to_pylist() for name in columns), strict=True)
    return found


def everywhere(numbers):
    return json.dumps({"t": {str(index): number for index, number in enumerate(numbers)}})


CASES = {
    "all": {},
    "committed": COMMITTED,
    "offsets": {"startingOffsets": everywhere([100, -2, 3]),
                "endingOffsets": everywhere([200, -1, 700])},
    "committed offsets": {"startingOffsets": everywhere([2600, 2555, 2501]), **COMMITTED},
    "time": {"startingTimestamp": str(START_MS + 100_500),
             "endingTimestamp": str(START_MS + 602_100)},
    "committed times": {"startingOffsetsByTimestamp": everywhere(
        [START_MS + 605_000, START_MS, START_MS + 600_500]), **COMMITTED},
    "small tasks": {"minPartitions": "40"},
    "small committed tasks": {"minPartitions": "40", **COMMITTED},
    "tasks by records": {"maxRecordsPerPartition": "333", **COMMITTED},
}  # fmt: skip


def agree(node, directory):
    """Compare each case; the wire is asked once."""
    for name, options in CASES.items():
        wire = wire_rows(node, **options)
        assert len(wire) > 500, name
        assert offline_rows(directory, ALL, **{"subscribe": "t", **options}) == wire, name


def test_a_running_kafkas_directory(node, topic):
    agree(node, node.data)
    log = DataDirectory(str(node.data)).logs[topic, 0]
    assert len(log.log.segments) >= 5
    assert len(log.transactions.aborted) == 20
    assert any(node.data.glob("t-0/*.txnindex"))


@pytest.mark.parametrize("lost", ["caches", "all of the last segment", "nothing"])
def test_a_copy_without_what_kafka_keeps_beside_the_log(node, topic, tmp_path, lost):
    """Without .snapshot all transactions are found by a walk; .txnindex adds nothing then."""
    copy = tmp_path / "copy"
    copy_directory(node.data, copy)
    for directory in copy.glob("t-*"):
        last = max(directory.glob("*.log")).stem
        for path in directory.iterdir():
            if path.suffix == ".log" or lost == "nothing":
                continue
            if lost == "caches" or path.stem == last:
                path.unlink()
    agree(node, copy)


def test_an_open_transaction_hides_what_is_behind_it(node, topic, tmp_path):
    create(node, "open")
    dice = random.Random(3)
    first, second = transact(node, "open", dice, 2)
    first.begin_transaction()
    produce(first, "open", dice, 100, START_MS)
    second.begin_transaction()
    produce(second, "open", dice, 100, START_MS)
    second.commit_transaction()
    options = {"subscribe": "open", **COMMITTED}
    wire = wire_rows(node, **options)
    assert len(wire) == 2 * 120
    assert offline_rows(node.data, ALL, **options) == wire
    copy = tmp_path / "copy"
    copy_directory(node.data, copy)
    first.commit_transaction()
    wait_until_decided(node.address, "open")
    assert offline_rows(copy, ALL, **options) == wire
    assert offline_rows(node.data, ALL, **options) == wire_rows(node, **options)
    assert len(offline_rows(node.data, ALL, **options)) == 2 * 120 + 200


def test_a_compacted_and_a_trimmed_topic(node, topic):
    create(node, "compacted", **{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
    create(node, "trimmed")
    dice = random.Random(4)
    producer = confluent_kafka.Producer({"bootstrap.servers": node.address})
    for name in ("compacted", "trimmed"):
        produce(producer, name, dice, 6000, START_MS, keys=40)
    client = admin.AdminClient({"bootstrap.servers": node.address})
    at = confluent_kafka.TopicPartition("trimmed", 1, 777)
    client.delete_records([at])[at].result()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if len(wire_rows(node, ("offset",), subscribe="compacted")) < 5000:
            break
        time.sleep(0.5)
    assert node.stop() in (0, 143)
    files = {name: offline_rows(node.data, ALL, subscribe=name)
             for name in ("compacted", "trimmed", "t")}  # fmt: skip
    committed = offline_rows(node.data, ALL, subscribe="t", **COMMITTED)
    node.start()
    for name, rows in files.items():
        assert rows == wire_rows(node, subscribe=name), name
    assert committed == wire_rows(node, **COMMITTED)
    assert len(files["compacted"]) < 5000
    assert min(row[4] for row in files["trimmed"] if row[3] == 1) == 777


def test_after_a_kill(node, topic, tmp_path):
    """Last of all: what the files hold is what Kafka serves when it is started again."""
    producer = confluent_kafka.Producer({"bootstrap.servers": node.address, "linger.ms": 5})
    produce(producer, "t", random.Random(5), 3000, START_MS + 800_000)
    transact(node, "t", random.Random(6), 3)
    node.kill()
    copy = tmp_path / "copy"
    copy_directory(node.data, copy)
    node.start()
    agree(node, copy)
