"""A connection of a listener with SASL, its processor and its gate, without a socket."""

import asyncio
import struct
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, cast

from broker.handlers import HANDLERS
from broker.network.byte_budget import ByteBudget
from broker.network.connection import Connection
from broker.network.connection_limits import ConnectionLimits
from broker.network.gathered_writes import GatheredWrites
from broker.network.logins.frame_gate import FrameGate
from broker.network.logins.gated_connection import SaslParts
from broker.network.processor import ConnectionSettings, Network, Processor
from broker.runtime.clock import ManualClock
from broker.runtime.log_lines import RateLimiter
from broker.runtime.metrics import Metrics
from broker.runtime.one_by_one import TooManyWait
from broker.runtime.request import ConnectionInfo, Request
from broker.runtime.request_queue import RequestQueue
from broker.security.sasl.mechanism import AuthenticationFailed, Identity, Reply
from broker.security.sasl.sasl_listeners import Offer, SaslListener
from config.listeners import Listener
from protocol.kafka.codec import decode_message, encode_message
from protocol.kafka.dialect import KafkaDialect
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from protocol.wire import message_spec
from tests.support.fake_transport import FakeTransport

LISTENER = Listener("SASL", "SASL_PLAINTEXT", "127.0.0.1", 9092)
ROWS = {int(row.api_key): row for row in HANDLERS}
USUAL_BYTES_MAX = 1 << 20


class Scripted:
    """A mechanism whose tokens say what happens: `more`, `user:NAME`, `later:NAME`, refusal."""

    def __init__(self, rig: "Rig") -> None:
        self.rig = rig

    def respond(self, token: bytes) -> Reply | Coroutine[Any, Any, Reply]:
        word, _, name = token.decode().partition(":")
        if word == "more":
            return Reply(b"go on")
        if word == "user":
            holds = self.rig.still_holds
            return Reply(b"welcome", Identity(name, self.rig.expires_at_ms, holds))
        if word == "later":
            return self.later(name)
        if word == "crash":
            raise ZeroDivisionError
        raise AuthenticationFailed("no", "no, says the log")

    async def later(self, name: str) -> Reply:
        await self.rig.opened.wait()
        if name == "refused":
            raise AuthenticationFailed("no")
        if name == "many":
            raise TooManyWait
        return Reply(b"welcome", Identity(name))


class Rig:
    def __init__(self, *, delay_ms: int = 0, max_reauth_ms: int = 0, linger_s: float = 0.0) -> None:
        self.clock = ManualClock()
        self.clock.advance(10_000)
        self.metrics = Metrics()
        self.budget = ByteBudget(1 << 30, self.metrics, "budget_full_waits")
        self.queue = RequestQueue(100, self.metrics)
        self.expires_at_ms: int | None = None
        self.still_holds: Callable[[], bool] | None = None
        self.opened = asyncio.Event()
        self.taken: list[Request] = []
        offer = Offer(lambda: Scripted(self), max_reauth_ms)
        self.sasl = SaslListener({"PLAIN": offer, "OTHER": offer}, delay_ms)
        parts = SaslParts(
            cast("Any", self),
            lambda request, code: ROWS[request.header.api_key].error_response(request, code),
            RateLimiter(self.clock, per_second_max=5),
            self.metrics,
            self.clock,
            linger_s=linger_s,
        )
        limits = ConnectionLimits(10, 10, {})
        limits.admit("127.0.0.1")
        self.processor = Processor(
            0,
            Network(
                settings=ConnectionSettings(USUAL_BYTES_MAX, 100, 600_000, 30_000, 1_000),
                limits=limits,
                queue=self.queue,
                budget=self.budget,
                answers=ByteBudget(1 << 30, self.metrics, "answers_full_waits"),
                writes=GatheredWrites(),
                record_work=cast("Any", None),
                metrics=self.metrics,
                clock=self.clock,
                make_gate=lambda connection, source: FrameGate(connection, source, parts),
            ),
        )
        self.limits = limits
        self.dialect: Any = KafkaDialect(ROWS)
        self.renewed()

    def renewed(self) -> Connection:
        """Connect another client; the one before has ended."""
        info = ConnectionInfo(LISTENER, self.dialect, ("127.0.0.1", 9), ("127.0.0.1", 5))
        self.connection = Connection(self.processor, info, USUAL_BYTES_MAX)
        self.processor.join(self.connection)
        self.transport = FakeTransport()
        self.connection.connection_made(self.transport)
        return self.connection

    def of(self, _: str) -> SaslListener:
        return self.sasl

    def receive(self, data: bytes) -> None:
        while data and self.transport.reading and not self.transport.ended:
            buffer = self.connection.get_buffer(-1)
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            del buffer
            self.connection.buffer_updated(count)
            data = data[count:]

    async def pump(self) -> None:
        task = asyncio.create_task(self.processor.run())
        for _ in range(8):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def send(self, body: Any, version: int) -> bytes:
        """Send a request, and return what was written meanwhile."""
        self.receive(frame_of(body, version))
        return await self.written()

    async def written(self) -> bytes:
        await self.pump()
        written, self.transport.written = self.transport.written, b""
        return written

    async def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> SaslHandshakeResponse:
        answer = await self.send(SaslHandshakeRequest(mechanism=mechanism), version)
        return read(answer, SaslHandshakeResponse, version)

    async def token(self, token: bytes, version: int = 1) -> SaslAuthenticateResponse:
        answer = await self.send(SaslAuthenticateRequest(auth_bytes=token), version)
        return read(answer, SaslAuthenticateResponse, version)

    def passed(self) -> list[Request]:
        taken = []
        while (request := self.queue.take()) is not None:
            taken.append(request)
        self.taken += taken
        return taken

    def assert_at_rest(self) -> None:
        """Nothing is held when the connection has ended."""
        self.connection.connection_lost(None)
        self.passed()
        for request in self.taken:
            self.connection.respond(request, ())
        assert self.budget.used_bytes == 0
        assert self.connection.account.request_bytes == 0
        assert self.connection.account.reserved_bytes == 0
        assert len(self.connection.slots) == 0


def frame_of(body: Any, version: int) -> bytes:
    spec = message_spec(type(body))
    head = struct.pack(">hhih", spec.api_key, version, 7, -1)
    head += b"\0" if spec.is_flexible(version) else b""
    data = head + encode_message(body, version)
    return struct.pack(">i", len(data)) + data


def read(answer: bytes, cls: type[Any], version: int) -> Any:
    assert answer, "no answer"
    start = 9 if message_spec(cls).is_flexible(version) else 8
    return decode_message(cls, version, memoryview(answer), start)[0]
