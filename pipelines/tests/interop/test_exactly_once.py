"""The sink with exactlyOnce on Apache Kafka: cut at each step, and in a real Spark."""

from __future__ import annotations

import json
import uuid

import pytest
from driver_runs import STEPS, Cut, Run, committed, cut, open_ones, wanted
from oracle import kafka
from topics import Topic

from pyspark_barnabas.wire.encode import Record
from pyspark_barnabas.wire.error_codes import Retriable
from pyspark_barnabas.wire.protocol import LATEST

pytestmark = pytest.mark.interop
SETTINGS = {
    "num.partitions": "3",
    "log.retention.ms": "-1",  # the records of a test are old
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "2",
}


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


@pytest.fixture
def topic(node):
    with Topic(node.address) as made:
        yield made


def seen(topic):
    """Return the committed values, once every marker is written: Kafka answers before that."""
    places = dict.fromkeys([(topic.name, index) for index in range(3)], LATEST)

    def attempt():
        if topic.cluster.list_offsets(places, isolation=1) != topic.cluster.list_offsets(places):
            raise Retriable("a marker is missing")

    topic.cluster.persist("waiting for markers", attempt)
    return committed(topic)


@pytest.mark.parametrize("step", STEPS)
def test_a_driver_that_dies_at_any_step_leaves_its_batch_to_the_next(topic, monkeypatch, step):
    query = uuid.uuid4().hex
    first = Run(topic, query)
    first.batch(0)
    parts = first.tasks(1)
    with monkeypatch.context() as patch:
        cut(patch, step)
        with pytest.raises(Cut):
            first.commit(1, parts)
    again = Run(topic, query)
    again.batch(1)
    again.batch(2)
    assert seen(topic) == wanted(0, 1, 2)
    assert open_ones(again) == []


def test_what_timed_out_of_a_decision_is_found_in_the_log_and_written_again(topic, monkeypatch):
    query = uuid.uuid4().hex
    before = Run(topic, query)
    parts = before.tasks(0)
    with monkeypatch.context() as patch:
        cut(patch, "with one task committed")
        with pytest.raises(Cut):
            before.commit(0, parts)
    before.take_over(parts[1])  # aborts it, as its timeout would
    Run(topic, query).batch(0)
    assert seen(topic) == wanted(0)


@pytest.mark.spark
def test_a_stream_and_its_restart(spark, node, topic, tmp_path):
    for partition in range(3):
        topic.append(partition, [Record(b"k%d" % n, b"%d" % n, 1000 + n) for n in range(100)])
    with Topic(node.address) as target:
        for lost in (None, "1"):
            if lost is not None:  # Spark runs its last batch again
                for path in (tmp_path / "commits").glob(f"*{lost}*"):
                    path.unlink()
            query = (
                spark.readStream.format("barnabas")
                .options(**topic.options(startingOffsets="earliest", maxOffsetsPerTrigger="150"))
                .load()
                .select("key", "value")
                .writeStream.format("barnabas")
                .options(**target.options(topic=target.name), exactlyOnce="true")
                .option("checkpointLocation", str(tmp_path))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            if lost is None:
                rows = [json.loads(one.json)["numInputRows"] for one in query.recentProgress]
                assert rows == [150, 150]
            seen(target)
            found = target.rows(("key", "value"), kafka_isolation_level="read_committed")
            assert sorted(found) == sorted(topic.rows(("key", "value")))
