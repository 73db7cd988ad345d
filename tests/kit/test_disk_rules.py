"""Faults of the disk, each met by a real client."""

import ast
import re
import time
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pytest_barnabas import BarnabasError


def produced(broker, topic, value=b"v", timeout_ms=3_000):
    """Write one record; return the error that its client sees."""
    seen = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "message.timeout.ms": timeout_ms,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 50,
        }
    )
    producer.produce(topic, value, callback=lambda error, _: seen.append(error))
    assert producer.flush(30) == 0
    return seen[0]


@pytest.mark.parametrize(
    "rule",
    [
        {"call": "fdatasync", "error": "EIO"},
        {"call": "pwrite", "error": "EIO"},
        {"call": "pwrite", "half": True},
    ],
    ids=["sync", "write", "half a write"],
)
def test_a_disk_error_reaches_the_producer(barnabas, rule):
    topic = barnabas.topic()
    barnabas.produce(topic, "before")
    made = barnabas.rule(file=f"{topic}-0/*.log", must_be_met=True, **rule)
    error = produced(barnabas, topic, timeout_ms=600)
    assert error.code() in (KafkaError._MSG_TIMED_OUT, KafkaError.KAFKA_STORAGE_ERROR)
    made.remove()
    barnabas.restart()
    assert [record.value for record in barnabas.records(topic)][:1] == [b"before"]


def test_one_write_fails_and_the_producer_retries(barnabas):
    topic = barnabas.topic()
    rule = barnabas.rule(call="pwrite", file=f"{topic}-0/*.log", error="ENOSPC", nth=1)
    assert produced(barnabas, topic) is None
    assert rule.met == 1
    assert [record.value for record in barnabas.records(topic)] == [b"v"]


def test_a_slow_sync_delays_the_acknowledgement(barnabas):
    topic = barnabas.topic()
    barnabas.rule(call="fdatasync", file=f"{topic}-0/*", delay=0.3, nth=1, must_be_met=True)
    begun = time.monotonic()
    assert produced(barnabas, topic) is None
    assert time.monotonic() - begun >= 0.3


def test_a_full_disk_is_waited_for(barnabas):
    topic = barnabas.topic()
    barnabas.fill_disk(free_bytes=2_000)
    assert produced(barnabas, topic, b"small") is None
    error = produced(barnabas, topic, b"large" * 1_000, timeout_ms=500)
    assert error.code() in (KafkaError._MSG_TIMED_OUT, KafkaError.KAFKA_STORAGE_ERROR)
    barnabas.free_disk()
    assert produced(barnabas, topic, b"large" * 1_000) is None
    assert [len(record.value) for record in barnabas.records(topic)] == [5, 5_000]


def test_a_read_error_reaches_the_consumer(barnabas):
    topic = barnabas.topic()
    barnabas.produce(topic, "v")
    rule = barnabas.rule(call="pread", file=f"{topic}-0/*.log", error="EIO", nth=1)
    with pytest.raises(Exception, match="error 56"):
        barnabas.records(topic)
    assert rule.met == 1
    assert len(barnabas.records(topic)) == 1


def consumed(broker, topic):
    """Return the first value that librdkafka reads of a partition."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "g", "fetch.error.backoff.ms": 10}
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    try:
        message = consumer.poll(30)
        while message is not None and message.error():
            message = consumer.poll(30)
        assert message is not None
        return message.value()
    finally:
        consumer.close()


def test_a_read_error_is_retried_by_a_consumer(barnabas):
    topic = barnabas.topic()
    barnabas.produce(topic, "v")
    rule = barnabas.rule(call="pread", file=f"{topic}-0/*.log", error="EIO", nth="1-2")
    assert consumed(barnabas, topic) == b"v"
    assert rule.met == 2


@pytest.mark.parametrize("error", ["EMFILE", "EDQUOT", "EROFS"])
def test_a_log_is_created_when_its_files_can_be(barnabas, error):
    """The topic is recorded, and its log is tried again: the producer waits for it."""
    rule = barnabas.rule(call="create", file="t-0/*", error=error, nth=1, must_be_met=True)
    admin = AdminClient({"bootstrap.servers": barnabas.bootstrap})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)
    assert produced(barnabas, "t", timeout_ms=20_000) is None
    assert rule.met == 1
    assert len(barnabas.records("t")) == 1


def test_a_log_is_opened_when_its_files_can_be(barnabas):
    topic = barnabas.topic()
    barnabas.produce(topic, "v")
    barnabas.rule(call="open", file=f"{topic}-0/*.log", error="EIO", nth=1, must_be_met=True)
    barnabas.restart()
    assert consumed(barnabas, topic) == b"v"


def test_a_directory_is_not_synced(barnabas):
    """What is acknowledged has a name on the disk: the log fails, and is whole after a restart."""
    topic = barnabas.topic()
    barnabas.rule(call="sync_directory", error="EIO", nth=1, must_be_met=True)
    error = produced(barnabas, topic, timeout_ms=600)
    assert error.code() in (KafkaError._MSG_TIMED_OUT, KafkaError.KAFKA_STORAGE_ERROR)
    barnabas.restart()
    assert produced(barnabas, topic) is None


def test_a_topic_is_deleted_though_its_directory_keeps_its_name(barnabas):
    topic = barnabas.topic()
    barnabas.produce(topic, "v")
    barnabas.rule(call="rename", file=f"{topic}-0*", error="EIO", nth=1, must_be_met=True)
    admin = AdminClient({"bootstrap.servers": barnabas.bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    assert topic not in admin.list_topics(timeout=30).topics
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    assert produced(barnabas, topic, b"new", timeout_ms=20_000) is None
    assert [record.value for record in barnabas.records(topic)] == [b"new"]


def test_retention_deletes_though_a_file_stays(barnabas):
    topic = barnabas.topic()
    barnabas.produce(topic, "old")
    barnabas.rule(call="unlink", file="*", error="EIO", nth=1, must_be_met=True)
    barnabas.advance(days=8)
    barnabas.produce(topic, "new")
    barnabas.advance(minutes=2)  # file.delete.delay.ms
    assert consumed(barnabas, topic) == b"new"


def test_a_checkpoint_that_is_not_written_loses_nothing(barnabas):
    topic = barnabas.topic()
    assert produced(barnabas, topic) is None
    barnabas.rule(call="replace", file="*", error="EIO", must_be_met=True)
    barnabas.advance(minutes=5)
    barnabas.kill()
    barnabas.restart()
    assert consumed(barnabas, topic) == b"v"


def test_a_torn_write_is_cut_when_it_can_be(barnabas):
    topic = barnabas.topic()
    barnabas.produce(topic, "v")
    half = barnabas.rule(call="pwrite", file=f"{topic}-0/*.log", half=True)
    assert produced(barnabas, topic, timeout_ms=300) is not None
    half.remove()
    barnabas.kill()
    barnabas.restart()
    assert consumed(barnabas, topic) == b"v"


def test_nothing_is_written_behind_a_torn_write_that_cannot_be_cut(barnabas):
    """Its log takes no more, though the disk works again; the next start cuts it."""
    topic = barnabas.topic()
    barnabas.produce(topic, "before")
    log = f"{topic}-0/*.log"
    barnabas.rule(call="pwrite", file=log, half=True, nth=1, must_be_met=True)
    barnabas.rule(call="truncate", file=log, error="EIO", nth=1, must_be_met=True)
    for _ in range(2):
        error = produced(barnabas, topic, b"refused", timeout_ms=600)
        assert error.code() in (KafkaError._MSG_TIMED_OUT, KafkaError.KAFKA_STORAGE_ERROR)
    barnabas.restart()
    assert produced(barnabas, topic, b"after") is None
    assert [record.value for record in barnabas.records(topic)] == [b"before", b"after"]


def test_every_call_is_met_by_a_client_here(barnabas_session):
    """A call that rules can name and no test has would be a promise without a proof."""
    with pytest.raises(BarnabasError, match="expected one of") as refused:
        barnabas_session.rule(call="other", error="EIO")
    calls = re.findall(r"\w+", str(refused.value).partition("one of ")[2].partition(".")[0])
    assert len(calls) == 10
    named = {
        constant.value
        for constant in ast.walk(ast.parse(Path(__file__).read_text()))
        if isinstance(constant, ast.Constant)
    }
    assert set(calls) <= named
