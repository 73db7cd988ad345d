"""Clients that leave while they are throttled.

A throttled connection is not read, so the loop does not see that its client has closed it; and its
throttle time may be days. It is not idle either: its client waits for us. So those connections
would add up, each with a descriptor. The kernel is asked about all of them about once a second.

A client that has left is let go at once if it has sent nothing more, and its answers are sent: who
has only ended its own side may still read them. What it has sent, such as batches that want no
answer, is still read after the throttle time, as usual, but not after `connections.max.idle.ms`:
then the connection ends like any that is idle. So do those with TLS, of which unread bytes may lie
between the socket and us.
"""

from __future__ import annotations

import fcntl
import select
import struct
import termios
from collections.abc import Iterable
from typing import Final

from broker.network.connection import Connection
from broker.network.reading import Hold
from broker.runtime.clock import MS_NS
from broker.runtime.metrics import Metrics

HUNG_UP: Final = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR
ASKED_MAX: Final = 4_000  # of a processor at a time: some 5 ms
_COUNT = struct.Struct("i")
_HOLDS: Final = Hold.THROTTLED | Hold.CLOSING


def let_go(
    connections: Iterable[Connection], now_ns: int, idle_ms_max: int, metrics: Metrics
) -> None:
    """End the throttled ones of `connections` whose clients have left."""
    throttled = [one for one in connections if one.reading.holds & _HOLDS == Hold.THROTTLED]
    if not throttled:
        return
    # Those that were asked about before come last: more than ASKED_MAX take turns.
    throttled.sort(key=_last_active)
    asked = throttled[:ASKED_MAX]
    left = _left(asked)
    for one in asked:
        if one not in left:
            one.last_active_ns = now_ns  # it waits for us
        elif _is_done(one, left[one]):
            one.abort("its client has left while it was throttled")
        elif 0 < idle_ms_max * MS_NS < now_ns - one.last_active_ns:
            metrics.connections_closed_idle += 1
            one.abort("its client has left, and is throttled for longer than it may be idle")


def _last_active(connection: Connection) -> int:
    return connection.last_active_ns


def _left(connections: Iterable[Connection]) -> dict[Connection, int]:
    """Return those whose clients have left, and their descriptors."""
    poll = select.poll()
    by_descriptor: dict[int, Connection] = {}
    for one in connections:
        transport = one.reading.transport
        sock = None if transport is None else transport.get_extra_info("socket")
        if sock is not None and (descriptor := sock.fileno()) >= 0:
            by_descriptor[descriptor] = one
            poll.register(descriptor, HUNG_UP)
    found = poll.poll(0)
    # A socket that the loop has closed in this turn, without having told, is no socket any more.
    return {by_descriptor[at]: at for at, events in found if not events & select.POLLNVAL}


def _is_done(connection: Connection, descriptor: int) -> bool:
    """Whether nothing that the client has sent is left to do, and nothing is left to send to it."""
    if connection.info.listener.is_encrypted or connection.frames or connection.slots:
        return False
    connection.flush()
    transport = connection.reading.transport
    if transport is not None and transport.get_write_buffer_size():
        return False
    (unread,) = _COUNT.unpack(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(_COUNT.size)))
    return not unread
