"""`report` and `latest` on a real Apache Kafka, compared with what librdkafka consumes."""

from __future__ import annotations

import io
import json
import random

import pytest
from decided import wait_until_decided
from oracle import kafka

from pyspark_barnabas.jobs import cli

pytestmark = [pytest.mark.interop, pytest.mark.spark]
confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

PARTITIONS = 3
START_MS = 1_700_000_000_000
TOPICS = {"plain": {}, "compacted": {"cleanup.policy": "compact", "segment.ms": "500",
                                     "min.cleanable.dirty.ratio": "0.01"}}  # fmt: skip
SETTINGS = {
    "log.retention.ms": "-1",
    "log.cleaner.backoff.ms": "200",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "1",
}
SMALL = {"internal.segment.bytes": "60000", "index.interval.bytes": "2000"}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """A Kafka with both topics, in five codecs, and transactions, every second aborted."""
    try:
        kafka.libs()
    except kafka.OracleMissingError as missing:
        pytest.skip(str(missing))
    started = kafka.KafkaNode(tmp_path_factory.mktemp("kafka"), settings=SETTINGS)
    started.start()
    try:
        client = admin.AdminClient({"bootstrap.servers": started.address})
        new = [admin.NewTopic(name, PARTITIONS, 1, config={**SMALL, **more})
               for name, more in TOPICS.items()]  # fmt: skip
        for made in client.create_topics(new).values():
            made.result()
        dice = random.Random(11)
        for name in TOPICS:
            for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
                producer = confluent_kafka.Producer(
                    {"bootstrap.servers": started.address, "compression.type": codec,
                     "linger.ms": 20}
                )  # fmt: skip
                produce(producer, name, dice, 1200)
            transact(started, name, dice)
        commit(started)
        yield started
    finally:
        started.kill()


def produce(producer, topic, dice, count):
    for number in range(count):
        key = b"k%d" % dice.randrange(300)
        producer.produce(
            topic, key=key, value=None if dice.random() < 0.2 else dice.randbytes(40) * 3,
            partition=sum(key) % PARTITIONS, timestamp=START_MS + number * 100,
        )  # fmt: skip
    producer.flush()


def transact(node, topic, dice):
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": node.address, "transactional.id": topic}
    )
    producer.init_transactions(60)
    for number in range(6):
        producer.begin_transaction()
        produce(producer, topic, dice, 50)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)()
    wait_until_decided(node.address, topic)


def commit(node):
    consumer = confluent_kafka.Consumer({"bootstrap.servers": node.address, "group.id": "g"})
    offsets = [confluent_kafka.TopicPartition("plain", index, 100) for index in range(2)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def consumed(node, topic):
    """Return the number of committed records that a consumer sees, and the newest values."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": node.address, "group.id": "reader", "enable.auto.commit": False,
         "enable.partition.eof": True, "isolation.level": "read_committed"}
    )  # fmt: skip
    consumer.assign(
        [confluent_kafka.TopicPartition(topic, index, 0) for index in range(PARTITIONS)]
    )
    ended, newest, count = set(), {}, 0
    while len(ended) < PARTITIONS:
        message = consumer.poll(30)
        if message.error():
            ended.add(message.partition())
            continue
        count += 1
        newest[message.key()] = message.value()
    consumer.close()
    return count, {key: value for key, value in newest.items() if value is not None}


def pipeline(spark, *words):
    stdout, stderr = io.StringIO(), io.StringIO()
    words = [*map(str, words), "--json", "--quiet"]
    code = cli.main(words, spark=spark, stdout=stdout, stderr=stderr)
    assert stderr.getvalue() == ""
    return code, json.loads(stdout.getvalue())


@pytest.mark.parametrize("topic", TOPICS)
def test_the_newest_values_are_those_that_a_consumer_ends_with(spark, node, tmp_path, topic):
    count, newest = consumed(node, topic)
    words = ("--bootstrap", node.address, "--topic", topic, "--to", tmp_path / "out")
    code, found = pipeline(spark, "latest", *words)
    assert code == 0
    if topic == "plain":  # the cleaner goes on under the other
        assert found["records"] == count
    rows = spark.read.parquet(str(tmp_path / "out")).select("key", "value").collect()
    assert {bytes(row.key): bytes(row.value) for row in rows} == newest


def test_a_report_counts_what_a_consumer_sees_and_what_was_aborted(spark, node, tmp_path):
    count, _ = consumed(node, "plain")
    page = tmp_path / "page.html"
    words = ("--bootstrap", node.address, "--topic", "plain", "--to", page)
    _, found = pipeline(spark, "report", *words)
    assert found["records"] == count + 150  # of transactions that were aborted
    assert found["control_batches"] > 0
    (group,) = found["groups"]
    ends = [row["next_offset"] for row in found["partitions"]]
    assert (group["group"], group["lag"]) == ("g", ends[0] + ends[1] - 200)
