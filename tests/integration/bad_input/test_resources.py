"""Clients that use resources without limit: memory, descriptors and other clients' latency."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.integration.bad_input.conftest import FRAME_DEADLINE_MS, HOSTILE
from tests.support.broker_process import BrokerProcess
from tests.support.raw_batches import batch
from tests.support.raw_client import (
    API_VERSIONS,
    FETCH,
    PRODUCE,
    Closed,
    RawClient,
    fetch_body,
    frame,
    header,
    int32,
    produce_body,
)

MIB = 1 << 20
ANNOUNCED_BYTES = 100 * MIB


@contextmanager
def connections(broker: BrokerProcess, count: int) -> Iterator[list[RawClient]]:
    """Open `count` connections, in rounds of fewer than the listening socket's backlog."""
    with ExitStack() as stack:
        clients: list[RawClient] = []
        for number in range(count):
            clients.append(stack.enter_context(RawClient(broker.host, broker.port)))
            if number % 40 == 39:
                clients[-1].api_versions()
        yield clients


def test_500_connections_announce_100_mebibytes_each(broker, control):
    """50 GiB announced, 500 KiB sent: memory grows by what is sent, and the deadline frees it."""
    with connections(broker, 500) as clients:
        for client in clients:
            client.send(int32(ANNOUNCED_BYTES) + bytes(1000))
        control.check_served_for(0.5)
        assert control.memory_growth_bytes() < 16 * MIB
        time.sleep(FRAME_DEADLINE_MS / 1000)
        for client in clients:
            assert client.is_closed(5)
    descriptors_return(broker)


def test_500_silent_connections(broker, control):
    with connections(broker, 500):
        control.check_served_for(0.5)
        assert control.memory_growth_bytes() < 16 * MIB
    descriptors_return(broker)


def test_1000_connections_that_come_and_go(broker, control):
    """In rounds of fewer than the backlog of the listening socket, which would drop the rest."""
    for _ in range(25):
        for _ in range(40):
            RawClient(broker.host, broker.port).close()
        control.check_served(control.client)
    descriptors_return(broker)


def descriptors_return(broker: BrokerProcess) -> None:
    """Wait until the broker has closed the sockets of closed connections, too."""
    until = time.monotonic() + 5
    while broker.descriptor_count() > 150:
        assert time.monotonic() < until, f"{broker.descriptor_count()} descriptors are open"
        time.sleep(0.02)


def test_a_client_that_never_reads(broker, control):
    """It keeps requesting a hundred mebibytes a second time; unread answers must wait."""
    with RawClient(broker.host, broker.port) as feeder:
        big = batch([b"x" * 1_000_000])
        first = feeder.produce(HOSTILE, big).base_offset
        for _ in range(9):
            assert feeder.produce(HOSTILE, big).error == 0
    with RawClient(broker.host, broker.port, timeout_s=0.5) as glutton:
        request = frame(header(FETCH, 4) + fetch_body(HOSTILE, first, size_max=10 * MIB))
        with pytest.raises((TimeoutError, Closed)):
            send_for_ever(glutton, request)
        control.check_served_for(0.5)
        assert control.memory_growth_bytes() < 64 * MIB


def send_for_ever(client: RawClient, request: bytes) -> None:
    """Send until the broker stops reading and the socket's buffers are full."""
    for _ in range(200_000):
        client.send(request)


def test_a_client_that_never_reads_small_answers(broker, control):
    with RawClient(broker.host, broker.port, timeout_s=0.5) as glutton:
        with pytest.raises((TimeoutError, Closed)):
            send_for_ever(glutton, frame(header(API_VERSIONS, 0)) * 100)
        assert control.memory_growth_bytes() < 32 * MIB


def test_a_thousand_produce_requests_at_once_from_one_connection(connect, control):
    """More than may be in flight: the rest waits in the socket; all are answered in order."""
    client = connect()
    client.socket.settimeout(30)
    request = produce_body(HOSTILE, batch([b"x" * 100]))
    client.send(b"".join(frame(header(PRODUCE, 8, n) + request) for n in range(1000)))
    assert [client.receive_frame()[:4] for _ in range(1000)] == [int32(n) for n in range(1000)]


def test_waiting_fetches_whose_clients_leave(broker, control):
    """The broker drops a parked fetch when its connection closes."""
    end = control.client.end_offset(HOSTILE)
    for _ in range(5):
        with connections(broker, 100) as clients:
            for client in clients:
                body = fetch_body(HOSTILE, end, wait_ms=60_000)
                client.send(frame(header(FETCH, 4) + body))
    control.check()
    descriptors_return(broker)


def test_large_frames_from_many_connections_at_once(broker, control):
    """32 requests of 8 MiB, never finished: 256 MiB would be held without a byte budget."""
    piece = bytes(MIB)
    with connections(broker, 32) as clients:
        for client in clients:
            client.socket.settimeout(0.3)
            client.send(int32(ANNOUNCED_BYTES))
        try:
            for _ in range(8):
                for client in clients:
                    client.send(piece)
        except (TimeoutError, Closed):
            pass
        control.check_served_for(0.3)
        assert control.memory_growth_bytes() < 400 * MIB
    time.sleep(0.5)
