"""Connections that are not served, and closed some time after they were accepted.

They hold a descriptor and a timer each. Of more than `HELD_MAX` the oldest is closed early.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from broker.runtime import owners
from broker.runtime.owners import Owner

HELD_MAX: Final = 1_000


class HeldSockets:
    """Sockets that wait to be closed."""

    __slots__ = ("_timers",)

    def __init__(self) -> None:
        self._timers: dict[socket.socket, asyncio.TimerHandle] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._timers)

    def hold(self, sock: socket.socket, held_ms: int) -> None:
        """Close a socket after `held_ms`."""
        if len(self._timers) >= HELD_MAX:
            self._close(next(iter(self._timers)))
        self._timers[sock] = owners.later(Owner.ACCEPTOR, held_ms / 1000, self._close, sock)

    def close_all(self) -> None:
        """Close all now: the broker is stopping."""
        for sock in tuple(self._timers):
            self._close(sock)

    def _close(self, sock: socket.socket) -> None:
        self._timers.pop(sock).cancel()
        sock.close()
