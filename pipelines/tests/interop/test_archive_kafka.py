"""Archive and replay with a real Apache Kafka: its transactions, topics and refusals."""

from __future__ import annotations

import json
import subprocess

import pyarrow.dataset as dataset
import pytest
from decided import wait_until_decided
from kills import PIPELINES, environment, pipeline
from oracle import kafka
from topics import Topic

from pyspark_barnabas.jobs.archive_files import COLUMNS

pytestmark = pytest.mark.interop
confluent_kafka = pytest.importorskip("confluent_kafka")

START_MS = 1_700_000_000_000
SETTINGS = {
    "num.partitions": "3",
    "log.retention.ms": "-1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
KEPT = ("key", "value", "headers", "timestamp", "partition")
COMMITTED = "kafka.isolation.level=read_committed"


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


@pytest.fixture(scope="module")
def topic(node):
    """Ten transactions of 60 records over three partitions, every second one aborted."""
    with Topic(node.address) as made:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": node.address, "transactional.id": "t", "compression.type": "zstd"}
        )
        producer.init_transactions(60)
        for number in range(10):
            producer.begin_transaction()
            for index in range(60):
                producer.produce(
                    made.name,
                    key=None if index % 7 == 0 else b"k%d" % index,
                    value=None if index % 11 == 0 else b"%d-%d" % (number, index),
                    headers=[("h", b"x"), ("n", None)] if index % 3 == 0 else None,
                    timestamp=START_MS + 100 * number + index,
                    partition=index % 3,
                )
            producer.flush()
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        wait_until_decided(node.address, made.name)
        yield made


def run(name, *words):
    ended = subprocess.run(
        pipeline(name, *words, "--master", "local[2]", "--json", "--quiet"),
        cwd=PIPELINES, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    return ended.returncode, json.loads(ended.stdout)


def test_a_replay_of_an_archive_has_what_was_committed(node, topic, tmp_path):
    to = tmp_path / "archive"
    where = ["--bootstrap", node.address]
    code, facts = run("archive", *where, "--topic", topic.name, "--to", to, "--option", COMMITTED,
                      "--max-offsets", 100)  # fmt: skip
    assert (code, facts["records"]) == (0, 300), facts
    table = dataset.dataset(to, format="parquet", partitioning="hive").to_table()
    rows = zip(*(table[name].to_pylist() for name in COLUMNS), strict=True)
    committed = {"kafka_isolation_level": "read_committed"}
    assert sorted(rows, key=lambda row: row[2:5]) == topic.rows(COLUMNS, **committed)
    again = f"{topic.name}-again"
    code, facts = run("replay", to, *where, "--to", again)
    assert (code, facts["records"], facts["made"]) == (0, 300, [again]), facts
    expected, topic.name = topic.rows(KEPT, **committed), again
    try:
        assert topic.rows(KEPT) == expected
    finally:
        topic.name = again.removesuffix("-again")


def test_a_topic_of_fewer_partitions_is_refused(node, topic, tmp_path):
    admin = pytest.importorskip("confluent_kafka.admin")
    to = tmp_path / "archive"
    where = ["--bootstrap", node.address]
    assert run("archive", *where, "--topic", topic.name, "--to", to)[1]["records"] == 600
    client = admin.AdminClient({"bootstrap.servers": node.address})
    for made in client.create_topics([admin.NewTopic("narrow", 2, 1)]).values():
        made.result()
    code, facts = run("replay", to, *where, "--to", "narrow")
    assert code == 1
    assert "narrow has 2 partitions and the archive's" in facts["error"]["text"]
