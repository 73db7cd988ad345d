"""Unreadable requests reach no handler, so what answers them bounds itself."""

import asyncio

from broker.network.bad_requests import OF_A_TURN
from tests.unit.broker.network.test_connection import Rig, frames


async def test_unreadable_requests_are_answered_in_several_turns() -> None:
    """No worker bounds them: one read brings thousands."""
    rig = Rig(bytes_max=1 << 20)
    running = asyncio.create_task(rig.processor.run())
    await asyncio.sleep(0)
    count = 10 * OF_A_TURN
    rig.receive(frames(*[254] * count))
    rig.receive(frames(1))
    left, turns = count + 1, 0
    while left:
        await asyncio.sleep(0)
        before, left = left, len(rig.connection.frames)
        assert before - left <= OF_A_TURN + 1
        turns += 1
    assert turns >= 10
    assert rig.metrics.bad_requests == count
    await asyncio.sleep(0)
    assert rig.transport.written == b"bad" * count
    assert [request.header.correlation_id for request in rig.take()] == [1]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
