"""Faults of requests, each met by a real client."""

import asyncio
import gc
import time
import warnings

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from pytest_barnabas import Barnabas, BarnabasError, RuleNotMet

with warnings.catch_warnings():  # it reads its schemas in a way that Python 3.11 warns of
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.errors import KafkaTimeoutError, TopicAuthorizationFailedError


def produced(broker, topic, value=b"v", partition=0, **configs):
    """Write one record with librdkafka; return the error that its client sees."""
    seen = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": "mine",
            "retry.backoff.ms": 10,
            "reconnect.backoff.ms": 10,
            **configs,
        }
    )
    producer.produce(
        topic, value, partition=partition, callback=lambda error, _: seen.append(error)
    )
    assert producer.flush(30) == 0
    (error,) = seen
    return error


def test_an_error_is_answered_once_and_retried(barnabas):
    topic = barnabas.topic()
    rule = barnabas.rule(
        api="produce", topic=topic, error="NOT_LEADER_OR_FOLLOWER", nth=1, must_be_met=True
    )
    assert produced(barnabas, topic) is None
    assert (rule.met, rule.seen) == (1, 2)
    first, second = barnabas.requests("produce", topic=topic)
    assert (first.rules, second.rules) == ([rule.number], [])
    assert (first.client, first.topics) == ("mine", {topic: [0]})
    assert len(barnabas.records(topic)) == 1


def test_an_error_that_cannot_be_retried_reaches_the_program(barnabas):
    topic = barnabas.topic()
    barnabas.rule(api="produce", error="TOPIC_AUTHORIZATION_FAILED", client="mine")
    assert produced(barnabas, topic).code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    with KafkaProducer(bootstrap_servers=barnabas.bootstrap, client_id="other") as other:
        other.send(topic, b"of another client").get(30)
    barnabas.rule(api="produce", error="TOPIC_AUTHORIZATION_FAILED", client="oth*")
    with (
        KafkaProducer(bootstrap_servers=barnabas.bootstrap, client_id="other") as other,
        pytest.raises(TopicAuthorizationFailedError),
    ):
        other.send(topic, b"refused").get(30)
    assert [record.value for record in barnabas.records(topic)] == [b"of another client"]


def test_a_partition_fails_and_the_others_do_not(barnabas):
    topic = barnabas.topic(partitions=2)
    barnabas.produce(topic, "in 0")
    barnabas.produce(topic, "in 1", partition=1)
    rule = barnabas.rule(
        api="fetch", topic=topic, partition=0, error="KAFKA_STORAGE_ERROR", nth="1-3"
    )
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=barnabas.bootstrap,
        auto_offset_reset="earliest",
        retry_backoff_ms=10,
    )
    read = [next(consumer).value for _ in range(2)]
    consumer.close()
    assert read == [b"in 1", b"in 0"]
    assert rule.met == 3


async def test_an_answer_is_late(barnabas):
    topic = barnabas.topic()
    barnabas.rule(api="produce", delay=0.4, nth=1, must_be_met=True)
    async with AIOKafkaProducer(bootstrap_servers=barnabas.bootstrap) as producer:
        begun = time.monotonic()
        await producer.send_and_wait(topic, b"late")
        assert time.monotonic() - begun >= 0.4
        await asyncio.wait_for(producer.send_and_wait(topic, b"in time"), 30)


def test_a_client_gives_up_on_an_answer_that_never_comes(barnabas):
    topic = barnabas.topic()
    barnabas.rule(api="metadata", delay=60)
    with pytest.raises(KafkaTimeoutError):
        KafkaProducer(bootstrap_servers=barnabas.bootstrap, max_block_ms=300).send(topic, b"v")


@pytest.mark.parametrize(("drop", "stored"), [("before", 1), ("after", 2)])
def test_a_connection_is_dropped(barnabas, drop, stored):
    """Without idempotence, what was stored before the connection ended is stored twice."""
    topic = barnabas.topic()
    rule = barnabas.rule(api="produce", drop=drop, nth=1, must_be_met=True)
    assert produced(barnabas, topic, **{"enable.idempotence": False}) is None
    assert rule.seen == 2
    assert len(barnabas.records(topic)) == stored


# kafka-python leaves the socket open of a connection that was cut.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_answer_is_cut(barnabas):
    topic = barnabas.topic()
    rule = barnabas.rule(api="produce", drop=10, nth=1, must_be_met=True)
    with KafkaProducer(
        bootstrap_servers=barnabas.bootstrap, enable_idempotence=False, retry_backoff_ms=10
    ) as producer:
        producer.send(topic, b"v").get(30)
    gc.collect()  # here, not in a later test
    assert rule.seen == 2
    assert len(barnabas.records(topic)) == 2


def test_an_idempotent_producer_stores_it_once(barnabas):
    topic = barnabas.topic()
    barnabas.rule(api="produce", drop="after", nth=1, must_be_met=True)
    assert produced(barnabas, topic, **{"enable.idempotence": True}) is None
    assert len(barnabas.records(topic)) == 1


def test_a_group_meets_errors_of_its_coordinator(barnabas):
    topic = barnabas.topic()
    barnabas.produce(topic, "v")
    joining = barnabas.rule(api="join_group", error="COORDINATOR_LOAD_IN_PROGRESS", nth=1)
    commit = barnabas.rule(api="offset_commit", error="UNKNOWN_MEMBER_ID", nth=1)
    consumer = Consumer(
        {
            "bootstrap.servers": barnabas.bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    message = consumer.poll(30)
    assert message.value() == b"v"
    with pytest.raises(KafkaException) as refused:
        consumer.commit(message, asynchronous=False)
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
    consumer.close()
    assert (joining.met, commit.met) == (1, 1)
    assert barnabas.requests("join_group")[0].group_id == "g"


def test_counts_and_rules_outlive_the_broker(barnabas):
    topic = barnabas.topic()
    rule = barnabas.rule(api="produce", error="NOT_LEADER_OR_FOLLOWER", nth="1-2")
    assert produced(barnabas, topic) is None
    barnabas.kill()
    assert (rule.met, rule.seen) == (2, 3)
    barnabas.restart()
    assert produced(barnabas, topic) is None
    assert (rule.met, rule.seen) == (2, 4)
    assert len(barnabas.requests("produce")) == 4
    rule.remove()
    assert produced(barnabas, topic) is None
    assert rule.seen == 4


def test_a_rule_that_must_be_met_and_is_not_fails():
    with pytest.raises(RuleNotMet, match="never met: 0 requests"), Barnabas() as broker:
        broker.rule(api="produce", error="REQUEST_TIMED_OUT", must_be_met=True)


GOOD = {"api": "produce", "error": "REQUEST_TIMED_OUT"}


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"api": "prodce", "error": 6}, "no api 'prodce'. Did you mean produce"),
        ({"api": "produce", "error": "NOT_LEADER"}, "Did you mean NOT_LEADER_OR_FOLLOWER"),
        ({**GOOD, "topc": "t"}, "no 'topc'"),
        ({**GOOD, "drop": "after"}, "contradict each other"),
        ({**GOOD, "call": "pwrite"}, "at once"),
        ({**GOOD, "nth": "0"}, "nth is '0'"),
        ({**GOOD, "nth": "5-2"}, "ends before it begins"),
        ({**GOOD, "partition": 0}, "names its topic"),
        ({"api": "heartbeat", "topic": "t", "error": 27}, "heartbeat names none"),
        ({"api": "metadata", "topic": "t", "partition": 1, "error": 3}, "names no partitions"),
        ({"api": "produce"}, "does nothing"),
        ({"api": "produce", "drop": "aftr"}, "Did you mean after"),
        ({"api": "produce", "delay": -1}, "delay is -1"),
        ({"error": 6}, "names its api"),
        ({"call": "pwrit", "error": "EIO"}, "Did you mean pwrite"),
        ({"call": "fdatasync", "half": True}, "half is for pwrite"),
        ({"call": "pwrite", "error": "ENOSPACE"}, "Did you mean ENOSPC"),
        ({"call": "pwrite", "api": "produce"}, "at once"),
    ],
)
def test_a_bad_rule_is_refused(barnabas_session, rule, said):
    with pytest.raises(BarnabasError) as refused:
        barnabas_session.rule(**rule)
    assert said in str(refused.value)


def test_rules_that_contradict_each_other_are_refused(barnabas):
    barnabas.rule(**GOOD, nth="2-4")
    barnabas.rule(**GOOD, nth=1)
    barnabas.rule(api="produce", delay=0.1)
    barnabas.rule(**GOOD, topic="t")
    with pytest.raises(BarnabasError, match="contradicts rule 1"):
        barnabas.rule(api="produce", drop="before", nth="4+")
