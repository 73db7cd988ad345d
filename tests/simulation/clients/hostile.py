"""Clients that mean no good, or know no better: the broker may answer or close, and must not care.

    garbage     bytes that are no frame, frames of impossible sizes, unknown APIs and versions,
                other protocols
    mutants     requests of every API with changed, cut or joined bytes
    dripping    a request a few bytes at a time, within the frame's deadline or beyond it
    cut         the beginning of a request, then a close, a reset, half a close, or silence
    deaf        many requests for long answers, none of which is read
    hoard       long requests of several connections, of which the last bytes are missing
    crowd       more connections than the broker allows, all at once

Whether others suffer is judged by what the others see.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final

from protocol.kafka.codec import encode_message
from protocol.kafka.schema import read_layout
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.metadata import MetadataRequest
from tests.simulation.clients.describers import drawn
from tests.simulation.clients.wire import HANDLER_OF, Disconnected, Wire
from tests.simulation.context import KAFKA_PORT, MSGPACK_PORT, Context
from tests.simulation.plan import FRAME_BYTES_MAX, ClientPlan
from tests.support.msgpack_fuzz import inputs

CROWD_MAX: Final = 24
HOARD_MAX: Final = 8
DEAF_REQUESTS_MAX: Final = 80
HTTP: Final = b"GET / HTTP/1.1\r\nHost: broker\r\nUser-Agent: curl\r\n\r\n"
TLS: Final = bytes.fromhex("16030100c8010000c40303") + bytes(100)
SIZES: Final = (0, 1, 3, 4, 7, -1, -(2**31), 2**31 - 1, 200_000_000, 0x47455420)
HEAD: Final = struct.Struct(">hhih")


class Hostile:
    """One client that means no good, on one port."""

    def __init__(self, context: Context, plan: ClientPlan) -> None:
        self.context = context
        self.world = context.world
        self.name = plan.name
        self.rng = context.world.chance(plan.name)
        self.wires = 0
        self._mutants: Iterator[bytes] = inputs(self.rng, 1 << 30)

    async def connected(self, port: int | None = None) -> Wire | None:
        """Return a new connection; None if there was none to have."""
        self.wires += 1
        port = port or self.rng.choice((KAFKA_PORT, KAFKA_PORT, MSGPACK_PORT))
        name = f"{self.name} {self.wires}"
        wire = Wire(self.world, self.context.network, port, name, self.context.record)
        try:
            await wire.open()
        except Disconnected:
            return None
        return wire

    async def rest(self, ms: float) -> None:
        """Wait for up to this time."""
        await self.world.sleep_ms(self.rng.random() * ms)

    async def end(self, wire: Wire) -> None:
        """End a connection, in one way or another."""
        await self.rest(self.rng.choice((0.1, 1, 50, 500)))
        way = self.rng.randrange(4)
        if way == 0:
            wire.reset()
        elif way == 1:
            wire.half_close()
            await self.rest(1_000)
        wire.close()

    # -- Bytes --------------------------------------------------------------------------------

    def request(self) -> bytes:
        """Return a request of Kafka's protocol that is right by its layout."""
        handler = HANDLER_OF[self.rng.choice(sorted(HANDLER_OF))]
        version = self.rng.randint(handler.min_version, handler.max_version)
        return framed(
            handler.request, version, drawn(read_layout(handler.request, version), self.rng)
        )

    def mutant(self) -> bytes:
        """Return a request with changed bytes, or cut."""
        data = bytearray(self.request())
        for _ in range(self.rng.randint(1, 4)):
            data[self.rng.randrange(len(data))] = self.rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        way = self.rng.randrange(4)
        if way == 0:
            del data[self.rng.randrange(len(data)) :]
        elif way == 1:  # the size is right again
            data[:4] = struct.pack(">i", len(data) - 4)
        return bytes(data)

    def garbage(self) -> bytes:
        """Return bytes that are no request."""
        size = struct.pack(">i", self.rng.choice(SIZES))
        unknown = HEAD.pack(self.rng.choice((-1, 4, 55, 999)), 0, 1, -1)
        too_new = HEAD.pack(self.rng.choice(sorted(HANDLER_OF)), self.rng.choice((-1, 99)), 1, -1)
        return self.rng.choice(
            (
                self.rng.randbytes(self.rng.choice((1, 3, 40, 900))),
                size,
                size + self.rng.randbytes(30),
                HTTP,
                TLS,
                struct.pack(">i", len(unknown)) + unknown,
                struct.pack(">i", len(too_new)) + too_new,
                bytes(4) * 30,  # empty frames
            )
        )

    def any_bytes(self, *, is_msgpack: bool) -> bytes:
        """Return bytes for a port."""
        if is_msgpack and self.rng.random() < 0.7:
            data = next(self._mutants)
            return struct.pack(">I", len(data)) + data
        return self.garbage() if self.rng.random() < 0.5 else self.mutant()

    # -- What it does -------------------------------------------------------------------------

    async def send(self) -> None:
        """Send things that are wrong."""
        port = self.rng.choice((KAFKA_PORT, MSGPACK_PORT))
        wire = await self.connected(port)
        if wire is None:
            return
        for _ in range(self.rng.randint(1, 6)):
            wire.send_bytes(self.any_bytes(is_msgpack=port == MSGPACK_PORT))
            if self.rng.random() < 0.5:
                await self.rest(5)
        await self.end(wire)

    async def drip(self) -> None:
        """Send a request slowly."""
        wire = await self.connected(KAFKA_PORT)
        if wire is None:
            return
        data = self.request() if self.rng.random() < 0.5 else question(MetadataRequest, 1)
        pause_ms = self.rng.choice((1, 20, 150))
        stall_at = self.rng.randrange(300)  # beyond the frame's deadline, now and then
        position = 0
        while position < min(len(data), 60) and wire.is_open:
            size = self.rng.randint(1, 3)
            wire.send_bytes(data[position : position + size])
            position += size
            await self.rest(20_000 if stall_at in range(position - size, position) else pause_ms)
        wire.send_bytes(data[position:])
        await self.end(wire)

    async def cut(self) -> None:
        """Send requests, the last one only in part."""
        wire = await self.connected(KAFKA_PORT)
        if wire is None:
            return
        data = b"".join(question(ApiVersionsRequest, n) for n in range(self.rng.randint(0, 4)))
        last = self.request()
        wire.send_bytes(data + last[: self.rng.randrange(len(last))])
        await self.end(wire)

    async def be_deaf(self) -> None:
        """Ask for long answers, and read none of them, or only later."""
        wire = await self.connected(KAFKA_PORT)
        if wire is None:
            return
        wire.stop_reading()
        long = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
            ]
        )
        for number in range(self.rng.randint(1, DEAF_REQUESTS_MAX)):
            if self.rng.random() < 0.03:
                wire.send_bytes(framed(DescribeConfigsRequest, 4, long, number))
            else:
                wire.send_bytes(question(ApiVersionsRequest, number))
        await self.rest(self.rng.choice((10, 500, 5_000)))
        if self.rng.random() < 0.5:
            wire.read_on()
        await self.end(wire)

    async def hoard(self) -> None:
        """Fill the budget of received bytes with requests that are not whole."""
        wires = []
        for _ in range(self.rng.randint(2, HOARD_MAX)):
            wire = await self.connected(KAFKA_PORT)
            if wire is None:
                break
            wires.append(wire)
            most = min(self.context.loaded.config.socket_request_max_bytes, FRAME_BYTES_MAX)
            size = self.rng.randint(most // 4, most)
            wire.send_bytes(struct.pack(">i", size) + bytes(size - self.rng.randint(1, size // 2)))
        await self.rest(self.rng.choice((5, 200, 2_000)))
        for wire in wires:
            await self.end(wire)

    async def crowd(self) -> None:
        """Connect many times at once; some ask, some are silent, and all leave."""
        wires = []
        for _ in range(self.rng.randint(2, CROWD_MAX)):
            wire = await self.connected()
            if wire is None:
                break
            wires.append(wire)
            if self.rng.random() < 0.3:
                wire.send_bytes(question(ApiVersionsRequest, 1))
            if self.rng.random() < 0.2:
                await self.rest(5)
        await self.rest(self.rng.choice((5, 200, 2_000)))
        for wire in wires:
            wire.reset() if self.rng.random() < 0.3 else wire.close()


def framed(cls: Any, version: int, body: Any, number: int = 1) -> bytes:
    """Return a request of Kafka's protocol as bytes, from a client without a name."""
    head = HEAD.pack(cls.MESSAGE.api_key, version, number, -1)
    tags = b"\0" if cls.MESSAGE.is_flexible(version) else b""
    payload = head + tags + encode_message(body, version)
    return struct.pack(">i", len(payload)) + payload


def question(cls: Any, number: int) -> bytes:
    """Return a plain request of the first version served."""
    version = HANDLER_OF[cls.MESSAGE.api_key].min_version
    return framed(cls, version, cls(), number)


async def run(context: Context, plan: ClientPlan) -> None:
    """Do no good; see the module."""
    hostile = Hostile(context, plan)
    acts = (
        hostile.send,
        hostile.send,
        hostile.send,
        hostile.drip,
        hostile.cut,
        hostile.cut,
        hostile.be_deaf,
        hostile.crowd,
        hostile.hoard,
    )
    for _ in range(plan.steps):
        await hostile.rng.choice(acts)()
        await hostile.rest(hostile.rng.choice((1, 20, 500)))


KINDS: Final[dict[str, Callable[[Context, ClientPlan], Coroutine[Any, Any, None]]]] = {
    "hostile": run,
}
