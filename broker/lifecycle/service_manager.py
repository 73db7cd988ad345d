"""What the broker and a service manager (systemd) say to each other, by environment variables.

    LISTEN_FDS, LISTEN_PID    sockets that the manager has bound and keeps: the broker listens on
                              those whose address is a listener's. While it is stopped or replaced,
                              connections wait in their backlog, and none is refused
    NOTIFY_SOCKET             where the broker says that it is ready, or stops
    WATCHDOG_USEC             how often the loop must say that it turns, or the manager restarts it

Without these variables nothing happens. They are removed, so that no child uses them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Final

from broker.network import acceptor
from broker.runtime import owners
from broker.runtime.owners import Owner
from config.listeners import WILDCARDS, Listener

logger = logging.getLogger("barnabas.server")

FIRST_FD: Final = 3  # SD_LISTEN_FDS_START
FDS_MAX: Final = 64
_ANY: Final = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


class InheritedSockets:
    """The sockets that the service manager has passed on, each for one listener."""

    def __init__(self, environment: MutableMapping[str, str], process_id: int) -> None:
        self._sockets: list[socket.socket] = []
        count = environment.pop("LISTEN_FDS", "0")
        wanted_by = environment.pop("LISTEN_PID", "")
        environment.pop("LISTEN_FDNAMES", None)
        if wanted_by != str(process_id) or not count.isdecimal():
            return  # for a parent of this process
        for fd in range(FIRST_FD, FIRST_FD + min(int(count), FDS_MAX)):
            os.set_inheritable(fd, False)  # noqa: FBT003 - its only argument
            with suppress(OSError):  # no socket: a file, for example
                self._sockets.append(socket.socket(fileno=fd))

    def bind(self, listener: Listener, receive: int, send: int, backlog: int) -> socket.socket:
        """Return a listening socket: the inherited one with its address, or a new one.

        One that listens keeps its manager's backlog: it is for the time without a broker, in which
        more connections wait than at a running one. Raises OSError.
        """
        for sock in self._sockets:
            if _is_for(listener, sock):
                self._sockets.remove(sock)
                acceptor.size_buffers(sock, listener, receive, send)
                if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    sock.listen(backlog)
                sock.setblocking(False)  # noqa: FBT003 - the socket's own signature
                logger.info(
                    "listener %(listener)s: its socket was passed on to this process",
                    {"listener": listener.name},
                )
                return sock
        return acceptor.bind(listener, receive, send, backlog)

    def close_others(self) -> None:
        """Warn of sockets that no listener has, and close them: their clients would wait."""
        for sock in self._sockets:
            host, port = sock.getsockname()[:2] if sock.family != socket.AF_UNIX else ("a file", 0)
            logger.warning(
                "a socket at %(host)s:%(port)d was passed on to this process, and no listener has"
                " this address",
                {"host": host, "port": port},
            )
            sock.close()
        self._sockets.clear()


def _is_for(listener: Listener, sock: socket.socket) -> bool:
    """Whether a socket has a listener's address: the port, and the host or all hosts."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6) or sock.type != socket.SOCK_STREAM:
        return False
    host, port = sock.getsockname()[:2]
    if port != listener.port:
        return False
    if host in _ANY:
        return listener.host in WILDCARDS
    return host == listener.host or host in addresses_of(listener.host)


def addresses_of(host: str) -> list[str]:
    """Return the addresses that a name has; none if it has none."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(one[4][0]) for one in found]


class ServiceManager:
    """Tells the service manager how the broker is. Without one it does nothing."""

    def __init__(self, environment: MutableMapping[str, str], process_id: int) -> None:
        self._address = environment.pop("NOTIFY_SOCKET", "")
        usec = environment.pop("WATCHDOG_USEC", "")
        wanted_by = environment.pop("WATCHDOG_PID", str(process_id))
        is_ours = usec.isdecimal() and wanted_by == str(process_id)
        self._every_seconds = int(usec) / 2_000_000 if is_ours else 0.0
        self._timer: asyncio.TimerHandle | None = None

    def tell(self, *lines: str) -> None:
        """Send lines such as READY=1. A manager that does not listen is no failure of the broker.

        A datagram to a local socket: it does not block.
        """
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with (
            suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock,
        ):
            sock.sendto("\n".join(lines).encode(), address)

    def ready(self) -> None:
        """Say that clients are served, and from now on that the loop turns."""
        self.tell("READY=1", "STATUS=Serving")
        if self._address and self._every_seconds and self._timer is None:
            self._watch()

    def stopping(self) -> None:
        """Say that the broker stops in order. The loop is watched until `end`."""
        self.tell("STOPPING=1", "STATUS=Stopping")

    def end(self) -> None:
        """Tell nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch(self) -> None:
        self.tell("WATCHDOG=1")
        self._timer = owners.later(Owner.TICKER, self._every_seconds, self._watch)
