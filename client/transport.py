"""A connection in the msgpack dialect, for asyncio.

Out goes `[api, correlation_id, client_id, body]`, in comes `[correlation_id, body]`, each after the
four bytes of its size.

One request at a time: the producer and the consumer each have a connection of their own, and order
is then no question. Nothing is retried here. A connection that failed in any way is closed, since
an answer that comes late could be taken for another's; `open` makes a new one.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from typing import Any, Final

import msgpack

from protocol.errors import ErrorCode

DEFAULT_ADDRESS: Final = "127.0.0.1:9094"
ANSWER_BYTES_MAX: Final = 256 << 20
_SIZE: Final = struct.Struct(">I")
_CLIENT_ID: Final = "barnabas"


class TransportError(Exception):
    """No answer, or one that is none: what was asked may or may not have been done."""


class UnknownPlace(Exception):
    """There is no such topic, or no such partition of it."""


class RequestRefused(Exception):
    """The broker answered that it does not understand the request."""


class Transport:
    """One connection to `address` (HOST:PORT); every wait ends after `timeout_s`."""

    def __init__(self, address: str, timeout_s: float) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._correlation_id = 0

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, as far as is known without using it."""
        return self._streams is not None

    async def open(self) -> None:
        """Connect, if not connected. Raises TransportError."""
        if self._streams is not None:
            return
        host, colon, port = self.address.rpartition(":")
        if not colon or not host or not port.isdecimal():
            raise TransportError(f"{self.address!r} is no address, wanted HOST:PORT")
        try:
            async with asyncio.timeout(self._timeout_s):
                self._streams = await asyncio.open_connection(
                    host.removeprefix("[").removesuffix("]"), int(port), limit=1 << 20
                )
        except OSError as error:  # TimeoutError is one
            raise TransportError(
                f"no broker answers at {self.address}: {error or 'it took too long'}. Is it "
                "running, and is that the address of a MSGPACK listener?"
            ) from error

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def call(self, api: str, body: Mapping[str, Any], *, wait_ms: int = 0) -> dict[str, Any]:
        """Send a request and return its answer's body; `wait_ms` is what the broker may take more.

        Raises TransportError, and RequestRefused, after which the connection goes on.
        """
        try:
            async with asyncio.timeout(self._timeout_s + wait_ms / 1000):
                await self._write(api, body)
                answer = await self._read()
        except (OSError, EOFError) as error:
            self.close()
            raise TransportError(
                f"{self.address} did not answer {api}: {str(error) or 'it took too long'}"
            ) from error
        except BaseException:
            self.close()
            raise
        if answer.keys() == {"error_code", "error_message"}:
            raise RequestRefused(f"{self.address} refused {api}: {answer['error_message']}")
        return answer

    async def post(self, api: str, body: Mapping[str, Any]) -> None:
        """Send a request that has no answer (Produce with acks=0). Raises TransportError."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._write(api, body)
        except OSError as error:
            self.close()
            raise TransportError(f"{self.address} did not take {api}: {error}") from error

    async def _write(self, api: str, body: Mapping[str, Any]) -> None:
        await self.open()
        assert self._streams is not None
        self._correlation_id = (self._correlation_id + 1) % (1 << 31)
        frame = msgpack.packb([api, self._correlation_id, _CLIENT_ID, body])
        writer = self._streams[1]
        writer.write(_SIZE.pack(len(frame)))
        writer.write(frame)
        await writer.drain()

    async def _read(self) -> dict[str, Any]:
        assert self._streams is not None
        reader = self._streams[0]
        (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
        if size > ANSWER_BYTES_MAX:
            raise TransportError(f"{self.address} announced an answer of {size} bytes")
        packed = await reader.readexactly(size)
        try:
            correlation_id, body = msgpack.unpackb(packed)
        except (ValueError, TypeError) as error:
            raise TransportError(f"{self.address} does not speak msgpack: {error}") from error
        if correlation_id != self._correlation_id or not isinstance(body, dict):
            raise TransportError(
                f"{self.address} answered {correlation_id!r} when asked {self._correlation_id}"
            )
        return body


class Topics:
    """The ids and partition counts of topics, asked for when needed (Metadata)."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._known: dict[str, tuple[bytes, int]] = {}

    async def find(self, topic: str, *, create: bool) -> tuple[bytes, int]:
        """Return a topic's id and count of partitions; UnknownPlace with the reason if none."""
        known = self._known.get(topic)
        if known is not None:
            return known
        answer = await self._transport.call(
            "metadata",
            {"topics": [{"name": topic}], "allow_auto_topic_creation": create},
        )
        found = answer["topics"][0]
        if found["error_code"]:
            code = ErrorCode(found["error_code"])  # type: ignore[call-arg]
            raise UnknownPlace(f"topic {topic!r}: {code.name} ({int(code)}): {code.message}")
        self._known[topic] = found["topic_id"], len(found["partitions"])
        return self._known[topic]

    def known(self, topic: str) -> bytes | None:
        """Return a topic's id if it has been asked for."""
        known = self._known.get(topic)
        return None if known is None else known[0]

    def forget(self) -> None:
        """Ask again from now on: a topic has grown, or been made anew."""
        self._known.clear()
