"""Stops and starts, as an operator does them, and what the broker must hold afterwards.

Exit codes and texts are Barnabas's own (0 after SIGTERM, Kafka's JVM: 143), so the tests that
look at them are skipped if the broker under test is Kafka.
"""

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import raw_batches
from tests.support.broker_process import PATIENCE_S, BrokerNotReady, BrokerProcess
from tests.support.raw_client import RawClient, topic_to_create
from tests.support.under_test import against_kafka, broker_on

TOPICS, PARTITIONS = 20, 50
EXIT_FORCED = 130
LEADERLESS = (3, 6)  # UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER
ours_only = pytest.mark.skipif(against_kafka(), reason="an exit code or text that Kafka has not")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A running broker on a fresh directory."""
    one = broker_on(tmp_path)
    one.start()
    yield one
    one.end()


def connect(broker: BrokerProcess) -> RawClient:
    """A connection with timeouts for a busy machine."""
    return RawClient(broker.host, broker.port, timeout_s=60)


def produce(client: RawClient, topic: str, value: bytes, partition: int = 0, acks: int = -1) -> int:
    """Produce one record and return its offset; waits for a leader (Kafka elects one late)."""
    while True:
        told = client.produce(topic, raw_batches.batch([value]), partition, acks)
        if told.error not in LEADERLESS or not against_kafka():
            assert told.error == 0, told
            return told.base_offset
        time.sleep(0.05)


def read(client: RawClient, topic: str, partition: int = 0) -> list[bytes]:
    """Every value of a partition, in order."""
    while (answer := client.fetch(topic, 0, partition)).error in LEADERLESS and against_kafka():
        time.sleep(0.05)
    assert answer.error == 0
    return raw_batches.values_of(answer.records)


def test_a_thousand_partitions_survive_a_clean_stop(broker: BrokerProcess) -> None:
    names = [f"topic-{number}" for number in range(TOPICS)]
    with connect(broker) as client:
        for name in names:  # one by one: Kafka bounds what one request may create
            assert client.create_topics(topic_to_create(name, PARTITIONS)) == [0]
        for name in names:
            for partition in range(PARTITIONS):
                assert produce(client, name, f"{name}/{partition}".encode(), partition, 1) == 0
    broker.stop(60)
    assert (broker.data / ".kafka_cleanshutdown").exists()
    broker.start(60)
    with connect(broker) as client:
        for name in names:
            for partition in range(PARTITIONS):
                assert read(client, name, partition) == [f"{name}/{partition}".encode()]
                assert client.end_offset(name, partition) == 1
        assert produce(client, names[0], b"and on") == 1


@ours_only
def test_sigterm_and_sigint_stop_cleanly(broker: BrokerProcess) -> None:
    assert broker.stop() == 0
    broker.start()
    assert broker.send_signal(signal.SIGINT).wait(PATIENCE_S) == 0
    assert (broker.data / ".kafka_cleanshutdown").exists()


@ours_only
@pytest.mark.parametrize("count", [2, 3])
def test_more_sigterms_shorten_the_stop_but_lose_no_acknowledged_record(
    broker: BrokerProcess, count: int
) -> None:
    with connect(broker) as client:
        assert client.create_topic("kept", 4) == 0
        for number in range(40):
            produce(client, "kept", b"%d" % number, number % 4)
        for _ in range(count):
            broker.send_signal(signal.SIGTERM)
            time.sleep(0.003)
        assert broker.process is not None
        code = broker.process.wait(PATIENCE_S)
    assert code in ((0,) if count == 2 else (0, EXIT_FORCED)), broker.output()
    assert "does not answer" not in broker.output()
    # the clean-shutdown marker exists exactly when the stop was clean
    assert (broker.data / ".kafka_cleanshutdown").exists() == (code == 0)
    broker.start()
    with connect(broker) as client:
        for partition in range(4):
            wanted = [b"%d" % number for number in range(partition, 40, 4)]
            assert read(client, "kept", partition) == wanted


def test_acknowledged_records_survive_kill_9(broker: BrokerProcess) -> None:
    with connect(broker) as client:
        assert client.create_topic("kept", 2) == 0
        for acks in (1, -1):  # the page cache outlives the process
            assert produce(client, "kept", b"acks %d" % acks, 0, acks) == (0 if acks == 1 else 1)
    broker.kill()
    assert not (broker.data / ".kafka_cleanshutdown").exists()
    broker.start()
    with connect(broker) as client:
        assert read(client, "kept") == [b"acks 1", b"acks -1"]
        assert client.end_offset("kept", 0) == 2
        assert produce(client, "kept", b"next") == 2


def test_a_deleted_topic_stays_deleted(broker: BrokerProcess) -> None:
    with connect(broker) as client:
        assert client.create_topic("gone") == 0
        assert client.create_topic("stays") == 0
        produce(client, "gone", b"x")
        produce(client, "stays", b"y")
        body = b"\0\0\0\x01\0\x04gone" + (10_000).to_bytes(4, "big")
        answer = client.call(20, 3, body)
        answer.take(8)
        assert (answer.string(), answer.number(2)) == ("gone", 0)
    broker.kill()
    broker.start()
    with connect(broker) as client:
        assert client.produce("gone", raw_batches.batch([b"z"])).error == 3
        assert read(client, "stays") == [b"y"]
        # created again, it is a new topic without the old records
        assert client.create_topic("gone") == 0
        assert produce(client, "gone", b"new") == 0
        assert read(client, "gone") == [b"new"]


@ours_only
def test_a_second_broker_on_the_same_directory_is_refused(broker: BrokerProcess) -> None:
    with connect(broker) as client:
        assert client.create_topic("mine") == 0
        other = BrokerProcess(broker.data)
        other.output_path = broker.data.parent / "other.output"
        with pytest.raises(BrokerNotReady) as refused:
            other.start()
        assert other.process is not None
        assert other.process.returncode == 1
        said = str(refused.value)
        assert "Failed to acquire lock on file .lock in" in said
        assert "is using this directory" in said
        assert "Traceback" not in said
        assert produce(client, "mine", b"undisturbed") == 0


@ours_only
def test_a_port_that_is_taken_is_refused_in_one_line(broker: BrokerProcess, tmp_path: Path) -> None:
    other = BrokerProcess(tmp_path / "other", port=broker.port)
    # start() may take the first broker's port as a sign of readiness, so wait for the exit, too
    with contextlib.suppress(BrokerNotReady):
        other.start()
    assert other.process is not None
    assert other.process.wait(PATIENCE_S) == 1
    assert str(broker.port) in other.output()
    assert "Traceback" not in other.output()
