"""The frames of a connection with a gate: which are for handlers, and which belong to a login."""

from __future__ import annotations

from typing import Any, Protocol

from broker.network.logins.gated_connection import GatedConnection, SaslParts
from broker.network.logins.sasl_gate import SaslGate, check_size
from broker.network.reading import Hold
from broker.runtime.metrics import Metrics
from broker.runtime.request import Request
from broker.runtime.request_queue import RequestQueue
from protocol.errors import BadRequest, ProtocolError


class AnswersBad(Protocol):
    """What answers requests that cannot be read."""

    def answer(self, connection: Any, error: BadRequest, frame_bytes: int) -> None:
        """Answer one, and keep the connection."""
        ...


class FrameSource(Protocol):
    """The processor of a connection, as its gate sees it."""

    queue: RequestQueue
    metrics: Metrics

    @property
    def bad_requests(self) -> AnswersBad:
        """What answers requests that cannot be read."""
        ...

    def decode(self, connection: Any, frame: bytearray, *, in_thread: bool = False) -> Request:
        """Decode a frame."""
        ...

    def ready(self, connection: Any) -> None:
        """Look at the frames of a connection soon."""
        ...


class FrameGate:
    """Hands the frames of one connection to its login, until that has opened the gate."""

    __slots__ = ("_connection", "_processor", "login")

    def __init__(
        self, connection: GatedConnection, processor: FrameSource, parts: SaslParts
    ) -> None:
        self._connection = connection
        self._processor = processor
        self.login = SaslGate(connection, parts)

    @property
    def is_closed(self) -> bool:
        """Whether only frames of a login pass."""
        return self.login.is_closed

    def pass_on(self) -> bool:
        """Whether the next frame is for a handler; if not, the login has taken it, or it waits."""
        connection, login, processor = self._connection, self.login, self._processor
        frames, reading = connection.frames, connection.reading
        if self.end_if_removed():
            return False
        api_key = -1
        if not login.takes_raw_tokens:
            api_key = connection.info.dialect.api_of(memoryview(frames[0]))
            if not login.is_closed and login.passes(api_key):
                return True
        if reading.held:  # the login has expired
            return False
        if login.takes_raw_tokens:
            self._take_raw_token(frames.popleft())
        elif processor.queue.full:
            reading.hold(Hold.QUEUE_FULL)
            processor.queue.wait_for_room(connection)
        else:
            self._log_in(api_key, frames.popleft())
        if frames and not reading.held:
            processor.ready(connection)
        return False

    def end_if_removed(self) -> bool:
        """Close the connection if its user was removed; return whether that is so."""
        if not self.login.session.is_removed:
            return False
        self._processor.metrics.logins_removed += 1
        self._connection.abort("its user was removed")
        return True

    def _take_raw_token(self, frame: bytearray) -> None:
        """Hand a frame that is a token to the login."""
        try:
            check_size(len(frame))
        except ProtocolError as error:
            self._connection.refuse(error)
        else:
            self.login.take_raw_token(frame)

    def _log_in(self, api_key: int, frame: bytearray) -> None:
        """Hand a frame of a client that is not logged in to the login."""
        connection, processor = self._connection, self._processor
        try:
            self.login.check(api_key, len(frame))
            # Small as it is, it is decoded here, also where others would take a thread.
            request = processor.decode(connection, frame, in_thread=True)
        except BadRequest as error:
            processor.bad_requests.answer(connection, error, len(frame) + 4)
            connection.refusal = error
            connection.reading.hold(Hold.REFUSED)
        except (ProtocolError, OSError, ImportError) as error:
            connection.refuse(error)
        else:
            request.answer_bytes_max = 0  # nothing is reserved for small answers
            connection.slots.append(request)
            if self.login.take(request):
                processor.metrics.requests_received += 1
                processor.queue.put(request)
