"""An unexpected exception in each part of a broker in turn: the rest keeps working.

The broker raises it itself, once (`tests.support.guarded_broker`). It must log the owner of the
failed step, answer or close its request, serve all other clients, and stop cleanly.
"""

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tests.support import broker_process, raw_batches
from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.raw_client import RawClient, array, int32, int64, string

LIST_OFFSETS = 2
WAIT_S = 60
VICTIM_S = 5  # enough for other clients; the victim may wait in vain, or until its broker stops
SETTINGS = {
    "log.cleaner.backoff.ms": "50",
    "log.retention.check.interval.ms": "50",
    "log.initial.task.delay.ms": "50",
    "producer.id.expiration.check.interval.ms": "50",
    "offsets.retention.check.interval.ms": "50",
    "group.initial.rebalance.delay.ms": "0",
}
DUTIES = re.findall(
    r"(?:\(.*|_begin\(.*), self\.(_\w+)\)",
    (ROOT / "broker" / "maintenance" / "housekeeping.py").read_text(),
)
# A duty of brokers with TLS alone; it begins as all others do.
DUTIES.remove("_certificates")
# For each owner, the function that fails.
PLACES = {
    "ACCEPTOR": ["broker.network.acceptor:Acceptor._place"],
    "PROCESSOR": ["broker.network.processor:Processor._submit"],
    "WORKER": ["broker.dispatch:Dispatcher.dispatch"],
    "REQUEST": ["broker.topics:Topics.create"],
    "ANSWERS": ["broker.network.connection:Connection.flush"],
    "PARKED_FETCH": ["broker.partitions.fetch_reading:FetchReading.answer"],
    "TIMESTAMP_LOOKUP": ["storage.segments.timestamp_lookup:TimestampCandidate.look_on"],
    "FLUSH": ["broker.partitions.group_commit:GroupCommit._start"],
    "GROUP_ALARM": ["broker.groups.classic.rebalance:Rebalance._ring"],
    # All of them together.
    "TICKER": [f"broker.maintenance.housekeeping:Housekeeping.{duty}" for duty in DUTIES],
    "COMPACTION": ["broker.maintenance.log_cleaner:LogCleaner._begin_passes"],
}
# Owners whose step is harder to trigger; the test that does it.
ELSEWHERE = {
    "APPEND": "tests/unit/broker/partitions/test_append_queue.py",
    "FETCH_READ": "tests/unit/broker/partitions/test_fetch_reading.py",
    "HTTP": "tests/unit/broker/test_http.py",
    "HANDSHAKE": "tests/unit/broker/network/test_handshakes.py",
    "LOGIN": "tests/unit/broker/network/test_logins.py",
    "THROTTLING": "tests/unit/broker/network/test_throttled_reading.py",
    "GROUP_LOADING": "tests/integration/test_group_restart.py",
    "GROUP_TARGETS": "tests/unit/broker/groups/consumer/test_targets.py",
    "TOPIC_CHANGE": "tests/unit/broker/test_topics.py",
    "TRANSACTION": "tests/unit/broker/test_transactions.py",
    "TRANSACTION_LOADING": "tests/unit/broker/transactions/test_transaction_loading.py",
    "RELOAD": "tests/integration/test_reload.py",
    "TEST_CONTROL": "tests/unit/broker/testing/test_control_link.py",
    "STOP": "tests/unit/broker/lifecycle/test_shutdown.py",
}


def test_every_owner_has_a_case() -> None:
    source = (ROOT / "broker" / "runtime" / "owners.py").read_text()
    owners = set(re.findall(r"^    ([A-Z_]+) = \"", source, re.M))
    assert owners == {*PLACES, *ELSEWHERE}
    assert all((ROOT / path).exists() for path in ELSEWHERE.values())
    assert len(DUTIES) > 8, "the duties were not found in the source"


def work(broker: BrokerProcess, topic: str, wait_s: float) -> None:
    """A little of everything; raises the errors that a client would see."""
    with RawClient(broker.host, broker.port, timeout_s=wait_s) as client:
        assert client.create_topic(topic) == 0
        assert client.produce(topic, raw_batches.batch([b"a"]), acks=1).error == 0
        assert client.produce(topic, raw_batches.batch([b"b"])).error == 0
        fetched = client.fetch(topic, 0)
        assert fetched.error == 0
        assert raw_batches.values_of(fetched.records) == [b"a", b"b"]
        asked = int32(-1) + array(string(topic) + array(int32(0) + int64(1)))
        answer = client.call(LIST_OFFSETS, 1, asked)
        answer.number(4)
        answer.string()
        assert (answer.number(4), answer.number(4), answer.number(2)) == (1, 0, 0)


def park(broker: BrokerProcess, topic: str, wait_s: float) -> None:
    """Wait for records that never come."""
    with RawClient(broker.host, broker.port, timeout_s=wait_s) as client:
        body = int32(-1) + int32(200) + int32(1) + int32(1 << 20) + b"\0"
        asked = array(string(topic) + array(int32(0) + int64(2) + int32(1 << 20)))
        client.call(1, 4, body + asked)


def consume(
    broker: BrokerProcess, topic: str, wait_s: float, is_over: Callable[[], bool] = lambda: False
) -> list[bytes]:
    """Join a group and read both records, unless it is over before."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": f"readers of {topic}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    found: list[bytes] = []
    deadline = time.monotonic() + wait_s
    while len(found) < 2 and time.monotonic() < deadline and not is_over():
        message = consumer.poll(0.05)
        if message is not None and message.error() is None:
            found.append(message.value() or b"")
    consumer.close()
    return found


@pytest.mark.parametrize(("owner", "places"), PLACES.items())
def test_a_failure_is_logged_and_the_rest_keeps_working(
    tmp_path: Path, owner: str, places: list[str]
) -> None:
    environment = {"FAIL_ONCE": " ".join(places)}
    broker = BrokerProcess(tmp_path / "data", SETTINGS, environment=environment)
    with ThreadPoolExecutor(1) as beside, broker:
        told: list[str] = []

        def all_failed() -> bool:
            return all(place in broker.output() for place in places)

        def be_the_victim() -> None:
            for step in (work, park, lambda *given: consume(*given, all_failed)):
                try:
                    step(broker, "victim", VICTIM_S)
                except Exception as error:  # its own step may be the one that failed
                    told.append(f"{step}: {error!r}")

        beside.submit(be_the_victim)
        deadline = time.monotonic() + WAIT_S
        while not all_failed():
            assert time.monotonic() < deadline, (told, broker.output())
            time.sleep(0.05)
        work(broker, "bystander", WAIT_S)
        park(broker, "bystander", WAIT_S)
        assert consume(broker, "bystander", WAIT_S) == [b"a", b"b"]
        assert broker.stop() == 0, broker.output()
    complaints = "\n".join(broker_process.take_complaints())
    if owner not in ("REQUEST", "TIMESTAMP_LOOKUP"):  # their failures are answered
        assert [place for place in places if f"Injected: {place}" not in complaints] == []
