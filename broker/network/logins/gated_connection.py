"""What a gate knows: its connection, and what all gates of a broker share."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from broker.network.logins.login_errors import LoginEnded
from broker.network.narrow_sockets import widen
from broker.network.reading import Reading
from broker.runtime import owners
from broker.runtime.clock import Clock
from broker.runtime.log_lines import RateLimiter
from broker.runtime.metrics import Metrics
from broker.runtime.owners import Owner
from broker.runtime.request import Buffer, ConnectionInfo, Request
from broker.security.sasl.sasl_listeners import SaslListeners
from protocol.errors import ErrorCode
from protocol.framing import FrameReader

logger = logging.getLogger("barnabas.network")


class GatedConnection(Protocol):
    """A connection as its gate sees it."""

    info: ConnectionInfo
    reader: FrameReader
    reading: Reading
    frames: deque[bytearray]
    slots: deque[Request]
    refusal: Exception | None  # closes it after the last answer

    def respond(self, request: Request, buffers: Sequence[Buffer]) -> None:
        """Send an answer in its turn."""
        ...

    def release(self, reason: int) -> None:
        """Drop a reason that stops reading."""
        ...

    def refuse(self, error: Exception) -> None:
        """Close at once for what the client sent."""
        ...

    def close(self) -> None:
        """Close after the given answers are sent."""
        ...

    def abort(self, reason: str) -> None:
        """Close at once."""
        ...

    def hear_of_room(self) -> bool:
        """Continue, since the queue has room; return whether the connection will use it."""
        ...


@dataclass(frozen=True, slots=True)
class SaslParts:
    """What the gates of a broker share. `error_answer` makes the answer of an API to an error."""

    listeners: SaslListeners
    error_answer: Callable[[Request, ErrorCode], Any]
    lines: RateLimiter
    metrics: Metrics
    clock: Clock
    linger_s: float = 0.5  # from the answer to a failed login to the end of its connection
    receive_bytes: int = -1  # socket.receive.buffer.bytes

    def end(self, connection: GatedConnection, *, is_answered: bool) -> asyncio.TimerHandle:
        """End a connection whose login has failed, when its client has read an answer."""
        seconds = self.linger_s if is_answered else 0.0
        return owners.later(Owner.LOGIN, seconds, _close, connection)

    def receive_freely(self, connection: GatedConnection, frame_bytes_max: int) -> None:
        """Receive from a client that has logged in as from others."""
        connection.reader.size_max = frame_bytes_max
        transport = connection.reading.transport
        if transport is not None and connection.info.listener.is_encrypted:
            widen(transport.get_extra_info("socket"), self.receive_bytes)

    def tell_failed(self, info: ConnectionInfo, why: str) -> None:
        """Count a failed login; log it, a few times a second at most."""
        self.metrics.logins_failed += 1
        dropped = self.lines.allow()
        if dropped is not None:
            logger.warning(
                "Failed authentication with %(host)s:%(port)d on listener %(listener)s"
                " (%(reason)s)%(note)s",
                info.log_fields(why, dropped),
            )


def _close(connection: GatedConnection) -> None:
    if connection.slots:  # what was asked before a login again: its answers come first
        connection.refusal = LoginEnded()
    else:
        connection.close()
