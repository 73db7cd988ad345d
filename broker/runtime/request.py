"""One request on its way through the broker, its connection, and its answer if that comes later.

A processor makes a request, the request queue holds it, and an IO worker handles it. A request is
also the slot that keeps its place in its connection's order: answers leave in the order of the
requests (docs/design.md, I7).

A handler that cannot answer yet returns a `Pending`. It is smaller than an asyncio future, and its
callback runs at once instead of in the next turn of the loop, so an acknowledgement waits only for
its fsync.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from broker.runtime.request_times import RequestTiming
from config.listeners import Listener
from protocol.dialect import Dialect, RequestHeader

Buffer = bytes | bytearray | memoryview

ANONYMOUS = "User:ANONYMOUS"
SAID_MAX = 128  # characters kept of what each client says of itself
UNNAMED = "unknown"  # Kafka's word for the software of clients that do not name it


class ConnectionInfo:
    """What a handler may know of a connection: its client, listener and dialect.

    `principal` is who the client has shown to be: Kafka's type, a colon, and the name. The
    software and the client's id are what it says of itself in ApiVersions.
    """

    __slots__ = (
        "client_id",
        "dialect",
        "has_ended",
        "listener",
        "local_host",
        "local_port",
        "peer_host",
        "peer_port",
        "principal",
        "since_ms",
        "software_name",
        "software_version",
    )

    def __init__(
        self, listener: Listener, dialect: Dialect, local: tuple[str, int], peer: tuple[str, int]
    ) -> None:
        self.listener = listener
        self.dialect = dialect
        self.local_host, self.local_port = local
        self.peer_host, self.peer_port = peer
        self.principal = ANONYMOUS
        self.since_ms = 0  # when it connected
        self.has_ended = False
        self.client_id = ""
        self.software_name = self.software_version = UNNAMED

    def log_fields(self, reason: object, dropped: int = 0) -> dict[str, object]:
        """Return the fields of a line about its end; `dropped` lines like it were not written."""
        return {
            "host": self.peer_host,
            "port": self.peer_port,
            "listener": self.listener.name,
            "client_id": self.client_id,
            "principal": self.principal,
            "reason": reason,
            "note": f" ({dropped} similar lines suppressed)" if dropped else "",
        }

    def introduce(self, software_name: str, software_version: str) -> None:
        """Keep what the client says of its software."""
        self.software_name = software_name[:SAID_MAX]
        self.software_version = software_version[:SAID_MAX]

    def name_client(self, client_id: str) -> None:
        """Keep the client's id."""
        self.client_id = client_id[:SAID_MAX]


class Muteable(Protocol):
    """What receives from a client, as quotas see it."""

    @property
    def can_wait(self) -> bool:
        """Whether a client is there that asks again later; else it is answered all the same."""
        ...

    def mute(self, throttle_ms: int) -> None:
        """Read nothing more for so long: the client is over a quota."""
        ...


class Responder(Protocol):
    """The connection as a request sees it."""

    info: ConnectionInfo

    def respond(self, request: Request, buffers: Sequence[Buffer]) -> None:
        """Send the answer in its turn; without buffers, only release the request's place."""
        ...

    def abort(self, reason: str) -> None:
        """Close the connection at once, and log `reason`."""
        ...

    def refuse(self, error: Exception) -> None:
        """Close the connection at once for what its client sent, and count that."""
        ...

    @property
    def reading(self) -> Muteable:
        """The end that receives from the client."""


class Extras:
    """What only few requests have: a test for it costs all others once and not twice."""

    __slots__ = ("frame", "timing")

    def __init__(self) -> None:
        self.frame: bytearray | None = None  # of a large request, to be received into again
        self.timing: RequestTiming | None = None  # of one in many


class Request:
    """A decoded request and its place in its connection's order."""

    __slots__ = (
        "abandoned",
        "answer_bytes_max",
        "body",
        "buffers",
        "connection",
        "extras",
        "frame_bytes",
        "header",
        "info",
        "on_abandon",
        "spent_ns",
    )

    spent_ns: int  # in its handler, while quotas are set; not there otherwise

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
        self.buffers: Sequence[Buffer] | None = None  # None until answered
        self.on_abandon: Callable[[], object] | None = None  # set while it is parked
        self.extras: Extras | None = None

    def give_frame(self) -> bytearray | None:
        """Return the frame of an answered request, and drop the body with its views of it."""
        extras = self.extras
        if extras is None or extras.frame is None:
            return None
        frame, extras.frame = extras.frame, None
        self.body = None
        return frame

    def abandon(self) -> bool:
        """Call `on_abandon`, as the connection is gone; return whether the request was parked.

        A parked request is never answered. Any other is handled to its end, and its answer dropped.
        """
        self.abandoned = True
        if self.on_abandon is None:
            return False
        self.on_abandon()
        return True

    def give_up(self) -> None:
        """Close the connection, since there is no answer, and release the request's memory."""
        self.connection.abort("internal error")
        if self.buffers is None:
            self.connection.respond(self, ())


class Pending:
    """An answer that comes later: completed once with the response, or failed with an error."""

    __slots__ = ("_failed", "_subscriber", "done", "error", "response")

    def __init__(self) -> None:
        self.done = False
        self.response: Any = None
        self.error: Exception | None = None
        self._subscriber: Callable[[Any], None] | None = None
        self._failed: Callable[[Exception], None] | None = None

    def complete(self, response: Any) -> None:
        """Give the answer. A second completion, by a deadline that came too late, is ignored."""
        if self.done:
            return
        self.done = True
        self.response = response
        if self._subscriber is not None:
            self._subscriber(response)

    def fail(self, error: Exception) -> None:
        """Report that there is no answer, because of an unexpected error."""
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
        """Call `subscriber(response)` or `failed(error)` on completion, or now if it is done."""
        if not self.done:
            self._subscriber = subscriber
            self._failed = failed
        elif self.error is not None:
            failed(self.error)
        else:
            subscriber(self.response)
