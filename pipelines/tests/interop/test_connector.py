"""The same rows as Spark's own Kafka connector, from Barnabas and from Apache Kafka.

Both sources read one topic in one session of PySpark 4.2.0: 10,000 records in five codecs, with
headers, nulls, empty values, timestamps out of order, and on Apache Kafka transactions, of which
every second is aborted. Barnabas has no transactions yet.
"""

from __future__ import annotations

import json
import os
import random
import sys
import uuid
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from decided import wait_until_decided
from oracle import connector, kafka

from pyspark_barnabas.options import TOPIC_IDS, sink_options
from pyspark_barnabas.sink.outbox import Outbox, identity
from pyspark_barnabas.sink.writer import write_task
from pyspark_barnabas.wire.cluster import Cluster
from pyspark_barnabas.wire.encode import Record
from pyspark_barnabas.wire.errors import RecordsRefused

pytestmark = [pytest.mark.interop, pytest.mark.spark]
confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

PIPELINES = Path(__file__).parents[2]
START_MS = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 4
PER_CODEC = 2000


@pytest.fixture(scope="module")
def spark():
    try:
        jars = connector.jars(pyspark.__version__)
    except connector.ConnectorMissingError as missing:
        pytest.skip(str(missing))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = f"{PIPELINES}:{os.environ.get('PYTHONPATH', '')}"
    session = (
        pyspark.sql.SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(map(str, jars)))
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "800m")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module", params=["barnabas", "kafka"])
def address(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "barnabas":
        from broker_process import BrokerProcess

        with BrokerProcess(directory / "data", {"log.retention.ms": "-1"}) as broker:
            yield broker.address
        return
    try:
        kafka.libs()
    except kafka.OracleMissingError as missing:
        pytest.skip(str(missing))
    node = kafka.KafkaNode(directory, settings={"log.retention.ms": "-1"})
    node.start()
    try:
        yield node.address
    finally:
        node.kill()


def produce(producer, topic, dice, count, start_ms):
    for number in range(count):
        headers = [
            (f"h{index}", dice.choice([None, b"", dice.randbytes(9)]))
            for index in range(dice.choice([0, 0, 0, 1, 3]))
        ]
        producer.produce(
            topic,
            key=dice.choice([None, b"", b"k%d" % dice.randrange(500)]),
            value=dice.choice([None, b"", dice.randbytes(30), b"abc" * dice.randrange(300)]),
            partition=dice.randrange(PARTITIONS),
            headers=headers or None,
            timestamp=start_ms + number + dice.randrange(50),
        )
        if number % 500 == 0:
            producer.poll(0)
    producer.flush()


@pytest.fixture(scope="module")
def topic(address):
    name = f"t-{uuid.uuid4().hex[:8]}"
    client = admin.AdminClient({"bootstrap.servers": address})
    for made in client.create_topics([admin.NewTopic(name, PARTITIONS, 1)]).values():
        made.result()
    dice = random.Random(7)
    for index, codec in enumerate(CODECS):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": address, "compression.type": codec, "linger.ms": 20}
        )
        produce(producer, name, dice, PER_CODEC, START_MS + index * 100_000)
    return name


@pytest.fixture(scope="module")
def transactions(address, topic):
    """Write twelve, every second aborted; return whether the broker has transactions."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": address, "transactional.id": "x", "compression.type": "lz4"}
    )
    try:
        producer.init_transactions(20)
    except confluent_kafka.KafkaException:
        return False
    dice = random.Random(9)
    for number in range(12):
        producer.begin_transaction()
        produce(producer, topic, dice, 100, START_MS + 900_000)
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    wait_until_decided(address, topic)
    return True


def load(spark, form, address, options):
    reader = spark.read.format(form).option("kafka.bootstrap.servers", address)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def rows(frame):
    return sorted(map(tuple, frame.collect()), key=lambda row: (row[2], row[3], row[4]))


def everywhere(topic, numbers):
    return json.dumps({topic: {str(index): number for index, number in enumerate(numbers)}})


BATCHES = {
    "plain": lambda t: {"subscribe": t},
    "headers": lambda t: {"subscribe": t, "includeHeaders": "true"},
    "committed": lambda t: {"subscribe": t, "kafka.isolation.level": "read_committed"},
    "offsets": lambda t: {
        "subscribe": t,
        "startingOffsets": everywhere(t, [100, -2, 3, 50]),
        "endingOffsets": everywhere(t, [200, -1, 700, 51]),
    },
    "time": lambda t: {
        "subscribe": t,
        "startingTimestamp": str(START_MS + 100_500),
        "endingTimestamp": str(START_MS + 300_100),
    },
    "times": lambda t: {
        "subscribe": t,
        "startingOffsetsByTimestamp": everywhere(
            t, [START_MS + 100_000 * index for index in range(4)]
        ),
    },
    "late": lambda t: {
        "subscribe": t,
        "startingTimestamp": str(START_MS + 10**9),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "split": lambda t: {"subscribe": t, "minPartitions": "9"},
    "pattern": lambda t: {"subscribePattern": t[:5] + ".*"},
    "assign": lambda t: {"assign": json.dumps({t: [1, 3]})},
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_has_the_same_rows(spark, address, topic, transactions, name):
    options = BATCHES[name](topic)
    theirs = load(spark, "kafka", address, options)
    ours = load(spark, "barnabas", address, options)
    assert ours.schema == theirs.schema
    found = rows(theirs)
    assert rows(ours) == found
    if name != "late":
        assert len(found) > 500
        assert ours.rdd.getNumPartitions() == theirs.rdd.getNumPartitions()
    if name == "plain":
        assert len(found) == len(CODECS) * PER_CODEC + 1200 * transactions
    if name == "committed":
        assert len(found) == len(CODECS) * PER_CODEC + 600 * transactions


def stream(spark, form, address, topic, directory, options):
    """Run a stream to its end; return (rows, rows of each micro-batch, offsets of the last)."""
    found, steps = [], []

    def take(frame, _):
        part = [tuple(row) for row in frame.collect()]
        found.extend(part)
        steps.append(len(part))

    reader = spark.readStream.format(form).option("kafka.bootstrap.servers", address)
    for name, value in {"subscribe": topic, "includeHeaders": "true", **options}.items():
        reader = reader.option(name, value)
    query = (
        reader.load()
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(directory / form))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    source = json.loads(query.lastProgress.json)["sources"][0]
    ends = {name: source[name] for name in ("endOffset", "latestOffset")}
    ids = ends["endOffset"].pop(TOPIC_IDS, {})
    assert form == "kafka" or ids.keys() == {topic}
    return sorted(found, key=lambda row: (row[3], row[4])), steps, ends


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "3000"},
        {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed"},
        {"startingTimestamp": str(START_MS + 200_000), "maxOffsetsPerTrigger": "1001"},
    ],
    ids=["limit", "committed", "time"],
)
def test_a_stream_has_the_same_rows_in_the_same_steps(
    spark, address, topic, transactions, tmp_path, options
):
    theirs = stream(spark, "kafka", address, topic, tmp_path, options)
    ours = stream(spark, "barnabas", address, topic, tmp_path, options)
    assert ours == theirs
    assert len(ours[0]) > 5000


def test_the_sink_writes_to_the_same_partitions(spark, address):
    frame = spark.range(3000).selectExpr(
        "cast(id % 700 as string) key", "cast(id as string) value",
        "case when id % 3 = 0 then array(named_struct('key', 'h', 'value', cast('x' as binary))) "
        "end headers",
    )  # fmt: skip
    found = []
    for form in ("kafka", "barnabas"):
        name = f"sink-{form}-{uuid.uuid4().hex[:8]}"
        writer = frame.write.format(form).mode("append")
        writer.option("kafka.bootstrap.servers", address).option("topic", name).save()
        read = load(spark, "barnabas", address, {"subscribe": name, "includeHeaders": "true"})
        found.append(sorted(map(tuple, read.select("partition", "key", "value", "headers")
                                .collect()), key=repr))  # fmt: skip
    assert found[0] == found[1]
    assert len(found[0]) == 3000


def test_a_task_that_is_run_again_is_the_same_producer_to_either_broker(address):
    """Ids that no broker assigned, epochs that begin anywhere; an older epoch is refused."""
    host, port = address.split(":")
    name = f"again-{uuid.uuid4().hex[:8]}"
    options = sink_options(
        {"kafka.bootstrap.servers": f"{host}:{port}", "topic": name, "kafka.batch.size": "2000"}
    )
    rows = [{"key": f"k{number}", "value": f"v{number}"} for number in range(1000)]
    table = pa.RecordBatch.from_pylist(
        rows, schema=pa.schema([("key", pa.string()), ("value", pa.string())])
    )
    query = uuid.uuid4().hex
    found = [
        write_task(options, iter([part]), identity(query, 0, batch_id))
        for part, batch_id in [(table[:333], 5), (table, 5), (table, 5), (table[:10], 6)]
    ]
    assert [(each.sent_count, each.skipped_count) for each in found] == [
        (333, 0),
        (667, 333),
        (0, 1000),
        (10, 0),
    ]
    with pytest.raises(RecordsRefused, match="a later micro-batch"):
        write_task(options, iter([table]), identity(query, 0, 5))
    stale = sink_options({"kafka.bootstrap.servers": address, "topic": name})
    with Cluster(stale.cluster) as cluster:
        outbox = Outbox(cluster, stale, identity(query, 0, 7))
        outbox.open_topic(name)
        write_task(options, iter([table]), identity(query, 0, 8))
        outbox.add(name, 0, Record(b"k", b"v", START_MS))
        with pytest.raises(RecordsRefused, match=r"INVALID_PRODUCER_EPOCH.*a later micro-batch"):
            outbox.close()
