"""Sockets go to the processors in turn, and a failed accept does not end the acceptor."""

import asyncio
import errno
import socket
from typing import Any

import pytest

from broker.network import acceptor as acceptor_module
from broker.network.acceptor import Acceptor, bind
from broker.network.connection_limits import ConnectionLimits
from broker.network.narrow_sockets import RECEIVE_BYTES
from broker.runtime.clock import ManualClock
from broker.runtime.metrics import Metrics
from config.listeners import Listener
from tests.support.fake_connection import NO_DIALECT

ANY_PORT = Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 0)


class CollectingProcessor:
    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []

    async def adopt(self, sock: socket.socket, info: Any) -> None:
        self.sockets.append(sock)


class Rig:
    def __init__(self, limit: int = 100) -> None:
        self.listening = bind(ANY_PORT, -1, -1, 10)
        self.processors = [CollectingProcessor() for _ in range(3)]
        self.metrics = Metrics()
        self.limits = ConnectionLimits(limit, limit, {})
        self.acceptor = Acceptor(
            ANY_PORT,
            self.listening,
            NO_DIALECT,
            self.processors,  # type: ignore[arg-type]
            self.limits,
            self.metrics,
            ManualClock(),
        )
        self.clients: list[socket.socket] = []

    def connect(self, count: int) -> None:
        for _ in range(count):
            self.clients.append(socket.create_connection(self.listening.getsockname()))

    def close(self) -> None:
        for sock in [self.listening, *self.clients]:
            sock.close()
        for processor in self.processors:
            for sock in processor.sockets:
                sock.close()


async def run_until(rig: Rig, condition: Any) -> None:
    task = asyncio.create_task(rig.acceptor.run())
    async with asyncio.timeout(10):
        while not condition():
            assert not task.done(), task.exception()
            await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_round_robin_over_processors() -> None:
    rig = Rig()
    rig.connect(7)
    await run_until(rig, lambda: rig.metrics.connections_accepted == 7)
    assert [len(processor.sockets) for processor in rig.processors] == [3, 2, 2]
    rig.close()


async def test_beyond_the_limit_the_connection_is_closed_and_counted() -> None:
    rig = Rig(limit=2)
    rig.connect(3)
    await run_until(rig, lambda: rig.metrics.connections_refused == 1)
    rig.clients[2].settimeout(5)
    assert rig.clients[2].recv(1) == b""
    assert rig.metrics.connections_accepted == 2
    rig.close()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.ECONNABORTED])
async def test_the_acceptor_waits_for_free_descriptors(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor_module, "REST_SECONDS", 0.001)
    rig = Rig()
    loop = asyncio.get_running_loop()
    accept = loop.sock_accept
    failures = [OSError(number, "no"), OSError(number, "no")]

    async def failing(sock: socket.socket) -> Any:
        if failures:
            raise failures.pop()
        return await accept(sock)

    monkeypatch.setattr(loop, "sock_accept", failing)
    rig.connect(1)
    await run_until(rig, lambda: rig.metrics.connections_accepted == 1)
    assert rig.metrics.accept_failures == (0 if number == errno.ECONNABORTED else 2)
    rig.close()


async def test_any_other_error_ends_the_acceptor(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()

    async def failing(sock: socket.socket) -> Any:
        raise OSError(errno.EBADF, "gone")

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_accept", failing)
    with pytest.raises(OSError, match="gone"):
        await rig.acceptor.run()
    rig.close()


def test_a_port_in_use_is_reported() -> None:
    first = bind(ANY_PORT, 64 * 1024, 64 * 1024, 10)
    taken = ANY_PORT._replace(port=first.getsockname()[1])
    with pytest.raises(OSError) as caught:
        bind(taken, -1, -1, 10)
    assert caught.value.errno == errno.EADDRINUSE
    first.close()


@pytest.mark.parametrize("receive_bytes", [-1, 100 * 1024])
def test_strangers_of_logins_over_tls_are_offered_little_whatever_is_configured(
    receive_bytes: int,
) -> None:
    """The first window of a connection is that of its listening socket."""
    for protocol, is_narrow in (("SASL_SSL", True), ("SSL", False), ("SASL_PLAINTEXT", False)):
        with bind(Listener("L", protocol, "127.0.0.1", 0), receive_bytes, -1, 10) as sock:
            size = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2
            assert (size == RECEIVE_BYTES) is is_narrow
