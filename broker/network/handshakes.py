"""TLS handshakes: beside the acceptor, bounded in time and in number.

    accepted ── waits for a hello ── waits for its turn ── computes, waits for the client ── begins

No client can hold up another. A client that says nothing costs a socket: its first record is
peeked at, without TLS, until it is whole. Then the handshake takes its turn; at most
`BEGUN_PER_TURN` begin in a turn of the loop, so that a crowd of clients delays the others by no
more than these compute. A handshake that is not finished `SECONDS_MAX` after the connection was
accepted ends.

At most `WAITING_MAX` handshakes wait for their clients; a further one displaces the oldest, which
is slow at best. While `READY_MAX` hellos wait for their turn, the acceptor waits: that is the
broker's own time, and passes.

A failure is counted, and logged a few times a second at most, with what the client was probably
meant to do (`broker.network.tls_mistakes`).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import deque
from contextlib import suppress
from typing import Final, NamedTuple

from broker.network.connection_limits import ConnectionLimits
from broker.network.narrow_sockets import RECEIVE_BYTES, fit, narrow
from broker.network.processor import Processor
from broker.network.reading import Hold
from broker.network.tls_connection import TlsConnection
from broker.network.tls_mistakes import (
    HALF_A_HELLO,
    HUNG_UP,
    RECORD_BYTES_MAX,
    RECORD_HEADER_BYTES,
    SILENCE,
    missing_bytes,
    of_failure,
    of_first_bytes,
)
from broker.runtime import owners
from broker.runtime.clock import SECOND_NS, Clock
from broker.runtime.log_lines import RateLimiter
from broker.runtime.metrics import Metrics
from broker.runtime.owners import Owner
from broker.runtime.request import ConnectionInfo
from broker.security.tls import alerting
from broker.security.tls.tls_listeners import TlsListeners

logger = logging.getLogger("barnabas.network")

SECONDS_MAX: Final = 10.0
SHUTDOWN_SECONDS_MAX: Final = 5.0  # for a client's answer to our last message
BEGUN_PER_TURN: Final = 4
WAITING_MAX: Final = 2_048
READY_MAX: Final = 1_024
_PEEK_BYTES: Final = RECORD_HEADER_BYTES + RECORD_BYTES_MAX


class Arrival(NamedTuple):
    """A connection that was accepted and counted, and the processor that will own it."""

    sock: socket.socket
    info: ConnectionInfo
    processor: Processor
    ends_ns: int  # by the monotonic clock


class _Failed(Exception):
    """A handshake that ends before OpenSSL has seen it; `alert` is sent to the client."""

    def __init__(self, why: str, alert: bytes = b"") -> None:
        super().__init__(why)
        self.alert = alert


class _Attempt:
    """What OpenSSL says of one handshake, and the task that waits for it."""

    __slots__ = ("error", "task")

    def __init__(self, task: asyncio.Task[None]) -> None:
        self.task: asyncio.Task[None] | None = task
        self.error: ssl.SSLError | None = None

    def failed(self, error: ssl.SSLError) -> None:
        """Note why it failed, and end it when its alert has been handed to the socket."""
        if self.error is None and self.task is not None:
            self.error = error
            owners.soon(Owner.HANDSHAKE, self.task.cancel)


class Handshakes:
    """The handshakes in progress on all listeners."""

    def __init__(
        self, tls: TlsListeners, limits: ConnectionLimits, metrics: Metrics, clock: Clock
    ) -> None:
        self._tls = tls
        self._limits = limits
        self._metrics = metrics
        self._clock = clock
        self._running: dict[asyncio.Task[None], Arrival] = {}
        self._waiting: dict[asyncio.Task[None], None] = {}  # for their clients, the oldest first
        self._ready: deque[asyncio.Future[None]] = deque()  # whole hellos that wait for their turn
        self._turns: asyncio.Task[None] | None = None
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._lines = RateLimiter(clock, per_second_max=5)

    async def admit(self, sock: socket.socket, info: ConnectionInfo, processor: Processor) -> None:
        """Begin a handshake; returns at once unless the broker itself is behind."""
        await self._has_room.wait()
        if len(self._waiting) >= WAITING_MAX:
            self._metrics.tls_handshakes_displaced += 1
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.cancel()
        if info.listener.has_sasl:
            narrow(sock)
        ends_ns = self._clock.monotonic_ns() + int(SECONDS_MAX * SECOND_NS)
        arrival = Arrival(sock, info, processor, ends_ns)
        task = owners.spawn(Owner.HANDSHAKE, self._run(arrival))
        self._running[task] = arrival
        self._waiting[task] = None
        await asyncio.sleep(0)  # it has begun: only then does its end release the connection

    def stop(self) -> None:
        """End all handshakes: the broker is stopping."""
        for task in self._tasks():
            task.cancel()

    async def ended(self) -> None:
        """Wait until no handshake is left."""
        await asyncio.gather(*self._tasks(), return_exceptions=True)
        for arrival in self._running.values():  # that a stop came before
            self._end(arrival, None)
        self._running.clear()

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [*self._running, *([self._turns] if self._turns else [])]

    async def _run(self, arrival: Arrival) -> None:
        self._metrics.tls_handshakes_now += 1
        sock, info = arrival.sock, arrival.info
        connection: TlsConnection | None = None
        attempt = _Attempt(_this_task())
        alerting.report.set(attempt.failed)
        try:
            await self._hello(arrival)
            tls = self._tls.of(info.listener.name)
            connection = TlsConnection(arrival.processor, info, tls)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                sock,
                ssl=tls.context,
                ssl_handshake_timeout=self._seconds_left(arrival),
                ssl_shutdown_timeout=SHUTDOWN_SECONDS_MAX,
            )
            self._metrics.tls_handshakes += 1
        except (_Failed, OSError) as error:  # SSLError is an OSError
            self._failed(arrival, connection, error)
        except BaseException:
            if attempt.error is None:
                self._end(arrival, connection)
                raise
            _this_task().uncancel()
            self._failed(arrival, connection, attempt.error)
        finally:
            attempt.task = None  # the transport keeps the attempt as long as it lives
            self._metrics.tls_handshakes_now -= 1
            self._waiting.pop(_this_task(), None)
            self._running.pop(_this_task(), None)

    def _failed(self, arrival: Arrival, connection: TlsConnection | None, error: Exception) -> None:
        if isinstance(error, _Failed):
            why = str(error)
            if error.alert:
                with suppress(OSError):
                    arrival.sock.send(error.alert)
        else:
            why = of_failure(error)
        self._end(arrival, connection)
        self._metrics.tls_handshakes_failed += 1
        dropped = self._lines.allow()
        if dropped is not None:
            info = arrival.info
            logger.warning(
                "Failed authentication with %(host)s:%(port)d on listener %(listener)s (SSL"
                " handshake failed): %(reason)s%(note)s",
                info.log_fields(why, dropped),
            )

    def _end(self, arrival: Arrival, connection: TlsConnection | None) -> None:
        """Release a connection, whether or not it has begun."""
        if connection is not None and connection in arrival.processor.connections:
            # uvloop closes the transport without a word if its beginner is cancelled.
            connection.reading.holds |= Hold.CLOSING
            connection.connection_lost(None)
            return
        self._limits.leave(arrival.info.peer_host, arrival.info.listener.name)
        arrival.sock.close()

    def _seconds_left(self, arrival: Arrival) -> float:
        left_ns = arrival.ends_ns - self._clock.monotonic_ns()
        return max(left_ns / SECOND_NS, 0.001)

    # -- before OpenSSL ---------------------------------------------------------------------------

    async def _hello(self, arrival: Arrival) -> None:
        """Wait until the first record is whole, then for a turn. Raises _Failed, OSError."""
        head, is_narrow = b"", arrival.info.listener.has_sasl
        try:
            async with asyncio.timeout(self._seconds_left(arrival)):
                while missing := missing_bytes(head):
                    wanted = len(head) + missing
                    if wanted > RECEIVE_BYTES and is_narrow:
                        fit(arrival.sock, wanted)
                    head = await _peek(arrival.sock, wanted)
                    refused = of_first_bytes(head)
                    if refused is not None:
                        raise _Failed(*refused)
        except TimeoutError:
            head = _arrived(arrival.sock)
            raise _Failed(*(of_first_bytes(head) or (_late(head), b""))) from None
        arrival.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        if len(head) > RECEIVE_BYTES and is_narrow:
            narrow(arrival.sock)  # again
        await self._turn()

    async def _turn(self) -> None:
        task = _this_task()
        self._waiting.pop(task, None)  # the client has done its part
        turn = asyncio.get_running_loop().create_future()
        self._ready.append(turn)
        if len(self._ready) >= READY_MAX:
            self._has_room.clear()
        if self._turns is None or self._turns.done():
            self._turns = owners.spawn(Owner.HANDSHAKE, self._give_turns())
        await turn
        self._waiting[task] = None

    async def _give_turns(self) -> None:
        """Let a few hellos begin in each turn of the loop, until none waits."""
        while self._ready:
            for _ in range(min(BEGUN_PER_TURN, len(self._ready))):
                turn = self._ready.popleft()
                if not turn.done():  # else its handshake was given up
                    turn.set_result(None)
            self._has_room.set()
            await asyncio.sleep(0)


def _this_task() -> asyncio.Task[None]:
    task = asyncio.current_task()
    assert task is not None
    return task


async def _peek(sock: socket.socket, wanted: int) -> bytes:
    """Wait until a socket has `wanted` bytes, and return what it has without taking it.

    Returns at once if the client has ended, and raises _Failed if it has sent nothing more. The
    system wakes us only for that many bytes, so a client that sends one at a time costs no more.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)
    head = _arrived(sock)
    if len(head) < wanted:
        loop = asyncio.get_running_loop()
        readable: asyncio.Future[None] = loop.create_future()
        loop.add_reader(sock.fileno(), _set, readable)
        try:
            await readable
        finally:
            loop.remove_reader(sock.fileno())
        head = _arrived(sock)
        if len(head) < wanted:  # readable all the same: the client has ended
            raise _Failed(*(of_first_bytes(head) or (HUNG_UP, b"")))
    return head


def _arrived(sock: socket.socket) -> bytes:
    """Return what a socket has received, without taking it."""
    try:
        return sock.recv(_PEEK_BYTES, socket.MSG_PEEK)
    except BlockingIOError:
        return b""


def _late(head: bytes) -> str:
    return HALF_A_HELLO if head else SILENCE


def _set(readable: asyncio.Future[None]) -> None:
    if not readable.done():
        readable.set_result(None)
