"""The network in memory: listeners, the broker's sockets, and the clients that connect.

`listen` stands in for the broker's `bind`, so everything above the socket is the broker's own code.
A connection waits in the listener's backlog until the broker accepts it; if the backlog is full,
its handshake is repeated a second later, as TCP does. `down` is the end of the broker's process.

Each connection draws from a stream of random numbers of its own, named after its client and its
number. A client that is taken out of a history leaves the connections of the others as they were.
"""

from __future__ import annotations

import asyncio
import errno
import random
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from config.listeners import Listener
from tests.simulation.link import Link, NetworkShape, Peer
from tests.simulation.transport import SimTransport
from tests.simulation.world import MS, US, World

FIRST_FREE_PORT: Final = 20_000
FIRST_CLIENT_PORT: Final = 40_000
CLIENT_PORTS: Final = 20_000
HANDSHAKE_AGAIN_NS: Final = 1000 * MS


class SimSocket:
    """The broker's end of an accepted connection, until a transport takes it.

    Whoever looks at its bytes before (a handshake of TLS) is called when `SO_RCVLOWAT` bytes have
    arrived, or the end has.
    """

    family = socket.AF_INET
    type = socket.SOCK_STREAM

    def __init__(self, link: Link, descriptor: int) -> None:
        self._link = link
        self._descriptor = descriptor
        self._needed_bytes = 1
        self._told: Callable[[], object] | None = None
        link.transport = self

    def fileno(self) -> int:
        """Return the descriptor; -1 once closed."""
        return -1 if self._link.is_closed else self._descriptor

    def getsockname(self) -> tuple[str, int]:
        """Return the broker's address."""
        self._must_be_open()
        return self._link.server

    def getpeername(self) -> tuple[str, int]:
        """Return the client's address."""
        self._must_be_open()
        if self._link.is_reset:
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")
        return self._link.client

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """Note how many bytes are needed; some systems refuse if the connection was reset."""
        self._must_be_open()
        link = self._link
        if (level, option) == (socket.SOL_SOCKET, socket.SO_RCVLOWAT):
            self._needed_bytes = value
        elif link.is_reset and link.chance.random() < link.shape.invalid_option_chance:
            raise OSError(errno.EINVAL, "Invalid argument")

    def getsockopt(self, *_: Any) -> int:
        """Return no option."""
        self._must_be_open()
        return 0

    def setblocking(self, flag: bool) -> None:
        """Nothing here blocks."""

    def gettimeout(self) -> float:
        """Return that of a socket that does not block."""
        return 0.0

    def close(self) -> None:
        """Close it; a second time does nothing."""
        self._link.close()

    def recv(self, size: int, flags: int) -> bytes:
        """Return what has arrived, and leave it there. Raises BlockingIOError, OSError."""
        assert flags == socket.MSG_PEEK, flags
        self._must_be_open()
        link = self._link
        if not link.arrived and not link.has_eof:
            raise BlockingIOError
        if not link.arrived and link.is_reset:
            raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        return bytes(link.arrived[:size])

    def send(self, data: bytes) -> int:
        """Send what the window has room for. Raises OSError."""
        self._must_be_open()
        return self._link.write(memoryview(data))

    def tell(self, told: Callable[[], object] | None) -> None:
        """Call when it is readable, once it is; None: nobody waits any more."""
        self._told = told
        self.readable()

    def readable(self) -> None:
        """Tell whoever waits; an event of the world calls this."""
        link, told = self._link, self._told
        if told is not None and (link.has_eof or len(link.arrived) >= self._needed_bytes):
            told()

    def writable(self) -> None:
        """Do nothing: nobody waits for room."""

    async def connect(
        self, loop: Any, protocol: asyncio.BufferedProtocol
    ) -> tuple[SimTransport, asyncio.BufferedProtocol]:
        """Make a transport of it, as `connect_accepted_socket` of uvloop does."""
        self._must_be_open()
        transport = SimTransport(loop, self._link, protocol, self)
        try:
            await transport.connected
        except (Exception, asyncio.CancelledError):
            transport.close_now()
            raise
        return transport, protocol

    def _must_be_open(self) -> None:
        if self._link.is_closed:
            raise OSError(errno.EBADF, "Bad file descriptor")


class SimListener:
    """A listening socket of the broker."""

    family = socket.AF_INET
    type = socket.SOCK_STREAM

    def __init__(self, network: Network, address: tuple[str, int], backlog: int) -> None:
        self.address = address
        self.is_closed = False
        self.backlog: deque[Link] = deque()
        self._network = network
        self._backlog_max = max(backlog, 1)
        self._descriptor = network.take_descriptor()
        self._accepts: asyncio.Future[tuple[SimSocket, tuple[str, int]]] | None = None

    def fileno(self) -> int:
        """Return the descriptor; -1 once closed."""
        return -1 if self.is_closed else self._descriptor

    def getsockname(self) -> tuple[str, int]:
        """Return the address with the port that was given."""
        if self.is_closed:
            raise OSError(errno.EBADF, "Bad file descriptor")
        return self.address

    def getsockopt(self, *_: Any) -> int:
        """Return no option."""
        return 0

    def setsockopt(self, *_: Any) -> None:
        """Do nothing."""

    def setblocking(self, flag: bool) -> None:
        """Nothing here blocks."""

    def gettimeout(self) -> float:
        """Return that of a socket that does not block."""
        return 0.0

    def close(self) -> None:
        """Stop listening; connections that wait are reset."""
        if self.is_closed:
            return
        self.is_closed = True
        self._accepts = None
        self._network.forget(self)
        while self.backlog:
            self.backlog.popleft().close(killed=True)

    def knock(self, link: Link) -> None:
        """Let a connection wait until it is accepted. An event of the world."""
        if self.is_closed:
            link.close(killed=True)
        elif link.is_closed:
            return
        elif len(self.backlog) >= self._backlog_max:
            self._network.world.after(HANDSHAKE_AGAIN_NS, lambda: self.knock(link))
        else:
            self.backlog.append(link)
            self._serve()

    async def accept(self, loop: Any) -> tuple[SimSocket, tuple[str, int]]:
        """Wait for a connection. Raises OSError."""
        if self.is_closed:
            raise OSError(errno.EBADF, "Bad file descriptor")
        future = loop.create_future()
        self._accepts = future
        if self.backlog:
            self._network.world.after(0, self._serve)
        try:
            accepted: tuple[SimSocket, tuple[str, int]] = await future
            return accepted
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                future.result()[0].close()  # accepted, and then nobody took it
            raise
        finally:
            if self._accepts is future:
                self._accepts = None

    def _serve(self) -> None:
        future = self._accepts
        if future is None or not self.backlog:
            return
        self._accepts = None
        if future.done():
            return
        failure = self._network.take_accept_failure()
        if failure is not None:
            future.set_exception(failure)
            return
        link = self.backlog.popleft()
        future.set_result((SimSocket(link, self._network.take_descriptor()), link.client))


class Network:
    """All listeners and connections of a history."""

    def __init__(
        self, world: World, chance: random.Random, shape: NetworkShape | None = None
    ) -> None:
        self.world = world
        self.shape = shape or NetworkShape()
        self.accepted = 0  # connections that were made
        self._salt = chance.getrandbits(64)
        self._listeners: dict[int, SimListener] = {}  # by port
        self._links: dict[int, Link] = {}  # whose socket at the broker is open
        self._connections: dict[str, int] = {}  # made so far, by the client's name
        self._next_descriptor = 10
        self._next_free_port = FIRST_FREE_PORT
        self._accept_failures: deque[int] = deque()

    # -- The broker's side --------------------------------------------------------------------

    def listen(
        self, listener: Listener, receive_bytes: int, send_bytes: int, backlog: int
    ) -> SimListener:
        """Return a listening socket, as `broker.network.acceptor.bind` does. Raises OSError."""
        port = listener.port
        if not port:
            while self._next_free_port in self._listeners:
                self._next_free_port += 1
            port = self._next_free_port
            self._next_free_port += 1
        elif port in self._listeners:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        sock = SimListener(self, (listener.host or "0.0.0.0", port), backlog)
        self._listeners[port] = sock
        return sock

    def forget(self, listener: SimListener) -> None:
        """Drop a listener that is closed."""
        del self._listeners[listener.address[1]]

    def take_descriptor(self) -> int:
        """Return a descriptor that was never used."""
        self._next_descriptor += 1
        return self._next_descriptor

    @property
    def open_sockets(self) -> int:
        """The connections whose socket the broker has not closed, those in backlogs included."""
        return len(self._links)

    @property
    def open_listeners(self) -> int:
        """The listeners that the broker has not closed."""
        return len(self._listeners)

    # -- The clients' side --------------------------------------------------------------------

    def connect(self, port: int, host: str = "127.0.0.1", name: str = "") -> Peer:
        """Connect as the client `name` from the address `host`. Raises ConnectionRefusedError."""
        listener = self._listeners.get(port)
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        nth = self._connections[name] = self._connections.get(name, 0) + 1
        chance = random.Random(f"{self._salt}/{name}/{nth}")
        self.accepted += 1
        number = self.accepted
        server_host = listener.address[0]
        link = Link(
            self.world,
            chance,
            self.shape,
            (host, FIRST_CLIENT_PORT + number % CLIENT_PORTS),
            ("127.0.0.1" if server_host in {"0.0.0.0", "::"} else server_host, port),
            lambda: self._closed(number),
        )
        self._links[number] = link
        latency_us = self.shape.latency_min_us + chance.randrange(self.shape.latency_max_us + 1)
        self.world.after(latency_us * US, lambda: listener.knock(link))
        return link.peer

    def _closed(self, number: int) -> None:
        del self._links[number]

    # -- Faults -------------------------------------------------------------------------------

    def fail_accepts(self, error: int, count: int) -> None:
        """Let the next `count` accepts fail with this errno; their connections go on waiting."""
        self._accept_failures.extend([error] * count)

    def cut(self, chance: random.Random, share: float) -> None:
        """Reset some connections, for both ends."""
        for link in list(self._links.values()):
            peer = link.peer
            if peer.is_open and chance.random() < share:
                peer.reset()
                peer.on_end(ConnectionResetError(errno.ECONNRESET, "reset by the network"))

    def hang_up(self) -> None:
        """Let all clients close their connections."""
        for link in list(self._links.values()):
            link.peer.close()

    def take_accept_failure(self) -> OSError | None:
        """Return the failure of this accept, if it must fail."""
        if not self._accept_failures:
            return None
        error = self._accept_failures.popleft()
        self.world.note("network", f"accept fails with {errno.errorcode[error]}")
        return OSError(error, errno.errorcode[error])

    def heal(self) -> None:
        """Let accepts succeed again."""
        self._accept_failures.clear()

    def down(self) -> None:
        """End the broker's process: listeners are closed, connections are reset."""
        for listener in list(self._listeners.values()):
            listener.close()
        for link in list(self._links.values()):
            if isinstance(link.transport, SimTransport):
                link.transport.close_now(killed=True)
            link.close(killed=True)
