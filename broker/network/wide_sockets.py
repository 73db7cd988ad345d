"""Larger receive buffers for the sockets of connections that send large requests.

`socket.receive.buffer.bytes` is 100 KiB. A batch of 1 MB arrives through it in seven or more reads,
each a turn of the loop and a message to its sender that there is room again. So a connection whose
large frames are received into memory of their own (`protocol.framing`) gets a buffer for most of
what a producer has in flight: `WIDE_BYTES`. The kernel holds so much of a client that is not read,
hence `WIDE_COUNT_MAX` connections at a time. A smaller size than Kafka's default is meant as it is
set, and nobody is wide; with -1 the system sizes all buffers.

A connection's window grows no further than its beginning allows, when the size of the listening
socket is fixed. So that one is not locked (`leave_growing`), but every accepted socket is (`fix`):
then the system does not enlarge it by itself. Linux before 5.14 cannot unlock, and all stays as
configured.

TCP's SO_RCVBUF is capped by `net.core.rmem_max`, which is 208 KiB on most systems. Waiting for many
bytes (SO_RCVLOWAT) enlarges the buffer up to half of `net.ipv4.tcp_rmem`, 3 MiB on most. So that is
asked for, and taken back.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from broker.network.narrow_sockets import SO_BUF_LOCK
from broker.network.reading import Reading
from broker.runtime.request import ConnectionInfo
from config.keys import KiB, MiB

if TYPE_CHECKING:
    from broker.network.logins.frame_gate import FrameGate

CONFIGURED_BYTES_MIN: Final = 100 * KiB
WIDE_BYTES: Final = 4 * MiB
WIDE_COUNT_MAX: Final = 16
RECEIVE_LOCKED: Final = 2  # SOCK_RCVBUF_LOCK; the other bit is that of the send buffer


def leave_growing(listening: socket.socket) -> None:
    """Let the windows of connections grow beyond the size of their listening socket's buffer."""
    with suppress(OSError):
        _lock(listening, is_locked=False)


def fix(sock: socket.socket) -> None:
    """Have the system keep the buffer of an accepted socket as large as it is."""
    with suppress(OSError):
        _lock(sock, is_locked=True)


class Receiving(Protocol):
    """A connection as seen from here."""

    info: ConnectionInfo
    reading: Reading
    gate: FrameGate | None


class WideSockets:
    """The connections of a broker whose sockets are wide."""

    __slots__ = ("_connections", "_is_fixed", "_may_widen")

    def __init__(self, receive_bytes: int = -1) -> None:
        """`receive_bytes` is socket.receive.buffer.bytes."""
        self._connections: set[object] = set()
        self._is_fixed = receive_bytes > 0
        self._may_widen = CONFIGURED_BYTES_MIN <= receive_bytes < WIDE_BYTES

    def __len__(self) -> int:
        return len(self._connections)

    def accepted(self, sock: socket.socket) -> None:
        """Keep the buffer of a socket at the configured size."""
        if self._is_fixed:
            fix(sock)

    def widen(self, connection: Receiving) -> None:
        """Receive the next large requests in few reads, if there is a place for the connection."""
        connections = self._connections
        if not self._may_widen or connection in connections or len(connections) >= WIDE_COUNT_MAX:
            return
        gate, transport = connection.gate, connection.reading.transport
        is_stranger = gate is not None and gate.is_closed
        if is_stranger or connection.info.listener.is_encrypted or transport is None:
            return
        sock = transport.get_extra_info("socket")
        if sock is None:
            return
        self._connections.add(connection)
        with suppress(OSError):
            _lock(sock, is_locked=False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, WIDE_BYTES)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
            _lock(sock, is_locked=True)

    def forget(self, connection: object) -> None:
        """Give back the place of a connection that has ended."""
        self._connections.discard(connection)


def _lock(sock: socket.socket, *, is_locked: bool) -> None:
    """Lock or unlock the size of a receive buffer. Raises OSError where the system cannot."""
    others = sock.getsockopt(socket.SOL_SOCKET, SO_BUF_LOCK) & ~RECEIVE_LOCKED
    sock.setsockopt(socket.SOL_SOCKET, SO_BUF_LOCK, others | (RECEIVE_LOCKED if is_locked else 0))
