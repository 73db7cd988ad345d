"""Time that moves on request, as real clients see it."""

import threading

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition


def watermarks(broker, topic):
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "looks"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    finally:
        consumer.close()


def test_retention_deletes_what_is_too_old(barnabas):
    week, month = barnabas.topic(), barnabas.topic(retention_ms=30 * 86_400_000)
    for topic in (week, month):
        barnabas.produce(topic, "a", "b")
    barnabas.advance(days=6)
    assert watermarks(barnabas, week) == (0, 2)
    barnabas.advance(days=2)
    assert watermarks(barnabas, week) == (2, 2)
    assert watermarks(barnabas, month) == (0, 2)
    assert barnabas.produce(week, "new") == 2


def test_retention_deletes_what_was_just_written(barnabas):
    topic = barnabas.topic(retention_ms=60_000)
    barnabas.produce(topic, "a")
    barnabas.advance(minutes=10)
    assert watermarks(barnabas, topic) == (1, 1)


def test_compaction_has_run(barnabas):
    topic = barnabas.topic(
        cleanup_policy="compact", segment_ms=1_000, min_cleanable_dirty_ratio=0.01
    )
    for number in range(20):
        barnabas.produce(topic, str(number), key="k")
    for key in ("k", "other"):  # each rolls the segment before it
        barnabas.advance(minutes=5)
        barnabas.produce(topic, "last", key=key)
    barnabas.advance(hours=1)
    assert [record.key for record in barnabas.records(topic)] == [b"k", b"other"]


def test_time_does_not_go_back_with_a_restart(barnabas):
    topic = barnabas.topic()
    barnabas.advance(days=1)
    barnabas.restart()
    barnabas.produce(topic, "v")
    barnabas.advance(hours=1)
    barnabas.produce(topic, "w")
    first, second = barnabas.records(topic)
    assert 3_600_000 <= second.timestamp - first.timestamp < 3_700_000


def member(broker, name):
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": name,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 45_000,
            "heartbeat.interval.ms": 100,
        }
    )
    consumer.subscribe(["shared"])
    return consumer


def assigned(consumer, count):
    for _ in range(300):
        consumer.poll(0.1)
        if len(consumer.assignment()) == count:
            return
    raise AssertionError(f"{len(consumer.assignment())} partitions, expected {count}")


def test_a_session_ends_at_once(barnabas):
    barnabas.topic("shared", partitions=2)
    lost = member(barnabas, "lost")
    assigned(lost, 2)
    silence = barnabas.rule(api="*", client="lost", drop="before")
    other = member(barnabas, "other")
    for _ in range(20):
        other.poll(0.05)
    assert other.assignment() == []
    barnabas.advance(seconds=46)
    assigned(other, 2)
    silence.remove()
    other.close()
    lost.close()


def test_a_transaction_times_out(barnabas):
    topic = barnabas.topic()
    producer = Producer(
        {
            "bootstrap.servers": barnabas.bootstrap,
            "transactional.id": "t",
            "transaction.timeout.ms": 60_000,
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"never seen")
    producer.flush(30)
    assert len(barnabas.records(topic, committed=False)) == 1
    barnabas.advance(minutes=2)
    barnabas.produce(topic, "behind it")
    assert [record.value for record in barnabas.records(topic, at_least=1)] == [b"behind it"]
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction(30)
    assert refused.value.args[0].fatal() or refused.value.args[0].txn_requires_abort()


def producers(broker, topic):
    body = {"topics": [{"name": topic, "partition_indexes": [0]}]}
    answer = broker._msgpack_caller().call("describe_producers", body)
    return answer["topics"][0]["partitions"][0]["active_producers"]


def test_producers_expire(barnabas):
    topic = barnabas.topic()
    producer = Producer({"bootstrap.servers": barnabas.bootstrap, "enable.idempotence": True})
    producer.produce(topic, b"v")
    producer.flush(30)
    assert len(producers(barnabas, topic)) == 1
    barnabas.advance(days=2)
    assert producers(barnabas, topic) == []


def test_an_answer_that_waits_comes(barnabas):
    topic = barnabas.topic()
    topic_id = barnabas._records._id_of(topic)
    asked = {
        "partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "log_start_offset": -1,
        "partition_max_bytes": 1_000,
    }  # fmt: skip
    body = {
        "max_wait_ms": 600_000, "min_bytes": 1, "max_bytes": 1_000, "isolation_level": 0,
        "topics": [{"topic_id": topic_id, "partitions": [asked]}],
    }  # fmt: skip
    answers = []
    caller = barnabas._msgpack_caller()
    waiting = threading.Thread(target=lambda: answers.append(caller.call("fetch", body)))
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    barnabas.advance(minutes=11)
    waiting.join(10)
    assert answers[0]["responses"][0]["partitions"][0]["records"] == []
