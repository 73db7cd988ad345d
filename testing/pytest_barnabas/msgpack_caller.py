"""Calls of the broker's msgpack dialect: what a test needs without any client of Kafka's.

A frame is its size in four bytes and one msgpack array: `[api, correlation id, client id, body]`,
answered by `[correlation id, body]`. The connection is made again after the broker's restart, after
a call that was interrupted, and in a process that was forked. Several threads may call.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
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
        self._owner = 0  # the process that has made the connection
        self._count = 0
        self._turn = threading.Lock()

    def call(self, api: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body of the answer. Raises BarnabasError, OSError."""
        with self._turn:
            answer = self._answer(api, body)
        if answer.get("error_message") and set(answer) == {"error_code", "error_message"}:
            raise BarnabasError(f"{api}: {answer['error_message']}")
        found: dict[str, Any] = answer
        return found

    def close(self) -> None:
        """End the connection."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def _answer(self, api: str, body: dict[str, Any]) -> Any:
        self._count += 1
        frame = msgpack.packb([api, self._count, CLIENT_ID, body])
        if self._owner != os.getpid():
            self.close()
        sock = self._sock
        if sock is None:
            sock = self._sock = socket.create_connection(self._address, timeout=ANSWER_SECONDS)
            self._owner = os.getpid()
        try:
            sock.sendall(struct.pack(">I", len(frame)) + frame)
            (size,) = struct.unpack(">I", _exactly(sock, 4))
            _, answer = msgpack.unpackb(_exactly(sock, size), strict_map_key=False)
        except BaseException:  # also a signal: the answer would be taken for the next one's
            self.close()
            raise
        return answer


def _exactly(sock: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        piece = sock.recv(size - len(received))
        if not piece:
            raise ConnectionResetError("the broker has closed the connection")
        received += piece
    return bytes(received)
