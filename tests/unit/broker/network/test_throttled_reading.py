"""A throttled connection is not read, for the longest time that was said, and costs a timer."""

import asyncio
from collections import deque

from broker.network.reading import Hold, Reading
from broker.runtime.clock import SystemClock
from tests.support import failures
from tests.support.fake_transport import FakeTransport
from tests.unit.broker.network.test_connection import Rig


def muting() -> tuple[Reading, FakeTransport]:
    reading = Reading(deque(), SystemClock())
    transport = reading.transport = FakeTransport()
    return reading, transport


async def until_read(transport: FakeTransport) -> None:
    async with asyncio.timeout(5):
        while not transport.reading:
            await asyncio.sleep(0.002)


async def test_reading_goes_on_after_the_time_and_not_before_the_longest() -> None:
    reading, transport = muting()
    began = asyncio.get_running_loop().time()
    reading.mute(20)
    reading.mute(80)
    reading.mute(1)
    assert not transport.reading
    assert not reading.held  # frames that are here are started
    await until_read(transport)
    assert asyncio.get_running_loop().time() - began > 0.075
    assert not reading.holds & Hold.THROTTLED


async def test_other_reasons_still_hold() -> None:
    reading, transport = muting()
    reading.hold(Hold.BUDGET)
    reading.mute(5)
    await asyncio.sleep(0.03)
    assert reading.holds == Hold.BUDGET
    assert not transport.reading


async def test_the_end_of_the_connection_drops_the_timer() -> None:
    reading, transport = muting()
    reading.mute(20)
    reading.end()
    reading.end()
    await asyncio.sleep(0.04)
    assert not transport.reading


async def test_a_connection_is_muted_and_its_end_cancels_that() -> None:
    rig = Rig()
    rig.connection.reading.mute(60_000)
    assert not rig.transport.reading
    reading = rig.connection.reading
    assert reading._unmute is not None
    rig.connection.connection_lost(None)
    assert reading._unmute is None
    rig.connection.reading.mute(60_000)  # an answer that came too late
    assert reading._unmute is None


async def test_a_muted_connection_is_not_idle() -> None:
    rig = Rig()
    rig.connection.reading.mute(3_600_000)
    rig.clock.advance(700_000)
    rig.processor.sweep()
    assert rig.metrics.connections_closed_idle == 0
    rig.connection.reading.holds &= ~Hold.THROTTLED
    rig.clock.advance(599_000)
    rig.processor.sweep()
    assert rig.metrics.connections_closed_idle == 0
    rig.clock.advance(2_000)
    rig.processor.sweep()
    assert rig.metrics.connections_closed_idle == 1
    rig.connection.connection_lost(None)


async def test_under_memory_pressure_a_muted_connection_finishes_its_frame() -> None:
    rig = Rig(bytes_max=100)
    rig.receive(b"\0\0\0\x20" + b"x" * 10)  # a part of a frame
    rig.connection.reading.mute(60_000)
    assert not rig.transport.reading
    rig.budget.take(100)
    assert rig.budget.full
    assert rig.transport.reading
    rig.budget.give_back(100)
    rig.connection.connection_lost(None)


async def test_a_failure_to_go_on_is_reported_as_the_connections() -> None:
    found: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: found.append(str(context["exception"])))
    reading, transport = muting()
    transport.resume_reading = lambda: 1 / 0  # type: ignore[method-assign]
    reading.mute(5)
    await asyncio.sleep(0.05)
    assert found == ["division by zero"]
    failures.take()
