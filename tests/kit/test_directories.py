"""Snapshots, and power that is cut."""

import time

import pytest
from confluent_kafka import Producer

from pytest_barnabas import BarnabasError


def values(broker, topic):
    return [record.value for record in broker.records(topic)]


def test_a_snapshot_is_restored_as_often_as_wanted(barnabas):
    kept = barnabas.topic("kept", partitions=2)
    barnabas.produce(kept, "before")
    bootstrap = barnabas.bootstrap
    barnabas.snapshot()
    for _ in range(2):
        barnabas.produce(kept, "after")
        barnabas.topic("new")
        barnabas.restore()
        assert barnabas.bootstrap == bootstrap
        assert values(barnabas, kept) == [b"before"]
        with pytest.raises(BarnabasError, match="error 3"):
            barnabas.records("new")
    barnabas.kill()
    barnabas.restore()
    assert barnabas.produce(kept, "again") == 1


def test_a_client_goes_on_after_a_restore(barnabas):
    topic = barnabas.topic()
    producer = Producer({"bootstrap.servers": barnabas.bootstrap, "reconnect.backoff.ms": 10})
    producer.produce(topic, b"first")
    assert producer.flush(30) == 0
    barnabas.snapshot("with-one")
    barnabas.restore("with-one")
    producer.produce(topic, b"second")
    assert producer.flush(30) == 0
    assert values(barnabas, topic) == [b"first", b"second"]


def test_snapshots_have_names(barnabas):
    barnabas.snapshot("one")
    with pytest.raises(BarnabasError, match="already"):
        barnabas.snapshot("one")
    with pytest.raises(BarnabasError, match=r"there are one\. Did you mean one"):
        barnabas.restore("onee")
    with pytest.raises(BarnabasError, match="letters"):
        barnabas.snapshot("../one")


@pytest.mark.parametrize("acks", ["all", "1"])
def test_a_power_cut_keeps_what_was_acknowledged_by_all(barnabas, acks):
    """With acks=1 a record is acknowledged in memory: the sync that never ends comes too late."""
    topic = barnabas.topic()
    barnabas.produce(topic, "synced")
    if acks == "1":
        held = barnabas.rule(call="fdatasync", file=f"{topic}-0/*.log", delay=600, nth=1)
    producer = Producer({"bootstrap.servers": barnabas.bootstrap, "acks": acks})
    producer.produce(topic, b"acknowledged")
    assert producer.flush(30) == 0
    while acks == "1" and not held.met:  # or the sync of the next life would be the first
        time.sleep(0.01)
    barnabas.power_cut()
    with pytest.raises(BarnabasError, match="does not run"):
        barnabas.kill()
    barnabas.restart()
    expected = [b"synced", b"acknowledged"] if acks == "all" else [b"synced"]
    assert values(barnabas, topic) == expected
