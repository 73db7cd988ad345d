"""An fsync that does not end: whatever does not need it goes on undisturbed.

The fsyncs of some logs are delayed in a real broker. Metadata and fetches of other partitions must
stay fast, other logs must be acknowledged, producers to a stuck log get their own timeout, and a
stop must not wait for the disk.
"""

import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.faults.faulty_broker import FaultyBroker
from tests.support.broker_process import PATIENCE_S
from tests.support.raw_batches import batch
from tests.support.raw_client import (
    METADATA,
    PRODUCE,
    PRODUCE_VERSION,
    RawClient,
    array,
    int16,
    int32,
    sized,
    string,
)

pytestmark = [pytest.mark.faults]

REQUEST_TIMED_OUT = 7
STUCK_S = float(os.environ.get("BARNABAS_STUCK_S", "5"))
FAST_S = 1.0  # a request that waits for the disk takes STUCK_S; a busy machine adds less


def produce(client: RawClient, topic: str, timeout_ms: int) -> int:
    """Produce with acks=all and a timeout of our own; return the error code."""
    partition = array(int32(0) + sized(batch([b"v" * 100])))
    body = string(None) + int16(-1) + int32(timeout_ms) + array(string(topic) + partition)
    answer = client.call(PRODUCE, PRODUCE_VERSION, body)
    answer.take(4)
    answer.string()
    answer.take(8)
    return answer.number(2)


def timed(calls: list[float], call, *arguments) -> object:
    began = time.monotonic()
    result = call(*arguments)
    calls.append(time.monotonic() - began)
    return result


def p99(calls: list[float]) -> float:
    return sorted(calls)[int(len(calls) * 0.99)]


def metadata(client: RawClient) -> None:
    client.call(METADATA, 1, array(string("free")))


def wait_for_stuck(client: RawClient, topics: list[str]) -> None:
    """Start one flush of each topic; it will not end."""
    for topic in topics:
        assert produce(client, topic, 300) == REQUEST_TIMED_OUT


@pytest.mark.parametrize("count", [1, 6])
def test_other_requests_stay_fast_while_fsyncs_are_stuck(count: int, tmp_path: Path) -> None:
    topics = [f"stuck{number}" for number in range(count)]
    broker = FaultyBroker(tmp_path / "data", {})
    broker.recovering = [f"delay:{int(STUCK_S * 1000)} before fdatasync */stuck*-0/*.log 1+"]
    with broker, RawClient(broker.host, broker.port) as client:
        for topic in [*topics, "free"]:
            assert client.create_topic(topic) == 0
        assert produce(client, "free", 5_000) == 0
        calls: dict[str, list[float]] = {"metadata": [], "fetch": [], "produce": []}
        ends = time.monotonic() + STUCK_S
        stuck = threading.Thread(target=hold_up, args=(broker, topics, ends - 1))
        stuck.start()
        time.sleep(0.6)
        while time.monotonic() < ends - 1:
            timed(calls["metadata"], metadata, client)
            fetched = timed(calls["fetch"], client.fetch, "free", 0)
            assert fetched.records
            assert timed(calls["produce"], produce, client, "free", 5_000) == 0
            time.sleep(0.005)
        stuck.join()
        for name, times in calls.items():
            os.write(
                1, f"\n{count} stuck, {name}: {len(times)} calls, p99 {p99(times):.4f} s".encode()
            )
            assert p99(times) < FAST_S, name
        time.sleep(STUCK_S + 0.5)
        assert "Traceback" not in broker.output()
        broker.kill()
        broker.recovering = []
        broker.start()
        with RawClient(broker.host, broker.port) as again:
            assert produce(again, topics[0], 5_000) == 0


def hold_up(broker: FaultyBroker, topics: list[str], until: float) -> None:
    """Produce to the stuck topics again and again; every answer is REQUEST_TIMED_OUT, in time."""
    with RawClient(broker.host, broker.port) as client:
        wait_for_stuck(client, topics)
        while time.monotonic() < until:
            began = time.monotonic()
            assert produce(client, topics[0], 300) == REQUEST_TIMED_OUT
            assert time.monotonic() - began < 0.3 + 5


def test_a_stop_does_not_wait_for_a_stuck_disk(tmp_path: Path) -> None:
    settings = {"barnabas.shutdown.deadline.ms": "1000"}
    broker = FaultyBroker(tmp_path / "data", settings)
    broker.recovering = ["delay:30000 before fdatasync */stuck-0/*.log 1+"]
    with broker:
        with RawClient(broker.host, broker.port) as client:
            assert client.create_topic("stuck") == 0
            assert client.create_topic("free") == 0
            assert produce(client, "free", 5_000) == 0
            wait_for_stuck(client, ["stuck"])
        began = time.monotonic()
        code = broker.send_signal(signal.SIGTERM).wait(PATIENCE_S)
        assert time.monotonic() - began < 15
        assert code == 130
        # Calls for other logs may have ended meanwhile; then the message counts them.
        why = r"does not answer|is slow, \d+ calls have ended but not all"
        assert re.search(rf"the disk of \S+ ({why}): exiting without it\.", broker.output())
        broker.recovering = []
        broker.start()
        with RawClient(broker.host, broker.port) as again:
            assert again.end_offset("free") == 1
            assert again.end_offset("stuck") == 1
