"""A connection over TLS: answers in pieces, waits, and the last requests of one that closes."""

import asyncio
import ssl
from types import SimpleNamespace
from typing import Any

import pytest

from broker.network.connection import JOINED_BYTES_MAX
from broker.network.reading import Hold
from broker.network.tls_connection import PIECE_BYTES, TlsConnection
from broker.runtime.request import ANONYMOUS, ConnectionInfo
from broker.security.principal_mapping import NoMatchingRule
from tests.support.fake_connection import LISTENER
from tests.support.fake_transport import FakeTransport
from tests.unit.broker.network.test_connection import NumberDialect, Rig


class Transport(FakeTransport):
    """Keeps each write; says it is full after some."""

    def __init__(self, full_after: int = 1 << 30) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.full_after = full_after
        self.undelivered = b""
        self.owner: TlsConnection | None = None

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        assert name == "ssl_object"
        return SimpleNamespace(getpeercert=lambda *, binary_form: b"certificate", read=self.read)

    def read(self, size: int, buffer: memoryview) -> int:
        """What the loop has received and not delivered."""
        if not self.undelivered:
            raise ssl.SSLWantReadError
        piece = self.undelivered[: min(size, 7)]
        self.undelivered = self.undelivered[len(piece) :]
        buffer[: len(piece)] = piece
        return len(piece)

    def write(self, data: Any) -> None:
        self.sizes.append(len(data))
        super().write(data)
        if len(self.sizes) >= self.full_after and self.owner is not None:
            self.full_after = 1 << 30
            self.owner.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))


class Tls:
    """Names every client alice, or none."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses

    def principal_of(self, peer_certificate: bytes | None) -> str:
        assert peer_certificate == b"certificate"
        if self.refuses:
            raise NoMatchingRule("no rule")
        return "User:alice"


class TlsRig(Rig):
    """One processor with one TLS connection."""

    def begin(self, transport: Transport, *, refuses: bool = False, **bounds: int) -> TlsConnection:
        info = ConnectionInfo(LISTENER, NumberDialect(), ("127.0.0.1", 9092), ("127.0.0.1", 50000))
        assert info.principal == ANONYMOUS
        connection = TlsConnection(self.processor, info, Tls(refuses=refuses))  # type: ignore[arg-type]
        transport.owner = connection
        connection.connection_made(transport)
        return connection


def frames(*numbers: int) -> bytes:
    return b"".join(b"\0\0\0\1" + bytes([number]) for number in numbers)


def receive(connection: TlsConnection, data: bytes) -> None:
    buffer = connection.get_buffer(-1)
    buffer[: len(data)] = data
    connection.buffer_updated(len(data))


@pytest.fixture
def rig() -> Any:
    rig = TlsRig(bytes_max=100_000_000)
    rig.limits.admit("127.0.0.1")
    return rig


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def asked(rig: TlsRig, connection: TlsConnection, *numbers: int) -> list[Any]:
    receive(connection, frames(*numbers))
    rig.processor._submit(connection)
    return list(connection.slots)


async def test_it_joins_its_processor_after_the_handshake_with_its_principal(rig: TlsRig) -> None:
    connection = rig.begin(Transport())
    assert connection in rig.processor.connections
    assert connection.info.principal == "User:alice"
    connection.connection_lost(None)
    assert connection not in rig.processor.connections


async def test_a_client_without_a_principal_is_closed(rig: TlsRig) -> None:
    transport = Transport()
    connection = rig.begin(transport, refuses=True)
    assert transport.ended == "aborted"
    assert connection.info.principal == ANONYMOUS
    assert rig.metrics.protocol_errors == 1


async def test_a_large_answer_leaves_in_pieces_one_a_turn(rig: TlsRig) -> None:
    transport = Transport()
    connection = rig.begin(transport)
    (request,) = await asked(rig, connection, 1)
    answer = bytes(range(256)) * 4096 + b"end"
    connection.respond(request, [b"head", memoryview(answer)])
    connection.flush()
    assert len(transport.sizes) == 1
    await turns(20)
    assert transport.written == b"head" + answer
    assert transport.sizes[0] == len(b"head") + PIECE_BYTES  # no record by itself in a turn
    assert max(transport.sizes) <= PIECE_BYTES + JOINED_BYTES_MAX
    assert rig.answers.used_bytes == 0
    assert not connection.reading.holds


async def test_small_answers_are_one_write(rig: TlsRig) -> None:
    transport = Transport()
    connection = rig.begin(transport)
    for request in await asked(rig, connection, 1, 2, 3):
        connection.respond(request, [b"a", b"b"])
    connection.flush()
    assert transport.sizes == [6]


async def test_an_answer_of_one_piece_is_one_write(rig: TlsRig) -> None:
    transport = Transport()
    connection = rig.begin(transport)
    for request in await asked(rig, connection, 1, 2):
        connection.respond(request, [b"head", memoryview(bytes(PIECE_BYTES // 2 - 4))])
    connection.flush()
    assert transport.sizes == [PIECE_BYTES]
    assert rig.answers.used_bytes == 0


async def test_many_small_answers_behind_a_large_one_leave_together(rig: TlsRig) -> None:
    transport = Transport(full_after=1)
    connection = rig.begin(transport)
    first, *others = await asked(rig, connection, *range(9))
    connection.respond(first, [bytes(PIECE_BYTES)])
    connection.flush()
    for request in others:
        connection.respond(request, [b"head", bytes(JOINED_BYTES_MAX + 1)])
        connection.flush()
    assert len(transport.sizes) == 1
    connection.resume_writing()
    await turns(2)
    assert transport.sizes[1:] == [len(others) * (JOINED_BYTES_MAX + 5)]
    assert rig.answers.used_bytes == 0


async def test_pieces_wait_for_a_client_that_does_not_read(rig: TlsRig) -> None:
    transport = Transport(full_after=2)
    connection = rig.begin(transport)
    (request,) = await asked(rig, connection, 1)
    answer = bytes(8 * PIECE_BYTES)
    connection.respond(request, [answer])
    connection.flush()
    await turns(20)
    assert len(transport.sizes) == 2
    assert rig.answers.used_bytes == len(answer)
    assert connection.reading.holds & Hold.UNSENT
    assert not transport.is_reading()
    connection.resume_writing()
    await turns(20)
    assert transport.written == answer
    assert rig.answers.used_bytes == 0
    assert transport.is_reading()


async def test_a_close_sends_what_waits_first(rig: TlsRig) -> None:
    transport = Transport()
    connection = rig.begin(transport)
    (request,) = await asked(rig, connection, 1)
    connection.respond(request, [bytes(3 * PIECE_BYTES)])
    connection.close()
    assert transport.ended == ""
    await turns(20)
    assert transport.ended == "closed"
    assert len(transport.written) == 3 * PIECE_BYTES


async def test_a_lost_connection_gives_everything_back(rig: TlsRig) -> None:
    transport = Transport(full_after=1)
    connection = rig.begin(transport)
    (request,) = await asked(rig, connection, 1)
    connection.respond(request, [bytes(3 * PIECE_BYTES)])
    connection.flush()
    connection.connection_lost(None)
    await turns(5)
    assert (rig.answers.used_bytes, rig.budget.used_bytes) == (0, 0)


async def test_frames_that_were_not_delivered_before_the_end_are_started(rig: TlsRig) -> None:
    transport = Transport()
    connection = rig.begin(transport)
    connection.reading.hold(Hold.THROTTLED)
    transport.undelivered = frames(1, 2, 3) + b"\0\0"
    connection.connection_lost(None)
    assert connection in rig.processor.connections
    rig.processor._submit(connection)
    assert len(rig.queue) == 3
    assert connection not in rig.processor.connections
    while (request := rig.queue.take()) is not None:
        connection.respond(request, [b"nobody receives this"])
    assert (rig.answers.used_bytes, rig.budget.used_bytes) == (0, 0)


@pytest.mark.parametrize("why", ["a reset", "our own end", "a bad frame", "no login"])
async def test_frames_that_were_not_delivered_before_another_end_are_dropped(
    rig: TlsRig, why: str
) -> None:
    transport = Transport()
    connection = rig.begin(transport)
    transport.undelivered = frames(1)
    if why == "our own end":
        connection.reading.holds |= Hold.CLOSING
    elif why == "a bad frame":
        connection.reading.holds |= Hold.REFUSED
    elif why == "no login":
        connection.gate = SimpleNamespace(is_closed=True)  # type: ignore[assignment]
    connection.connection_lost(ConnectionResetError() if why == "a reset" else None)
    assert connection not in rig.processor.connections
    assert not connection.frames
    assert rig.budget.used_bytes == 0


async def test_frames_before_an_orderly_end_are_started(rig: TlsRig) -> None:
    transport = Transport()
    connection = rig.begin(transport)
    receive(connection, frames(1, 2))
    assert connection.eof_received() is False
    connection.connection_lost(None)
    assert connection in rig.processor.connections
    rig.processor._submit(connection)
    assert len(rig.queue) == 2
    assert connection not in rig.processor.connections
    for request in (rig.queue.take(), rig.queue.take()):
        connection.respond(request, [b"nobody receives this"])
    assert (rig.answers.used_bytes, rig.budget.used_bytes) == (0, 0)


async def test_nothing_is_written_to_a_client_that_has_ended(rig: TlsRig) -> None:
    """The transport would drop it, and after some writes say so in the log."""
    transport = Transport()
    connection = rig.begin(transport)
    (request,) = await asked(rig, connection, 1)
    assert connection.eof_received() is False
    connection.respond(request, [b"head", bytes(2 * PIECE_BYTES)])
    connection.flush()
    await turns(3)
    assert transport.sizes == []
    connection.connection_lost(None)
    assert rig.answers.used_bytes == 0


async def test_frames_before_an_orderly_end_outlast_large_answers_and_sweeps() -> None:
    rig = TlsRig(bytes_max=100_000_000, in_flight_max=1)
    rig.limits.admit("127.0.0.1")
    rig.processor.connections.clear()
    connection = rig.begin(Transport())
    receive(connection, frames(1, 2))
    connection.reading.hold(Hold.THROTTLED)
    connection.eof_received()
    connection.connection_lost(None)
    rig.processor._submit(connection)
    assert connection.frames, "it waits for the answer to the first"
    rig.processor.sweep()
    (request,) = connection.slots
    connection.respond(request, [b"head", bytes(2 * JOINED_BYTES_MAX), b"tail"])
    connection.flush()
    rig.processor._submit(connection)
    assert len(rig.queue) == 2


async def test_frames_before_an_abort_are_dropped(rig: TlsRig) -> None:
    connection = rig.begin(Transport())
    receive(connection, frames(1, 2))
    connection.abort("test")
    connection.connection_lost(None)
    assert connection not in rig.processor.connections
    assert rig.budget.used_bytes == 0
