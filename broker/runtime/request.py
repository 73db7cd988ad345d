"""One request on its way through the broker, its connection, and its answer if that comes later.

A request is made by a processor, waits in the request queue, is handled by an IO worker, and is
at the same time the slot that keeps its place in its connection's order: answers leave in the
order of the requests (docs/design.md, I7).

A handler that cannot answer yet returns a `Pending`. It is smaller than an asyncio future, and its
callback runs at once instead of in the next turn of the loop: an acknowledgement waits for nothing
but its fsync.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from config.listeners import Listener
from protocol.dialect import Dialect, RequestHeader

Buffer = bytes | bytearray | memoryview


class ConnectionInfo:
    """What a handler may know of the connection: who asks, and at which of our doors."""

    __slots__ = ("dialect", "listener", "local_host", "local_port", "peer_host", "peer_port")

    def __init__(
        self, listener: Listener, dialect: Dialect, local: tuple[str, int], peer: tuple[str, int]
    ) -> None:
        self.listener = listener
        self.dialect = dialect
        self.local_host, self.local_port = local
        self.peer_host, self.peer_port = peer


class Responder(Protocol):
    """The connection as a request sees it."""

    info: ConnectionInfo

    def respond(self, request: Request, buffers: Sequence[Buffer]) -> None:
        """Send the answer in its turn; no buffers: nothing to send, the place is released."""
        ...

    def abort(self, reason: str) -> None:
        """Close the connection at once, for `reason`."""
        ...


class Request:
    """A decoded request and its place in its connection's order."""

    __slots__ = (
        "abandoned",
        "answer_bytes_max",
        "body",
        "buffers",
        "connection",
        "frame",
        "frame_bytes",
        "header",
        "info",
        "on_abandon",
    )

    def __init__(
        self,
        connection: Responder,
        header: RequestHeader,
        body: Any,
        frame_bytes: int,
        answer_bytes_max: int = 0,
    ) -> None:
        self.connection = connection
        self.info = connection.info
        self.header = header
        self.body = body
        self.frame_bytes = frame_bytes  # held until it is answered
        self.answer_bytes_max = answer_bytes_max  # reserved until it is answered
        self.abandoned = False  # its connection is gone
        self.frame: bytearray | None = None  # of a large one, which may be received into again
        self.buffers: Sequence[Buffer] | None = None  # None until answered
        self.on_abandon: Callable[[], object] | None = None  # set by whoever parks it

    def give_frame(self) -> bytearray:
        """Give up the frame, and the body with its views of it: the request is answered."""
        assert self.frame is not None
        frame, self.frame = self.frame, None
        self.body = None
        return frame

    def abandon(self) -> bool:
        """Tell whoever parked the request that its connection is gone; whether anybody had.

        If so, it is never answered. Else it is worked on, and answered into the void.
        """
        self.abandoned = True
        if self.on_abandon is None:
            return False
        self.on_abandon()
        return True

    def give_up(self) -> None:
        """Close the connection, as there is no answer; what the request held is given back."""
        self.connection.abort("internal error")
        if self.buffers is None:
            self.connection.respond(self, ())


class Pending:
    """Completed once, with the response message; whoever subscribed hears of it at once."""

    __slots__ = ("_failed", "_subscriber", "done", "error", "response")

    def __init__(self) -> None:
        self.done = False
        self.response: Any = None
        self.error: Exception | None = None
        self._subscriber: Callable[[Any], None] | None = None
        self._failed: Callable[[Exception], None] | None = None

    def complete(self, response: Any) -> None:
        """Give the answer. A second completion (a deadline that lost the race) is ignored."""
        if self.done:
            return
        self.done = True
        self.response = response
        if self._subscriber is not None:
            self._subscriber(response)

    def fail(self, error: Exception) -> None:
        """Say that there is no answer, for a reason that nobody expected."""
        if self.done:
            return
        self.done = True
        self.error = error
        if self._failed is not None:
            self._failed(error)

    def then(
        self,
        subscriber: Callable[[Any], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Call `subscriber(response)`, or `failed(error)`, at the end, or now if that has come."""
        if not self.done:
            self._subscriber = subscriber
            self._failed = failed
        elif self.error is not None:
            failed(self.error)
        else:
            subscriber(self.response)
