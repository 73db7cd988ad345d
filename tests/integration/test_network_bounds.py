"""Memory that clients make a broker hold, over real sockets: it is freed when they leave."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess, take_complaints
from tests.support.raw_batches import batch
from tests.support.raw_client import (
    FETCH,
    METADATA,
    PRODUCE,
    RawClient,
    array,
    fetch_body,
    frame,
    header,
    int8,
    int32,
    int64,
    produce_body,
    string,
)

MIB = 1 << 20
TOPIC = "bounded"
SETTINGS = {
    "queued.max.request.bytes": str(4 * MIB),
    "socket.request.max.bytes": str(4 * MIB),
    "socket.receive.buffer.bytes": str(MIB // 16),  # so that the kernel holds little
    "barnabas.answer.bytes.max": str(16 * MIB),
    "message.max.bytes": str(4 * MIB),
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", SETTINGS) as running:
        with RawClient(running.host, running.port, timeout_s=60) as client:
            assert client.create_topic(TOPIC) == 0
            assert client.produce(TOPIC, batch([b"first"])).error == 0
        yield running
        assert running.stop() == 0


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[RawClient]:
    with RawClient(broker.host, broker.port, timeout_s=60) as connected:
        yield connected


def parked_fetch(client: RawClient, number: int = 1) -> bytes:
    body = fetch_body(TOPIC, client.end_offset(TOPIC), wait_ms=2**31 - 1)
    return frame(header(FETCH, 4, number) + body)


def test_the_bytes_of_clients_that_leave_are_released(broker, client):
    """A parked fetch, and after it more than a third of the budget, three times."""
    produce = produce_body(TOPIC, batch([b"x" * (3 * MIB // 2)]), partition=7)  # no such one
    for number in range(9):
        with RawClient(broker.host, broker.port) as leaves:
            leaves.send(parked_fetch(client) + frame(header(PRODUCE, 8) + produce))
            leaves.socket.shutdown(socket.SHUT_WR)
            assert leaves.is_closed(60), f"client {number} got no answer"
    assert client.produce(TOPIC, batch([b"last"])).error == 0


@pytest.mark.parametrize("is_alone", [True, False])
def test_the_bytes_of_requests_without_an_answer_are_released(broker, client, is_alone):
    """Text that is not UTF-8 grows in the answer: too long for Kafka's strings."""
    names = [string(bytes([0xFF - number]) * 32767) for number in range(8)]
    bad = frame(header(METADATA, 1) + array(*names))
    behind = b"" if is_alone else parked_fetch(client) + bad
    for number in range(2 * 4 * MIB // len(bad)):
        with RawClient(broker.host, broker.port) as asks:
            asks.send(bad + behind)
            assert asks.is_closed(60), f"client {number} got no answer"
    assert client.produce(TOPIC, batch([b"last"])).error == 0
    assert "a string may have 32767" in "".join(take_complaints())


def test_new_clients_wait_while_the_request_bytes_are_used_up(broker, client):
    with ExitStack() as stack:
        holders = [stack.enter_context(connect(broker)) for _ in range(2)]
        for holder in holders:  # the broker reads a frame to its end once it has begun
            holder.sendall(int32(4 * MIB) + bytes(3 * MIB))
        for _ in range(4):
            late = stack.enter_context(connect(broker))
            late.settimeout(0.5)
            with pytest.raises(TimeoutError):  # unread bytes fill the kernel's buffers
                late.sendall(int32(4 * MIB) + bytes(3 * MIB))
    assert client.produce(TOPIC, batch([b"last"])).error == 0


def connect(broker: BrokerProcess) -> socket.socket:
    connected = socket.socket()
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MIB // 16)
    connected.settimeout(60)
    connected.connect((broker.host, broker.port))
    return connected


def test_answers_behind_a_waiting_one_do_not_accumulate(broker, client):
    """64 KB of requests that ask for 480 MB."""
    assert client.produce(TOPIC, batch([b"x" * 100_000])).error == 0
    partition = int32(0) + int64(1) + int32(120_000)
    asked = array(string(TOPIC) + array(*[partition] * 400))
    body = int32(-1) + int32(0) + int32(1) + int32(48 * MIB) + int8(0) + asked
    with RawClient(broker.host, broker.port, timeout_s=60) as greedy:
        before_bytes = broker.resident_bytes()
        greedy.send(parked_fetch(client))
        greedy.send(b"".join(frame(header(FETCH, 4, 2 + number) + body) for number in range(10)))
        for _ in range(50):
            assert client.end_offset(TOPIC) == 2
            assert broker.resident_bytes() - before_bytes < 64 * MIB
        assert client.produce(TOPIC, batch([b"releases it"])).error == 0
        for number in range(11):
            answer = greedy.receive_frame()
            assert answer[:4] == int32(1 + number)
            assert number == 0 or len(answer) > 100_000


def test_records_sent_before_a_client_left_are_stored(broker, client):
    """Without acknowledgements: the client sends, closes, and gets no answer."""
    count = 50
    produce = frame(header(PRODUCE, 8) + produce_body(TOPIC, batch([b"x"]), acks=0))
    before = client.end_offset(TOPIC)
    for _ in range(count):
        with RawClient(broker.host, broker.port) as leaves:
            leaves.send(produce)
    until = time.monotonic() + 60
    while (end := client.end_offset(TOPIC)) < before + count:
        assert time.monotonic() < until, f"{end - before} of {count} are there"
