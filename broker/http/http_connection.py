"""One connection of the HTTP listener: requests are read, answered by the pages, and sent in turn.

h11 reads and writes HTTP/1.1 and decides what is malformed; it is imported with the first
connection, so a broker that nobody asks does not pay for it. Here are the sockets and the bounds:

    IDLE_SECONDS      for the first byte of a request
    REQUEST_SECONDS   from there to its last byte
    SEND_SECONDS      for each part of an answer that the client takes
    HEADER_BYTES_MAX  request line and headers; `BODY_BYTES_MAX` the body

A request beyond one of them is answered with 408, 413 or 431 where the client can still read, and
its connection closed. Nothing is read while a request is answered, so pipelined requests wait in
the client's socket.

A page of events is an asynchronous generator; a client that does not read its events is closed.
One that yields nothing (an empty piece) only asks whether its client is still there, so that a long
search for a client that has gone ends.
A large page is a generator. Its slices, of `SLICE_NS` or `SLICE_CHARACTERS`, take turns with those
of other connections (`turns`), with a rest between two of them, and it waits for a client that
reads slowly.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qs, unquote

import h11

from broker.http.http_messages import Events, HttpAnswer, HttpRequest, Pieces, sentence
from broker.network.host_names import plain_address
from broker.runtime.clock import MS_NS, Clock
from broker.runtime.metrics import Metrics

IDLE_SECONDS: Final = 75.0  # longer than the usual intervals of scrapes
REQUEST_SECONDS: Final = 10.0
SEND_SECONDS: Final = 10.0
HEADER_BYTES_MAX: Final = 16 * 1024
BODY_BYTES_MAX: Final = 1024 * 1024
READ_BYTES: Final = 4 * 1024  # what a header may have beyond its bound
QUERY_FIELDS_MAX: Final = 1_000
UNSENT_BYTES_MAX: Final = 256 * 1024
HTTP_VERSIONS: Final = (b"1.0", b"1.1")
# A request of a client passes through some four turns of the loop, and few meet a slice in each.
SLICE_NS: Final = MS_NS // 4
REST_SECONDS: Final = 0.001
SLICE_CHARACTERS: Final = 256 * 1024
BODY_PIECES_EACH: Final = 32  # between two turns of the loop: some 0.5 ms of h11
LINGER_SECONDS: Final = 1.0
LINGER_BYTES_MAX: Final = 2 * BODY_BYTES_MAX

# For a browser that shows an answer, whatever it is: no guessing of types, no frames, no copies.
SAFE_HEADERS: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)


class RefusedRequest(Exception):
    """A request that is answered with an error, and ends its connection."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class HttpConnection:
    """Serves one socket; `answer` is the pages' function, `turns` is shared by all connections."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answer: Callable[[HttpRequest], Awaitable[HttpAnswer]],
        turns: asyncio.Lock,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._answer = answer
        self._turns = turns
        self._metrics = metrics
        self._clock = clock
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADER_BYTES_MAX)
        self.waits_since_ns = clock.monotonic_ns()  # for its client; 0 while it is answered
        self._has_begun = False  # a request
        self._is_head = False
        writer.transport.set_write_buffer_limits(high=UNSENT_BYTES_MAX)

    def abort(self) -> None:
        """Close at once."""
        self._writer.transport.abort()

    async def run(self) -> None:
        """Serve requests until either side ends the connection."""
        try:
            while await self._exchange():
                pass
            self._writer.close()
            async with asyncio.timeout(SEND_SECONDS):
                await self._writer.wait_closed()
        except (OSError, TimeoutError, h11.ProtocolError):
            pass  # the client has gone, or has broken the rules in the middle of an answer
        finally:
            self.abort()

    async def _exchange(self) -> bool:
        """Answer one request; return whether another may follow."""
        self.waits_since_ns = self._clock.monotonic_ns()
        try:
            request = await self._read()
            if request is None:
                return False
            self.waits_since_ns = 0
            answer = await self._answer(request)
        except RefusedRequest as error:
            self._metrics.http_requests_refused += 1
            answer = sentence(error.status, str(error))
            request = None
        self.waits_since_ns = 0
        self._metrics.http_requests += 1
        await self._send(answer, closes=request is None or answer.closes)
        if self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
            if request is None:
                await self._linger()
            return False
        self._h11.start_next_cycle()
        return True

    async def _linger(self) -> None:
        """Drop what the client still sends, for a while: closing at once would lose the answer."""
        self._check_open()
        self._writer.write_eof()
        dropped = 0
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                while dropped < LINGER_BYTES_MAX and (data := await self._reader.read(READ_BYTES)):
                    dropped += len(data)
        except TimeoutError:
            pass

    # -- reading --------------------------------------------------------------------------------

    async def _read(self) -> HttpRequest | None:
        """Return a whole request; None if the client ends. Raises RefusedRequest."""
        self._has_begun = self._is_head = False
        try:
            async with asyncio.timeout(IDLE_SECONDS) as deadline:
                return await self._read_until(deadline)
        except TimeoutError:
            self._metrics.http_timeouts += 1
            if not self._has_begun:
                return None
            raise RefusedRequest(
                408, f"The request is incomplete after {REQUEST_SECONDS:.0f} s"
            ) from None
        except h11.RemoteProtocolError as error:
            if not self._has_begun:  # it has closed
                return None
            raise RefusedRequest(error.error_status_hint, f"Bad request: {error}") from None

    async def _read_until(self, deadline: asyncio.Timeout) -> HttpRequest | None:
        head: Any = None
        body = bytearray()
        pieces = 0
        while True:
            event = self._h11.next_event()
            if event is h11.NEED_DATA:
                await self._receive(deadline)
            elif event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                return None
            elif isinstance(event, h11.Request):
                self._begin(deadline)
                head = event
                self._is_head = event.method == b"HEAD"
            elif isinstance(event, h11.Data):
                body += event.data
                pieces += 1
                if not pieces % BODY_PIECES_EACH:  # a chunk may have one byte
                    await asyncio.sleep(0)
                if len(body) > BODY_BYTES_MAX:
                    raise RefusedRequest(
                        413, f"The body is larger than {BODY_BYTES_MAX} bytes, the most it may have"
                    )
            elif isinstance(event, h11.EndOfMessage):
                return self._request(head, bytes(body))

    def _begin(self, deadline: asyncio.Timeout) -> None:
        if not self._has_begun:
            self._has_begun = True
            deadline.reschedule(asyncio.get_running_loop().time() + REQUEST_SECONDS)

    async def _receive(self, deadline: asyncio.Timeout) -> None:
        if self._h11.they_are_waiting_for_100_continue:
            self._write(h11.InformationalResponse(status_code=100, headers=[]))
        data = await self._reader.read(READ_BYTES)
        if data:
            self._begin(deadline)
        self._h11.receive_data(data)

    def _request(self, head: Any, body: bytes) -> HttpRequest:
        if head.http_version not in HTTP_VERSIONS:
            raise RefusedRequest(505, "This server speaks HTTP/1.1 and HTTP/1.0")
        target = head.target.decode("ascii")
        if not target.startswith("/"):
            raise RefusedRequest(400, "The target of the request is not a path: it begins with /")
        path, _, query = target.partition("?")
        try:
            fields = parse_qs(query, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX)
        except ValueError:
            raise RefusedRequest(
                400, f"The query has more than {QUERY_FIELDS_MAX} fields, the most it may have"
            ) from None
        local = self._writer.get_extra_info("sockname") or ("",)
        peer = self._writer.get_extra_info("peername") or ("",)
        return HttpRequest(
            method=head.method.decode("ascii"),
            path=unquote(path),
            query=fields,
            headers={name.decode("ascii"): value.decode("latin-1") for name, value in head.headers},
            body=body,
            peer_host=plain_address(peer[0]),
            local_host=plain_address(local[0]),
        )

    # -- sending --------------------------------------------------------------------------------

    async def _send(self, answer: HttpAnswer, *, closes: bool) -> None:
        if self._h11.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        own = {name for name, _ in answer.headers}
        headers = [pair for pair in SAFE_HEADERS if pair[0] not in own]
        headers += [*answer.headers, ("Content-Type", answer.content_type)]
        if isinstance(answer.body, bytes):
            headers.append(("Content-Length", str(len(answer.body))))
        if closes:
            headers.append(("Connection", "close"))
        self._write(h11.Response(status_code=answer.status, headers=headers))
        if isinstance(answer.body, bytes):
            if answer.body and not self._is_head:
                self._write(h11.Data(data=answer.body))
        elif isinstance(answer.body, AsyncGenerator):
            try:
                if not self._is_head:
                    await self._send_events(answer.body)
            finally:
                await answer.body.aclose()
        else:
            try:
                if not self._is_head:
                    await self._send_pieces(answer.body)
            finally:
                answer.body.close()
        self._write(h11.EndOfMessage())
        await self._drain()

    async def _send_events(self, events: Events) -> None:
        async for piece in events:
            self._check_open()
            if self._reader.at_eof():
                raise ConnectionResetError("the client has gone")
            if piece:
                self._write(h11.Data(data=piece))
                await self._drain()

    async def _send_pieces(self, pieces: Pieces) -> None:
        is_more = True
        while is_more:
            async with self._turns:
                text, is_more = self._slice(pieces)
                if text:
                    self._write(h11.Data(data=text.encode("utf-8", "replace")))
                await asyncio.sleep(REST_SECONDS)  # others' turn, before any page's next slice
            await self._drain()

    def _slice(self, pieces: Pieces) -> tuple[str, bool]:
        """Run the generator for a slice; return its text, and whether there is more."""
        ends_ns = self._clock.monotonic_ns() + SLICE_NS
        found: list[str] = []
        size = 0
        for piece in pieces:
            found.append(piece)
            size += len(piece)
            if size >= SLICE_CHARACTERS or self._clock.monotonic_ns() >= ends_ns:
                return "".join(found), True
        return "".join(found), False

    def _write(self, event: Any) -> None:
        data = self._h11.send(event)
        if data:
            self._check_open()  # uvloop raises a RuntimeError for what is written behind the end
            self._writer.write(data)

    def _check_open(self) -> None:
        if self._writer.transport.is_closing():
            raise ConnectionResetError("the client has gone")

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._writer.drain()
        except TimeoutError:
            self._metrics.http_timeouts += 1
            self.abort()
            raise ConnectionAbortedError("the client does not read its answer") from None
