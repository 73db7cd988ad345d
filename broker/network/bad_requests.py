"""Requests that cannot be read, and yet be answered: those of the msgpack dialect.

They reach no handler, so no worker's slice bounds them. One read brings some 26,000 of ten bytes,
and each takes some 8 µs. So a processor answers at most `OF_A_TURN` in a turn of the loop; their
connections are held (`broker.network.held_for_turns`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.network.held_for_turns import HeldForTurns
from broker.runtime.metrics import Metrics
from broker.runtime.request import Request
from protocol.dialect import RequestHeader
from protocol.errors import BadRequest

if TYPE_CHECKING:
    from broker.network.connection import Connection

OF_A_TURN: Final = 200


class BadRequests:
    """The unreadable requests of one processor's connections."""

    __slots__ = ("_answered", "_held", "_metrics")

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._answered = 0  # in this turn
        self._held = HeldForTurns(self._begin, OF_A_TURN)

    def take(self, connection: Connection, error: BadRequest) -> None:
        """Answer the first frame of a connection, or hold that for some turns."""
        if self._answered < OF_A_TURN:
            self.answer(connection, error, len(connection.frames.popleft()) + 4)
            return
        connection.decoded = error
        self._held.add(connection)

    def answer(self, connection: Connection, error: BadRequest, frame_bytes: int) -> None:
        """Answer an unreadable request in its turn, and keep the connection."""
        self._held.use()
        self._answered += 1
        self._metrics.bad_requests += 1
        header = RequestHeader(-1, -1, error.correlation_id, None)
        request = Request(connection, header, None, frame_bytes)
        connection.slots.append(request)
        connection.respond(request, (error.answer,))

    def _begin(self) -> None:
        self._answered = 0
