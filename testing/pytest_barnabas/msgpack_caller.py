"""Calls of the broker's msgpack dialect: what a test needs without any client of Kafka's.

A frame is its size in four bytes and one msgpack array: `[api, correlation id, client id, body]`,
answered by `[correlation id, body]`. The connection is made again after the broker's restart.
"""

from __future__ import annotations

import socket
import struct
from typing import Any, Final

import msgpack

from pytest_barnabas.errors import BarnabasError

CLIENT_ID: Final = "pytest-barnabas"
ANSWER_SECONDS: Final = 30.0


class MsgpackCaller:
    """A connection to one broker, made when it is needed."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._sock: socket.socket | None = None
        self._count = 0

    def call(self, api: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body of the answer. Raises BarnabasError, OSError."""
        self._count += 1
        frame = msgpack.packb([api, self._count, CLIENT_ID, body])
        if self._sock is None:
            self._sock = socket.create_connection(self._address, timeout=ANSWER_SECONDS)
        try:
            self._sock.sendall(struct.pack(">I", len(frame)) + frame)
            (size,) = struct.unpack(">I", self._exactly(4))
            _, answer = msgpack.unpackb(self._exactly(size), strict_map_key=False)
        except (OSError, ValueError):
            self.close()
            raise
        if answer.get("error_message") and set(answer) == {"error_code", "error_message"}:
            raise BarnabasError(f"{api}: {answer['error_message']}")
        found: dict[str, Any] = answer
        return found

    def close(self) -> None:
        """End the connection."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def _exactly(self, size: int) -> bytes:
        assert self._sock is not None
        received = bytearray()
        while len(received) < size:
            piece = self._sock.recv(size - len(received))
            if not piece:
                raise ConnectionResetError("the broker has closed the connection")
            received += piece
        return bytes(received)
