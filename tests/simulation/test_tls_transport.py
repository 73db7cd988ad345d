"""The same steps over TLS on uvloop's transport and on the simulator's tell the same.

Both peers are `TlsPeer`, over a socket of this machine and over the simulated network. What is
compared: the callbacks of the protocol in their order, and how the peer ended.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pytest
import uvloop

from broker.security.tls.server_tls import make_server_tls
from config.listeners import Listener
from tests.simulation.clock import STARTED_MS
from tests.simulation.life import loaded_from
from tests.simulation.loop import SimLoop
from tests.simulation.network import Network, NetworkShape
from tests.simulation.plan import LISTENERS, TLS_LISTENER
from tests.simulation.test_transport import Recorder
from tests.simulation.tls_peer import TlsPeer
from tests.simulation.world import World

Step = tuple[Any, ...]
ROUNDS: Final = 15  # of the real loop, after each step
SHUTDOWN_SECONDS: Final = 0.05
BUFFER_BYTES: Final = 4096
SMALL: Final = 10


def options() -> dict[str, Any]:
    loaded = loaded_from({"listeners": f"{LISTENERS},{TLS_LISTENER}"}, {})
    (settings,) = loaded.config.tls.values()
    context = make_server_tls(settings, STARTED_MS).context
    return {
        "ssl": context,
        "ssl_handshake_timeout": 10.0,
        "ssl_shutdown_timeout": SHUTDOWN_SECONDS,
    }


class SocketPeer:
    """A socket of this machine as `tests.simulation.link.Peer`."""

    closed_ns = None

    def __init__(self, sock: socket.socket) -> None:
        self.on_data: Callable[[bytes], None] = lambda data: None
        self.on_end: Callable[[Exception | None], None] = lambda error: None
        self.is_open = True
        self.reads = True
        self.sock = sock

    def send(self, data: bytes) -> None:
        with suppress(OSError):
            self.sock.send(data)

    def close(self) -> None:
        self.is_open = False
        self.sock.close()

    def half_close(self) -> None:
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)

    def stop_reading(self) -> None:
        self.reads = False

    def read_on(self) -> None:
        self.reads = True

    def pump(self) -> None:
        """Read what is there."""
        while self.is_open and self.reads:
            try:
                data = self.sock.recv(65536)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.close()
                self.on_end(None)
                return
            self.on_data(data)


class Real:
    def __init__(self, recorder: Recorder) -> None:
        self.loop: Any = uvloop.new_event_loop()
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            mine = socket.create_connection(listener.getsockname())
            self.sock, _ = listener.accept()
        for one in (self.sock, mine):
            one.setblocking(False)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.below = SocketPeer(mine)
        self.begun = self.loop.create_task(
            self.loop.connect_accepted_socket(lambda: recorder, self.sock, **options())
        )

    def settle(self) -> None:
        for _ in range(ROUNDS):
            self.below.pump()
            self.loop.run_until_complete(asyncio.sleep(0.001))

    def wait(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(2 * SHUTDOWN_SECONDS))
        self.settle()

    def close(self) -> None:
        self.settle()
        self.below.sock.close()
        self.loop.close()


class Simulated:
    def __init__(self, recorder: Recorder) -> None:
        world = World("tls")
        self.loop: Any = SimLoop(world, lambda: None)
        self.network = Network(world, world.chance("network"), NetworkShape(whole_chance=0.5))
        listener = self.network.listen(Listener("A", "SSL", "127.0.0.1", 0), -1, -1, 5)
        self.below = self.network.connect(listener.getsockname()[1])

        async def begin() -> None:
            sock, _ = await self.loop.sock_accept(listener)
            await self.loop.connect_accepted_socket(lambda: recorder, sock, **options())

        self.begun = self.loop.create_task(begin())

    def settle(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(SHUTDOWN_SECONDS / 2))

    def wait(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(10))

    def close(self) -> None:
        self.settle()
        self.network.down()
        self.loop.close()


def told(side: type[Real] | type[Simulated], steps: list[Step]) -> list[Any]:
    """Return what a script tells of one side."""
    recorder = Recorder({}, keeps_open=False, buffer=BUFFER_BYTES)
    one = side(recorder)
    ends: list[str] = []
    received = bytearray()
    peer = TlsPeer(one.below)
    peer.on_data = received.extend
    peer.on_end = lambda error: ends.append("end" if error is None else "reset")
    one.settle()

    async def inside(step: Step) -> None:
        recorder.run(step)

    lines: list[Any] = [list(recorder.log)]
    for step in steps:
        match step:
            case ("peer.send", count):
                peer.send(bytes(count))
            case ("peer leaves",):
                one.below.close()
            case ("peer.close",):
                peer.close()
            case _:
                one.loop.run_until_complete(inside(step))
        one.settle()
        lines.append((step, list(recorder.log)))
    one.wait()
    lines.append((list(recorder.log), len(recorder.received), len(received), ends))
    recorder.transport.abort()
    one.close()
    return lines


SCRIPTS: Final[dict[str, list[Step]]] = {
    "both speak": [("peer.send", SMALL), ("write", SMALL), ("peer.send", SMALL)],
    "the peer says that it is the end": [("peer.send", SMALL), ("peer.close",)],
    "the peer leaves without a word": [("peer.send", SMALL), ("peer leaves",)],
    "the end while paused": [("pause_reading",), ("peer.close",)],
    "the end while paused, and then a close": [("pause_reading",), ("peer.close",), ("close",)],
    "it leaves while paused, and then a close": [("pause_reading",), ("peer leaves",), ("close",)],
    "bytes and the end while paused": [
        ("pause_reading",), ("peer.send", SMALL), ("peer.close",), ("resume_reading",),
    ],
    "a close": [("write", SMALL), ("close",)],
    "a close while paused with unread bytes": [
        ("pause_reading",), ("peer.send", SMALL), ("close",),
    ],
    "two closes, and a write": [("close",), ("close",), ("write", SMALL)],
    "a write after the peer has left": [("peer leaves",), ("write", SMALL), ("close",)],
    "an abort, and a write": [("abort",), ("write", SMALL), ("close",), ("abort",)],
    "an abort": [("write", SMALL), ("abort",)],
    "an abort while paused": [("pause_reading",), ("peer.send", SMALL), ("abort",)],
    "a close, and bytes behind it": [("close",), ("peer.send", SMALL)],
}  # fmt: skip


@pytest.mark.parametrize("steps", SCRIPTS.values(), ids=SCRIPTS)
def test_both_tell_the_same(steps: list[Step]) -> None:
    assert told(Simulated, steps) == told(Real, steps)
