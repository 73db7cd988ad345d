"""Small receive buffers of sockets for clients over TLS that are not logged in.

What one read of the loop takes from a socket is held three times: in the loop's buffer, encrypted
in OpenSSL's, and in the unfinished frame. The first two never shrink. So a stranger who sends the
largest frame at once would hold 220 KiB; with a socket that takes a few KiB at a time it holds
100. (A client that is logged in may: its requests are large.)

The listening socket is narrow, so that no client is offered more in the first place; its size is
not locked, or the windows of all its connections could never grow beyond 64 KiB. An accepted socket
is locked, or the system would enlarge its buffer while a large frame is read. Systems that cannot
unlock (Linux before 5.14) narrow none.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Final

RECEIVE_BYTES: Final = 4096  # the system doubles it; logins without large tokens are smaller
SO_BUF_LOCK: Final = 72  # of asm-generic/socket.h; Python has no name for it
UNLOCKED: Final = 0
FIT_FACTOR: Final = 4


def narrow_listener(sock: socket.socket) -> None:
    """Offer little to the clients of a listening socket, until `widen`."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, SO_BUF_LOCK, UNLOCKED)  # or not at all
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        sock.setsockopt(socket.SOL_SOCKET, SO_BUF_LOCK, UNLOCKED)


def narrow(sock: socket.socket) -> None:
    """Receive little at a time, until `widen`."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, SO_BUF_LOCK, UNLOCKED)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)


def fit(sock: socket.socket, count: int) -> None:
    """Make room for `count` bytes, which are awaited whole (SO_RCVLOWAT), until `narrow`.

    The system enlarges the buffer for what is awaited. It wakes whoever waits before a buffer is
    full, and counts its own structures as well; so more is awaited for a moment.
    """
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, SO_BUF_LOCK, UNLOCKED)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, FIT_FACTOR * count)


def widen(sock: socket.socket, receive_bytes: int) -> None:
    """Receive as other connections do; `receive_bytes` is socket.receive.buffer.bytes."""
    with suppress(OSError):
        if receive_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        else:
            sock.setsockopt(socket.SOL_SOCKET, SO_BUF_LOCK, UNLOCKED)
