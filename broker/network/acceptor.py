"""Acceptors: one for each listener. They hand out sockets to the processors in turn.

Connections of a listener with TLS go through their handshake first (`broker.network.handshakes`).

Resources. When the machine has no descriptors or memory left for sockets (`CAPACITY_ERRNOS`), the
acceptor pauses for `REST_SECONDS` and tries again; existing connections are not affected. A
connection above `max.connections` or `max.connections.per.ip` is closed as soon as it is accepted,
and counted. Above the rate of new connections the acceptor waits, and above that of its address a
connection is closed late (`broker.network.connection_rates`).

Errors. A peer that disconnects before it is accepted is ignored. Any other error of accept ends the
broker, since it would no longer listen.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Sequence
from typing import Protocol

from broker.network.connection_limits import ConnectionLimits
from broker.network.connection_rates import ConnectionRates
from broker.network.held_sockets import HeldSockets
from broker.network.host_names import plain_address
from broker.network.narrow_sockets import narrow_listener
from broker.network.processor import Processor
from broker.network.wide_sockets import leave_growing
from broker.runtime import owners
from broker.runtime.clock import Clock
from broker.runtime.log_lines import RateLimiter
from broker.runtime.metrics import Metrics
from broker.runtime.owners import Owner
from broker.runtime.request import ConnectionInfo
from config.listeners import Listener
from protocol.dialect import Dialect

logger = logging.getLogger("barnabas.network")

CAPACITY_ERRNOS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}
REST_SECONDS = 0.1


class Admission(Protocol):
    """What makes an accepted socket a connection over TLS."""

    async def admit(self, sock: socket.socket, info: ConnectionInfo, processor: Processor) -> None:
        """Begin the handshake of a connection that `processor` will own."""
        ...


class Acceptor:
    """Accepts connections on one listener's socket."""

    def __init__(
        self,
        listener: Listener,
        sock: socket.socket,
        dialect: Dialect,
        processors: Sequence[Processor],
        limits: ConnectionLimits,
        metrics: Metrics,
        clock: Clock,
        handshakes: Admission | None = None,
    ) -> None:
        """`handshakes` is for a listener with TLS."""
        self.name = f"acceptor-{listener.name}"
        self.listener = listener
        self._sock = sock
        self._dialect = dialect
        self._processors = processors
        self._limits = limits
        self._metrics = metrics
        self._clock = clock
        self._next = 0
        self._handshakes = handshakes
        self._refusals = RateLimiter(clock, per_second_max=5)
        self._held = HeldSockets()  # above the rate of their address

    async def run(self) -> None:
        """Accept until cancelled."""
        try:
            await self._accept()
        finally:
            self._held.close_all()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, address = await loop.sock_accept(self._sock)
            except ConnectionAbortedError:
                continue
            except OSError as error:
                if error.errno not in CAPACITY_ERRNOS:
                    raise
                self._metrics.accept_failures += 1
                if self._refusals.allow() is not None:
                    logger.error(
                        "cannot accept on %(listener)s, will retry: %(error)s",
                        {"listener": self.listener, "error": error},
                    )
                await asyncio.sleep(REST_SECONDS)
                continue
            try:
                await self._place(sock, (plain_address(address[0]), address[1]))
            except Exception as error:
                owners.failed(Owner.ACCEPTOR, error)
                sock.close()

    async def _place(self, sock: socket.socket, address: tuple[str, int]) -> None:
        if self._limits.rates is not None and await self._is_held(
            self._limits.rates, sock, address
        ):
            return
        refusal = self._limits.admit(address[0], self.listener.name)
        if refusal is not None:
            self._metrics.connections_refused += 1
            if self._refusals.allow() is not None:
                logger.warning(
                    "Rejected connection from %(host)s, %(reason)s.",
                    {"host": address[0], "reason": refusal},
                )
            sock.close()
            return
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            local_host, local_port = sock.getsockname()[:2]
        except OSError:  # reset by the peer meanwhile
            self._limits.leave(address[0], self.listener.name)
            sock.close()
            return
        local = plain_address(local_host), local_port
        info = ConnectionInfo(self.listener, self._dialect, local, address)
        info.since_ms = self._clock.now_ms()
        self._metrics.connections_accepted += 1
        self._metrics.traffic.listener(self.listener.name).accepted += 1
        processor = self._processors[self._next]
        self._next = (self._next + 1) % len(self._processors)
        if self._handshakes is None:
            await processor.adopt(sock, info)
        else:
            await self._handshakes.admit(sock, info, processor)

    async def _is_held(
        self, rates: ConnectionRates, sock: socket.socket, address: tuple[str, int]
    ) -> bool:
        """Wait until the rate allows a connection; hold it if that of its address does not."""
        if wait_ms := rates.wait_ms(self.listener.name):
            self._metrics.connections_throttled += 1
            try:
                await asyncio.sleep(wait_ms / 1000)
            except asyncio.CancelledError:
                sock.close()
                raise
        held_ms = rates.refusal_ms(address[0])
        if held_ms:
            self._metrics.connections_throttled += 1
            self._held.hold(sock, held_ms)
        return bool(held_ms)


def bind(listener: Listener, receive_bytes: int, send_bytes: int, backlog: int) -> socket.socket:
    """Return a listening socket for `listener`; raises OSError.

    `receive_bytes` and `send_bytes` are `socket.{receive,send}.buffer.bytes`; -1 leaves the
    sizes to the kernel, which adapts them. `backlog` is `socket.listen.backlog.size`.
    """
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and listener.host == "::":
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        size_buffers(sock, listener, receive_bytes, send_bytes)
        sock.bind((listener.host, listener.port))
        sock.listen(backlog)
        sock.setblocking(False)  # noqa: FBT003 - the socket's own signature
    except OSError:
        sock.close()
        raise
    return sock


def size_buffers(
    sock: socket.socket, listener: Listener, receive_bytes: int, send_bytes: int
) -> None:
    """Set what connections inherit from their listening socket; see `bind` for the sizes."""
    if receive_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        if not listener.is_encrypted:
            leave_growing(sock)
    if listener.has_sasl and listener.is_encrypted:
        narrow_listener(sock)  # last; `widen` gives clients that log in `receive_bytes`
    if send_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
