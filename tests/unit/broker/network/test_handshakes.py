"""Handshakes on real sockets: beside the acceptor, bounded in time and number, all given back."""

import asyncio
import functools
import socket
import ssl
import struct
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from broker.network import handshakes as module
from broker.network.handshakes import Handshakes
from broker.runtime.clock import SystemClock
from broker.runtime.metrics import Metrics
from broker.runtime.owners import FailureLog
from broker.runtime.request import ConnectionInfo
from broker.security.tls.server_tls import make_server_tls
from config.load import load
from tests.support import failures
from tests.support.certificates import Authority
from tests.support.fake_connection import LISTENER
from tests.unit.broker.network.test_connection import NumberDialect
from tests.unit.broker.network.test_connection import Rig as ProcessorRig

HELLO = b"\x16\x03\x01\x00\xc0\x01"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


class Rig:
    """Handshakes for one processor; clients are sockets of this process."""

    def __init__(self, authority: Authority) -> None:
        broker = authority.issue("broker")
        given = [f"ssl.certificate={broker.chain_file}", f"ssl.key={broker.key_file}"]
        config = load(set_values=["listeners=SSL://127.0.0.1:1", *given]).config
        self.clock = SystemClock()
        self.tls = make_server_tls(config.tls["SSL"], self.clock.now_ms())
        self.inner = ProcessorRig()
        self.metrics: Metrics = self.inner.metrics
        self.limits = self.inner.limits
        self.processor = self.inner.processor
        self.found: Any = SimpleNamespace(of=lambda listener: self.tls)
        self.handshakes = Handshakes(self.found, self.limits, self.metrics, self.clock)
        self.context = ssl.create_default_context(cafile=authority.file)
        self.clients: list[socket.socket] = []
        self.connections_before = self.metrics.connections_now
        self.admitted_before = self.limits.count

    async def connect(self) -> socket.socket:
        """Return the client's end of a connection whose handshake has begun."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            client = socket.create_connection(server.getsockname())
            accepted, address = server.accept()
        accepted.setblocking(False)
        client.setblocking(False)
        self.clients.append(client)
        self.limits._max = self.limits._per_address_max = 100_000
        assert self.limits.admit(address[0]) is None
        info = ConnectionInfo(LISTENER, NumberDialect(), ("127.0.0.1", 9092), address)
        await self.handshakes.admit(accepted, info, self.processor)
        return client

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0.005)

    async def shake(self, client: socket.socket) -> ssl.SSLObject:
        """Do a client's handshake; return its TLS."""
        reader, writer = await asyncio.open_connection(
            sock=client, ssl=self.context, server_hostname="localhost"
        )
        self.streams = reader, writer
        found: ssl.SSLObject = writer.get_extra_info("ssl_object")
        return found

    @property
    def held(self) -> tuple[int, int, int]:
        """Handshakes, connections, and what counts against the limits, all of this test."""
        return (
            self.metrics.tls_handshakes_now,
            self.metrics.connections_now - self.connections_before,
            self.limits.count - self.admitted_before,
        )

    async def close(self) -> None:
        self.handshakes.stop()
        await self.handshakes.ended()
        for client in self.clients:
            client.close()
        for connection in [*self.processor.connections]:
            if connection is not self.inner.connection:
                connection.abort("the test is over")
        await self.until(lambda: self.held == (0, 0, 0))


@pytest.fixture
def rig(authority: Authority) -> Rig:
    return Rig(authority)


def on_uvloop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on the broker's own kind of loop, and hold it to leave nothing."""

    @functools.wraps(test)
    def run(rig: Rig, **fixtures: Any) -> None:
        async def whole() -> None:
            try:
                await test(rig, **fixtures)
            finally:
                await rig.close()

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(whole())

    return run


async def received(client: socket.socket) -> bytes:
    """Return everything that a client receives until the broker closes."""
    loop = asyncio.get_running_loop()
    data = b""
    async with asyncio.timeout(20):
        while True:
            try:
                piece = await loop.sock_recv(client, 4096)
            except ConnectionResetError:
                return data
            if not piece:
                return data
            data += piece


@on_uvloop
async def test_a_handshake_makes_a_connection(rig: Rig) -> None:
    tls = await rig.shake(await rig.connect())
    assert tls.version() == "TLSv1.3"
    await rig.until(lambda: rig.held == (0, 1, 1))
    assert rig.metrics.tls_handshakes == 1
    connection = list(rig.processor.connections)[-1]
    assert connection.info.principal == "User:ANONYMOUS"


@on_uvloop
async def test_data_behind_the_handshake_arrives(rig: Rig) -> None:
    await rig.shake(await rig.connect())
    rig.streams[1].write(struct.pack(">i", 1) + b"\x07")
    await rig.until(lambda: len(rig.processor.connections) == 2)
    connection = list(rig.processor.connections)[-1]
    await rig.until(lambda: bool(connection.frames))
    assert list(connection.frames) == [bytearray(b"\x07")]


@pytest.mark.parametrize(
    ("sent", "answer", "words"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"\x15\x03\x03\0\2\2\x50", "HTTP"),
        (b"\0\0\0\x10\0\x12\0\0rest", b"\x15\x03\x03\0\2\2\x50", "security.protocol=PLAINTEXT"),
        (b"\x16\x03\x01\xff\xff", b"\x15\x03\x03\0\2\2\x0a", "65535 bytes"),
        (b"\x16\x03\x01\x00\x04abcd", None, "does not follow TLS"),
    ],
)
@on_uvloop
async def test_what_is_no_tls_gets_an_alert_and_a_line(
    rig: Rig, caplog: pytest.LogCaptureFixture, sent: bytes, answer: bytes | None, words: str
) -> None:
    client = await rig.connect()
    client.send(sent)
    data = await received(client)
    assert data == answer if answer is not None else data[:1] in (b"", b"\x15")
    await rig.until(lambda: rig.held == (0, 0, 0))
    assert rig.metrics.tls_handshakes_failed == 1
    (line,) = caplog.messages
    assert "SSL handshake failed" in line
    assert words in line


@pytest.mark.parametrize("sent", [b"", b"\x16", HELLO])
@on_uvloop
async def test_a_client_that_hangs_up_early_is_given_back(rig: Rig, sent: bytes) -> None:
    client = await rig.connect()
    client.send(sent)
    await asyncio.sleep(0.01)
    client.close()
    await rig.until(lambda: rig.held == (0, 0, 0))
    assert rig.metrics.tls_handshakes_failed == 1


@pytest.mark.parametrize(
    ("sent", "words"), [(b"", "sent nothing"), (b"\x16", "only a part"), (HELLO, "only a part")]
)
@on_uvloop
async def test_a_handshake_has_a_deadline(
    rig: Rig,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    sent: bytes,
    words: str,
) -> None:
    monkeypatch.setattr(module, "SECONDS_MAX", 0.05)
    client = await rig.connect()
    client.send(sent)
    assert await received(client) == b""
    await rig.until(lambda: rig.held == (0, 0, 0))
    assert words in caplog.messages[0]


def a_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="x")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@on_uvloop
async def test_a_client_that_stops_after_its_hello_has_the_same_deadline(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hello = a_hello()
    monkeypatch.setattr(module, "SECONDS_MAX", 1.0)
    client = await rig.connect()
    client.send(hello)
    assert (await received(client))[:1] == b"\x16"  # our part of it
    await rig.until(lambda: rig.held == (0, 0, 0))
    assert "in time" in caplog.messages[0]


@on_uvloop
async def test_a_hello_byte_by_byte_is_a_hello(rig: Rig) -> None:
    hello = a_hello()
    client = await rig.connect()
    for at in range(len(hello)):
        client.send(hello[at : at + 1])
        await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(20):
        assert (await loop.sock_recv(client, 5))[:1] == b"\x16"


@on_uvloop
async def test_silent_clients_hold_up_nobody(rig: Rig) -> None:
    for _ in range(50):
        await rig.connect()
    assert (await rig.shake(await rig.connect())).version() == "TLSv1.3"
    await rig.until(lambda: rig.metrics.tls_handshakes_now == 50)


@on_uvloop
async def test_one_too_many_displaces_the_oldest(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 3)
    first, *others = [await rig.connect() for _ in range(4)]
    assert await received(first) == b""
    assert rig.metrics.tls_handshakes_displaced == 1
    assert rig.metrics.tls_handshakes_now == 3
    assert (await rig.shake(others[-1])).version() == "TLSv1.3"


@on_uvloop
async def test_a_crowd_of_hellos_takes_turns(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READY_MAX", 4)
    monkeypatch.setattr(module, "BEGUN_PER_TURN", 2)
    hello = a_hello()
    clients = []
    for _ in range(20):
        clients.append(await rig.connect())
        clients[-1].send(hello)
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(20):
        for client in clients:
            assert (await loop.sock_recv(client, 5))[:1] == b"\x16"


@on_uvloop
async def test_at_most_four_handshakes_begin_in_a_turn_of_the_loop(rig: Rig) -> None:
    begun: list[int] = []  # the turn of each
    turn = 0
    found = rig.found.of

    def of(listener: str) -> Any:
        begun.append(turn)
        return found(listener)

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    rig.found.of = of
    hello = a_hello()
    clients = [await rig.connect() for _ in range(150)]
    counting = asyncio.create_task(count_turns())
    for client in clients:
        client.send(hello)
    await rig.until(lambda: len(begun) == len(clients))
    counting.cancel()
    assert max(begun.count(one) for one in set(begun)) <= 4
    for client in clients:
        client.close()
    await rig.until(lambda: rig.held == (0, 0, 0))


@on_uvloop
async def test_a_stop_ends_them_all(rig: Rig) -> None:
    silent, begun = await rig.connect(), await rig.connect()
    begun.send(a_hello())
    await asyncio.sleep(0.05)
    rig.handshakes.stop()
    await rig.handshakes.ended()
    assert rig.held == (0, 0, 0)
    await received(silent)


@on_uvloop
async def test_an_unexpected_failure_is_contained_to_its_connection(rig: Rig) -> None:
    def broken(listener: str) -> None:
        raise RuntimeError("broken")

    found = rig.found.of
    rig.found.of = broken
    client = await rig.connect()
    asyncio.get_running_loop().set_exception_handler(FailureLog(rig.metrics, rig.clock))
    client.send(a_hello())
    assert await received(client) == b""
    await rig.until(lambda: rig.held == (0, 0, 0))
    (failure,) = failures.take()
    assert "contained to the connection whose handshake it is" in failure
    rig.found.of = found
    assert (await rig.shake(await rig.connect())).version() == "TLSv1.3"
