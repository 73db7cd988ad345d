"""A connection without a socket, for handlers and the request queue; keeps what was sent to it."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from broker.runtime.request import Buffer, ConnectionInfo, Request
from config.listeners import Listener
from protocol.dialect import RequestHeader

LISTENER = Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)


class MessageDialect:
    """A dialect that passes messages through unencoded, so that tests compare messages."""

    def decode_request(self, frame: memoryview) -> Any:
        raise AssertionError("no frames are decoded here")

    def encode_response(self, header: RequestHeader, response: Any) -> list[Any]:
        return [(header.correlation_id, response)]

    def encode_in_steps(self, header: RequestHeader, response: Any) -> Any:
        yield 0
        return [(header.correlation_id, response)]


NO_DIALECT = MessageDialect()


class FakeConnection:
    """A connection that collects its answers and the reason for its close."""

    def __init__(self) -> None:
        self.info = ConnectionInfo(LISTENER, NO_DIALECT, ("127.0.0.1", 9092), ("127.0.0.1", 50000))
        self.sent: list[Sequence[Buffer]] = []
        self.aborted: list[str] = []
        self.refused: list[str] = []
        self.throttled: list[int] = []  # ms
        self.reading: Any = SimpleNamespace(mute=self.throttled.append, can_wait=True)

    def respond(self, request: Request, buffers: Sequence[Buffer]) -> None:
        request.buffers = buffers
        self.sent.append(buffers)

    def abort(self, reason: str) -> None:
        self.aborted.append(reason)

    def refuse(self, error: Exception) -> None:
        self.refused.append(str(error))

    def request(self, body: Any, *, api_key: int = 0, version: int = 0, number: int = 1) -> Request:
        header = RequestHeader(api_key, version, number, "test")
        return Request(self, header, body, frame_bytes=10)
