"""A connection for asyncio, whose requests and answers are maps.

In the msgpack dialect a request is `[api, correlation_id, client_id, body]`, an answer
`[correlation_id, body]`; each has its size in four bytes before it. To a listener that speaks
Kafka's protocol the same maps travel as Kafka's messages (`client.dialects`).

Any number of requests may be in flight; the caller bounds it. They are written in the order of the
calls, and the broker answers in the order of the requests, so an answer is for the oldest request.
Nothing is retried here. After any failure, or if one answer takes too long, the connection is
closed and all requests in flight fail, since a late answer could be taken for another's. The next
request opens a new connection.

A login may have an end (connections.max.reauth.ms, or a token's). Shortly before, the next request
waits for the answers to those in flight, and opens a new connection, so none fails for that.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from client.addresses import login_of, speaks_kafka, tls_of, why_no_tls
from client.codes import code_text
from client.dialects import DialectError, Frames, KafkaFrames, MsgpackFrames

ANSWER_BYTES_MAX: Final = 256 << 20
LOGIN_BYTES_MAX: Final = 1 << 20
JOINED_BYTES_MAX: Final = 64 << 10
LOGIN_USED: Final = 0.8  # of its time, after which another connection is opened
_SIZE: Final = struct.Struct(">I")


class TransportError(Exception):
    """No answer, or an invalid one: the request may or may not have taken effect."""


class NotConnected(TransportError):
    """There is no connection: nothing was sent."""


class UnknownPlace(Exception):
    """There is no such topic, or it has no such partition."""


class RequestRefused(Exception):
    """The broker answered that it cannot read the request."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request in flight."""

    correlation_id: int
    api: str
    answer: asyncio.Future[dict[str, Any]]
    too_late: asyncio.TimerHandle


class Transport:
    """One connection to `address` (HOST:PORT). Every wait ends after `timeout_s`."""

    def __init__(self, address: str, timeout_s: float) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._writer: asyncio.StreamWriter | None = None
        self._receiving: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._asked: deque[_Asked] = deque()
        self._correlation_id = 0
        self._has_answered = False  # at least once: so it speaks the dialect
        self._login_until_s: float | None = None  # by the loop's clock
        self._frames: Frames = KafkaFrames() if speaks_kafka(address) else MsgpackFrames()

    async def open(self) -> None:
        """Connect, if not connected. Raises NotConnected."""
        async with self._opening:
            if self._login_until_s is not None and self._login_until_s <= now_ms() / 1000:
                await self._end_login()
            if self._writer is None:
                await self._connect()

    async def _end_login(self) -> None:
        """Close the connection when everything in flight is answered: its login ends soon."""
        if self._asked:
            await asyncio.wait([asked.answer for asked in self._asked])
        self._fail("its login ended")

    async def _connect(self) -> None:
        host, colon, port = self.address.rpartition(":")
        if not colon or not host or not port.isdecimal():
            raise NotConnected(f"{self.address!r} is not an address; expected HOST:PORT")
        try:
            async with asyncio.timeout(self._timeout_s):
                reader, self._writer = await asyncio.open_connection(
                    host.removeprefix("[").removesuffix("]"),
                    int(port),
                    limit=1 << 20,
                    ssl=tls_of(self.address),
                )
        except OSError as error:  # TimeoutError and SSLError are such
            if hasattr(error, "verify_message") or hasattr(error, "library"):
                raise NotConnected(why_no_tls(self.address, error)) from error
            raise NotConnected(
                f"no broker answers at {self.address}: {_reason(error)}. Is it "
                "running, and is this the address of its listener?"
            ) from error
        await self._introduce(reader)
        self._receiving = asyncio.create_task(self._receive(reader))

    async def _introduce(self, reader: asyncio.StreamReader) -> None:
        """Learn what the broker serves, where that is needed, and log in. Raises NotConnected."""
        login, frames = login_of(self.address), self._frames
        if login is None and not isinstance(frames, KafkaFrames):
            return
        from client.msgpack.async_login import LoginRefused, log_in_async

        async def ask(api: str, body: Mapping[str, Any]) -> dict[str, Any]:
            self._write(api, body)
            (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
            if size > LOGIN_BYTES_MAX:
                raise LoginRefused(f"announced an answer of {size} bytes to {api}")
            _, answer = self._frames.unpack(api, await reader.readexactly(size))
            if "error_code" not in answer:
                raise LoginRefused(f"does not answer {api}")
            return answer

        try:
            async with asyncio.timeout(self._timeout_s):
                if isinstance(frames, KafkaFrames):
                    frames.learn(await ask("api_versions", {}))
                if login is not None:
                    begun_s = now_ms() / 1000
                    used_s = LOGIN_USED * await log_in_async(login, ask)
                    self._login_until_s = begun_s + used_s if used_s else None
        except (LoginRefused, DialectError, OSError, EOFError, ValueError, TypeError) as error:
            self._fail("the login failed")
            is_told = isinstance(error, LoginRefused | DialectError)
            reason = str(error) if is_told else "hung up during the login"
            raise NotConnected(f"{self.address} {reason}") from error
        except BaseException:
            self._fail("the login was given up")
            raise

    def close(self) -> None:
        """Close the connection; requests in flight fail."""
        self._fail("the connection was closed")

    def _fail(self, reason: str) -> None:
        self._login_until_s = None
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._receiving is not None and self._receiving is not asyncio.current_task():
            self._receiving.cancel()
        self._receiving = None
        while self._asked:
            asked = self._asked.popleft()
            asked.too_late.cancel()
            if not asked.answer.done():
                text = f"{self.address} did not answer {asked.api}: {reason}"
                _refuse(asked.answer, TransportError(text))

    async def call(self, api: str, body: Mapping[str, Any], *, wait_ms: int = 0) -> dict[str, Any]:
        """Send a request and return the body of its answer; `wait_ms` extends the timeout.

        Raises TransportError, and RequestRefused, after which the connection stays open.
        """
        return await (await self.ask(api, body, wait_ms=wait_ms))

    async def ask(
        self, api: str, body: Mapping[str, Any], *, wait_ms: int = 0
    ) -> asyncio.Future[dict[str, Any]]:
        """Send a request and return a future of its answer, which fails as `call` does.

        Raises TransportError; NotConnected means that nothing was sent.
        """
        loop = asyncio.get_running_loop()
        await self.open()
        answer: asyncio.Future[dict[str, Any]] = loop.create_future()
        try:
            correlation_id = self._write(api, body)
        except DialectError as error:
            _refuse(answer, RequestRefused(f"{self.address}: {error}"))
            return answer
        wait_s = self._timeout_s + wait_ms / 1000
        too_late = loop.call_later(wait_s, self._fail, f"it took longer than {wait_s:g} s")
        self._asked.append(_Asked(correlation_id, api, answer, too_late))
        try:
            await self._drain(api)
        except BaseException:
            if not answer.cancel():
                answer.exception()  # raised here instead
            raise
        return answer

    async def post(self, api: str, body: Mapping[str, Any]) -> None:
        """Send a request without an answer (Produce with acks=0). Raises TransportError."""
        await self.open()
        self._write(api, body)
        await self._drain(api)

    def _write(self, api: str, body: Mapping[str, Any]) -> int:
        assert self._writer is not None
        self._correlation_id = (self._correlation_id + 1) % (1 << 31)
        frame = self._frames.pack(api, self._correlation_id, body)
        if len(frame) <= JOINED_BYTES_MAX:
            # One packet: the broker would be woken for the size alone.
            self._writer.write(_SIZE.pack(len(frame)) + frame)
        else:
            self._writer.write(_SIZE.pack(len(frame)))
            self._writer.write(frame)
        return self._correlation_id

    async def _drain(self, api: str) -> None:
        writer = self._writer
        assert writer is not None
        try:
            async with asyncio.timeout(self._timeout_s):
                await writer.drain()
        except OSError as error:
            reason = str(error) or "it took too long"
            if writer is self._writer:
                self._fail(reason)
            raise TransportError(f"{self.address} did not take {api}: {reason}") from error

    async def _receive(self, reader: asyncio.StreamReader) -> None:
        """Pass each answer to its request, until the connection ends."""
        try:
            while True:
                (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
                if size > ANSWER_BYTES_MAX:
                    self._fail(f"it announced an answer of {size} bytes")
                    return
                self._take(await reader.readexactly(size))
        except EOFError:
            self._fail(
                "it hung up"
                if self._has_answered
                else "it hung up. Is this the address of its MSGPACK listener?"
            )
        except (OSError, TransportError) as error:
            self._fail(str(error))

    def _take(self, packed: bytes) -> None:
        api = self._asked[0].api if self._asked else "metadata"
        try:
            correlation_id, body = self._frames.unpack(api, packed)
        except DialectError as error:
            raise TransportError(str(error)) from error
        if not self._asked or correlation_id != self._asked[0].correlation_id:
            wanted = self._asked[0].correlation_id if self._asked else "none"
            raise TransportError(f"it answered request {correlation_id!r} instead of {wanted}")
        self._has_answered = True
        asked = self._asked.popleft()
        asked.too_late.cancel()
        if asked.answer.done():
            return  # nobody waits for it any more
        if body.keys() == {"error_code", "error_message"}:
            text = f"{self.address} refused {asked.api}: {body['error_message']}"
            _refuse(asked.answer, RequestRefused(text))
        else:
            asked.answer.set_result(body)


def _reason(error: OSError) -> str:
    """Return why connecting failed, without the address, which asyncio's own text repeats."""
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    return os.strerror(error.errno) if error.errno else str(error) or "it took too long"


def _refuse(answer: asyncio.Future[dict[str, Any]], error: Exception) -> None:
    """Fail a request, whose sender may be gone."""
    answer.set_exception(error)
    answer.exception()  # retrieved: asyncio need not complain, and a waiting sender still gets it


def now_ms() -> float:
    """Return the loop's time, in ms."""
    return asyncio.get_running_loop().time() * 1000


class Topics:
    """The ids and partition counts of topics, requested when needed (Metadata)."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._known: dict[str, tuple[bytes, int]] = {}

    async def find(self, topic: str, *, create: bool) -> tuple[bytes, int]:
        """Return a topic's id and partition count. Raises UnknownPlace with the reason."""
        known = self._known.get(topic)
        if known is not None:
            return known
        answer = await self._transport.call(
            "metadata",
            {"topics": [{"name": topic}], "allow_auto_topic_creation": create},
        )
        found = answer["topics"][0]
        if found["error_code"]:
            raise UnknownPlace(f"topic {topic!r}: {code_text(found['error_code'])}")
        self._known[topic] = found["topic_id"], len(found["partitions"])
        return self._known[topic]

    def known(self, topic: str) -> bytes | None:
        """Return a topic's id if it was requested before."""
        known = self._known.get(topic)
        return None if known is None else known[0]

    def forget(self) -> None:
        """Forget all: a topic may have grown, or been deleted and recreated."""
        self._known.clear()
