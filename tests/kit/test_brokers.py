"""Brokers of the kit: fresh, reachable by real clients, killed and started again."""

import urllib.request

import pytest
from confluent_kafka import Consumer, Producer

from pytest_barnabas import Barnabas, BarnabasError, BrokerError

NAME = "the-same-name-in-each-test"


@pytest.mark.parametrize("turn", [1, 2])
def test_each_test_has_a_fresh_broker(barnabas, turn):
    barnabas.topic(NAME)
    assert barnabas.produce(NAME, f"turn {turn}") == 0
    assert [record.value for record in barnabas.records(NAME)] == [f"turn {turn}".encode()]


def test_a_client_of_kafkas_writes_and_reads(barnabas):
    topic = barnabas.topic(partitions=3, retention_ms=60_000)
    producer = Producer({"bootstrap.servers": barnabas.bootstrap})
    for number in range(6):
        producer.produce(topic, key=str(number), value=b"v", headers={"h": b"1"})
    assert producer.flush(30) == 0
    written = barnabas.records(topic)
    assert sorted(record.key for record in written) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert {record.headers for record in written} == {(("h", b"1"),)}
    consumer = Consumer(
        {
            "bootstrap.servers": barnabas.bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    read = [consumer.poll(30) for _ in range(6)]
    consumer.close()
    assert sorted(message.key() for message in read) == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_records_have_what_was_given(barnabas):
    topic = barnabas.topic(partitions=2)
    barnabas.produce(topic, {"key": "k", "value": None, "headers": {"a": b"b"}, "timestamp": 7})
    barnabas.produce(topic, "one", b"two", key="both", partition=1)
    first, second, third = barnabas.records(topic)
    assert first == (0, 0, 7, b"k", None, (("a", b"b"),))
    assert (second.partition, second.key, second.value) == (1, b"both", b"one")
    assert (third.offset, third.value) == (1, b"two")
    assert [record.value for record in barnabas.records(topic, 1)] == [b"one", b"two"]


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_another_life_has_the_same_ports_and_records(barnabas, how):
    topic, before = barnabas.topic(), (barnabas.bootstrap, barnabas.msgpack, barnabas.http)
    barnabas.produce(topic, "kept")
    getattr(barnabas, how)()
    with pytest.raises(OSError):
        barnabas.records(topic)
    with pytest.raises(BarnabasError, match="does not run"):
        barnabas.kill()
    barnabas.restart()
    assert (barnabas.bootstrap, barnabas.msgpack, barnabas.http) == before
    assert [record.value for record in barnabas.records(topic)] == [b"kept"]
    barnabas.restart()
    assert len(barnabas.records(topic)) == 1


def test_the_page_and_the_log_are_there(barnabas):
    with urllib.request.urlopen(f"{barnabas.http}/readyz", timeout=10) as answer:
        assert answer.status == 200
    assert "Kafka Server started" in barnabas.log


@pytest.mark.barnabas({"num.partitions": 7}, auto_create_topics_enable=True)
def test_a_mark_adds_settings(barnabas):
    producer = Producer({"bootstrap.servers": barnabas.bootstrap})
    producer.produce("made-by-the-producer", b"v", partition=6)
    assert producer.flush(30) == 0
    assert len(barnabas.records("made-by-the-producer", 6)) == 1


def test_the_session_has_one_broker(barnabas_session, request):
    barnabas_session.topic("of-the-session")
    again = request.getfixturevalue("barnabas_session")
    assert again.records("of-the-session") == []


def test_without_pytest():
    with Barnabas() as one, Barnabas({"num.partitions": 2}) as other:
        assert one.bootstrap != other.bootstrap
        topic = one.topic()
        with pytest.raises(BrokerError, match="error 3") as missing:
            other.records(topic)
        assert missing.value.code == 3


def test_what_cannot_be_is_refused(barnabas):
    with pytest.raises(BarnabasError, match=r"num\.partitions"):
        Barnabas({"num.partition": 3})
    with pytest.raises(BarnabasError, match="at least one value"):
        barnabas.produce("t")
    topic = barnabas.topic()
    with pytest.raises(BrokerError, match="error 36"):
        barnabas.topic(topic)
    with pytest.raises(BarnabasError, match=r"0 records after 0\.1 s, expected 1"):
        barnabas.records(topic, at_least=1, timeout=0.1)
    with pytest.raises(BarnabasError, match="no command 'advnce'"):
        barnabas._tell("advnce")


@pytest.mark.barnabas({"barnabas.create.topics": "plain,clicks:3,state:1:1:compact"})
def test_topics_are_there_from_the_start(barnabas):
    assert barnabas.records("plain") == []
    assert barnabas.produce("clicks", "v", partition=2) == 0
    with pytest.raises(BrokerError, match="error 87"):
        barnabas.produce("state", "without a key")
    barnabas.restart()
    assert len(barnabas.records("clicks")) == 1
