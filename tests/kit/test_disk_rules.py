"""Faults of the disk, each met by a real client."""

import time

import pytest
from confluent_kafka import KafkaError, Producer


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
