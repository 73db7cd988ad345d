"""Requests that cannot be read, and yet be answered: those of the msgpack dialect.

They reach no handler, so no worker's slice bounds them. One read brings some 26,000 of ten bytes,
and each takes some 8 µs. So a processor answers at most `OF_A_TURN` in a turn of the loop; their
connections are held until the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.network.reading import Hold
from broker.runtime import owners
from broker.runtime.metrics import Metrics
from broker.runtime.owners import Owner
from broker.runtime.request import Request
from protocol.dialect import RequestHeader
from protocol.errors import BadRequest

if TYPE_CHECKING:
    from broker.network.connection import Connection

OF_A_TURN: Final = 200


class BadRequests:
    """The unreadable requests of one processor's connections."""

    __slots__ = ("_answered", "_metrics")

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._answered = 0  # in this turn

    def take(self, connection: Connection, error: BadRequest) -> None:
        """Answer the first frame of a connection, or hold that for a turn."""
        if self._answered < OF_A_TURN:
            self.answer(connection, error, len(connection.frames.popleft()) + 4)
            return
        connection.decoded = error
        connection.reading.hold(Hold.DECODING)
        owners.soon(Owner.PROCESSOR, connection.release, Hold.DECODING)

    def answer(self, connection: Connection, error: BadRequest, frame_bytes: int) -> None:
        """Answer an unreadable request in its turn, and keep the connection."""
        if not self._answered:
            owners.soon(Owner.PROCESSOR, self._begin)
        self._answered += 1
        self._metrics.bad_requests += 1
        header = RequestHeader(-1, -1, error.correlation_id, None)
        request = Request(connection, header, None, frame_bytes)
        connection.slots.append(request)
        connection.respond(request, (error.answer,))

    def _begin(self) -> None:
        self._answered = 0
