"""A MSGPACK listener with scripted answers: right, wrong, or a closed connection.

`answer(api, body)` returns a body, bytes to send as they are, None to close the connection, or
NO_ANSWER.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any, Self

import msgpack

NO_ANSWER = object()


class MsgpackPeer:
    """A peer with any number of connections; `asked` is every request on them, in order."""

    def __init__(self, answer: Callable[[str, Any], Any]) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.connection_count = 0
        self._answer = answer
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        try:
            while True:
                (size,) = struct.unpack(">I", await reader.readexactly(4))
                api, number, _, body = msgpack.unpackb(await reader.readexactly(size))
                self.asked.append((api, body))
                answer = self._answer(api, body)
                if answer is None:
                    return
                if answer is NO_ANSWER:
                    continue
                if not isinstance(answer, bytes):
                    packed = msgpack.packb([number, answer])
                    answer = struct.pack(">I", len(packed)) + packed
                writer.write(answer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()


def metadata(partition_count: int, name: str = "t") -> dict[str, Any]:
    """Return an answer to Metadata with one topic."""
    partitions = [{"partition_index": index} for index in range(partition_count)]
    topic = {"error_code": 0, "name": name, "topic_id": b"i" * 16, "partitions": partitions}
    return {"topics": [topic]}


def produced(body: Any, code: int = 0, base_offset: int = 0) -> dict[str, Any]:
    """Return an answer to Produce with the same result for every partition."""
    responses = [
        {
            "topic_id": topic["topic_id"],
            "partition_responses": [
                {
                    "index": one["index"],
                    "error_code": code,
                    "base_offset": base_offset,
                    "error_message": None,
                }
                for one in topic["partition_data"]
            ],
        }
        for topic in body["topic_data"]
    ]
    return {"responses": responses}
