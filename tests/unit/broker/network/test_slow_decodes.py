"""Many requests that are slow to decode leave others their turns."""

import asyncio
import struct
from typing import Any, cast

from broker.network.slow_decodes import OF_A_TURN_NS, SLOW_NS, SlowDecodes
from broker.runtime.clock import MS_NS, ManualClock
from protocol.dialect import DecodedRequest
from tests.unit.broker.network.test_connection import NumberDialect, Rig


class SlowDialect(NumberDialect):
    """Each frame takes a millisecond to decode."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.decoded = 0

    def decode_request(self, frame: memoryview, *, in_thread: bool = False) -> DecodedRequest:
        self.clock.advance(1)
        self.decoded += 1
        return super().decode_request(frame, in_thread=in_thread)


async def test_many_large_requests_are_decoded_in_several_turns() -> None:
    """As those that all clients send after a restart."""
    rig = Rig(bytes_max=1 << 30, frame_bytes_max=1 << 20, queue_max=1_000)
    dialect = SlowDialect(rig.clock)
    running = asyncio.create_task(rig.processor.run())
    await asyncio.sleep(0)
    large = struct.pack(">i", 2_000) + b"\1" * 2_000
    connections = []
    for place in range(10):
        if place:
            rig.connect()
        rig.connection.info.dialect = cast("Any", dialect)
        rig.receive(large * 8)
        connections.append(rig.connection)
    before, turns = 0, 0
    while any(connection.frames for connection in connections):
        await asyncio.sleep(0)
        assert dialect.decoded - before <= OF_A_TURN_NS // MS_NS
        before, turns = dialect.decoded, turns + 1
    assert turns >= 80 * MS_NS // OF_A_TURN_NS
    assert len(rig.take()) == dialect.decoded == 80
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


class CountedDecodes(SlowDecodes):
    """Counts the attempts, also those in a turn that is used up."""

    attempts = 0

    def decode(self, dialect: Any, frame: memoryview) -> DecodedRequest:
        self.attempts += 1
        return super().decode(dialect, frame)


async def test_few_of_many_that_wait_try_again_in_a_turn() -> None:
    """Else the attempts of thousands of connections would take longer than what is decoded."""
    rig = Rig(bytes_max=1 << 30, frame_bytes_max=1 << 20, queue_max=1_000)
    dialect, count = SlowDialect(rig.clock), 300
    rig.processor._slow_decodes = counted = CountedDecodes(rig.clock)
    running = asyncio.create_task(rig.processor.run())
    await asyncio.sleep(0)
    for place in range(count):
        if place:
            rig.connect()
        rig.connection.info.dialect = cast("Any", dialect)
        rig.receive(struct.pack(">i", 2_000) + b"\1" * 2_000)
    turns = 0
    while dialect.decoded < count:
        await asyncio.sleep(0)
        turns += 1
        assert counted.attempts <= count + turns * OF_A_TURN_NS // SLOW_NS
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
