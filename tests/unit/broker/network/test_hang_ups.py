"""Throttled connections whose clients have left end; those that wait, or have sent more, stay."""

import os
import socket
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from broker.network import hang_ups
from broker.network.connection import Connection
from broker.network.reading import Hold
from broker.runtime.request import Request
from config.listeners import Listener
from protocol.dialect import RequestHeader
from tests.support.fake_transport import FakeTransport
from tests.unit.broker.network.test_connection import Rig

ENCRYPTED = Listener("SSL", "SSL", "127.0.0.1", 9092)


class Throttled:
    """A throttled connection of a rig, with a socket and its client's end."""

    def __init__(self, rig: Rig) -> None:
        rig.connect()
        self.rig = rig
        self.connection: Connection = rig.connection
        ours, self.client = socket.socketpair()
        self.transport = FakeTransport()
        self.transport._extra = {"socket": ours}  # type: ignore[attr-defined]
        self.connection.reading.transport = self.transport
        self.connection.reading.holds |= Hold.THROTTLED
        self.ours = ours

    def sweep(self, seconds: int = 1) -> str:
        """Let time pass and the processor look; return how the connection ended."""
        self.rig.clock.advance(seconds * 1_000)
        self.rig.processor.sweep()
        return self.transport.ended


@pytest.fixture
def throttled() -> Iterator[Throttled]:
    rig = Rig()
    rig.processor.connections.clear()  # its own connection would be idle
    made = Throttled(rig)
    yield made
    made.ours.close()
    made.client.close()


def test_a_client_that_waits_stays_for_as_long_as_it_does(throttled: Throttled) -> None:
    throttled.client.send(b"the next request")
    for _ in range(3):
        assert throttled.sweep(seconds=500) == ""


def test_a_client_that_has_left_is_let_go(throttled: Throttled) -> None:
    throttled.client.close()
    assert throttled.sweep() == "aborted"
    assert throttled.rig.metrics.connections_closed_idle == 0


@pytest.mark.parametrize("who", ["the loop", "the broker"])
def test_one_that_has_just_been_closed_is_not_asked_about(throttled: Throttled, who: str) -> None:
    throttled.client.close()
    if who == "the broker":
        throttled.connection.reading.holds |= Hold.CLOSING
    else:
        descriptor = throttled.ours.detach()
        os.close(descriptor)
        gone = SimpleNamespace(fileno=lambda: descriptor)
        throttled.transport._extra = {"socket": gone}  # type: ignore[attr-defined]
    assert throttled.sweep() == ""


def test_one_that_has_ended_its_side_alone_gets_its_answers(throttled: Throttled) -> None:
    throttled.client.shutdown(socket.SHUT_WR)
    throttled.connection._out.append(b"gathered")
    throttled.transport.unsent_bytes = 9
    assert throttled.sweep() == ""
    assert throttled.transport.written == b"gathered"
    throttled.transport.unsent_bytes = 0
    assert throttled.sweep() == "aborted"


def test_one_that_is_not_throttled_is_the_loops_to_end(throttled: Throttled) -> None:
    throttled.connection.reading.holds &= ~Hold.THROTTLED
    throttled.client.close()
    assert throttled.sweep() == ""


@pytest.mark.parametrize("what", ["bytes", "a frame", "a request", "TLS"])
def test_what_a_client_sent_before_it_left_has_the_time_of_an_idle_one(
    throttled: Throttled, what: str
) -> None:
    connection = throttled.connection
    throttled.sweep()
    if what == "bytes":
        throttled.client.send(b"acks=0")
    elif what == "a frame":
        connection.frames.append(bytearray(b"\1"))
    elif what == "a request":
        connection.slots.append(Request(connection, RequestHeader(0, 0, 1, None), None, 9))
    else:
        connection.info.listener = ENCRYPTED
    throttled.client.close()
    assert throttled.sweep(seconds=599) == ""
    assert throttled.sweep(seconds=2) == "aborted"
    assert throttled.rig.metrics.connections_closed_idle == 1


def test_more_than_are_asked_about_at_a_time_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hang_ups, "ASKED_MAX", 2)
    rig = Rig()
    held = [Throttled(rig) for _ in range(6)]
    for one in held[4:]:
        one.client.close()
    for _ in range(3):
        held[0].sweep()
    assert [one.transport.ended for one in held] == [""] * 4 + ["aborted"] * 2
    for one in held:
        one.ours.close()
        one.client.close()
