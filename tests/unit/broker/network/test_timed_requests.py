"""Which requests of a connection are timed, and until when."""

import asyncio

from broker.runtime.clock import MS_NS
from broker.runtime.request_times import (
    LOCAL,
    RESPONSE_QUEUE,
    SAMPLED,
    TOTAL,
    RequestTimes,
)
from tests.unit.broker.network.test_connection import Rig, frames


async def test_a_timed_request_is_counted_when_its_answer_leaves() -> None:
    rig = Rig()
    writes = rig.processor.writes
    writes.times = times = RequestTimes(rig.clock)
    rig.receive(frames(1, 2))
    await rig.pump()
    first, second = rig.take()
    assert first.extras is not None, "the first of all is timed"
    assert second.extras is not None, "and the next one of a client that rested"
    rig.clock.advance(2)
    rig.connection.respond(second, [b"b"])
    await asyncio.sleep(0)
    assert times.by_api == {}
    rig.clock.advance(3)
    rig.connection.respond(first, [b"a"])
    await asyncio.sleep(0)
    assert rig.transport.written == b"ab"
    phases = times.by_api[first.header.api_key]
    assert [phases[of].count for of in (TOTAL, LOCAL, RESPONSE_QUEUE)] == [2, 2, 2]
    assert [phases[of].sum_ns // MS_NS for of in (TOTAL, LOCAL, RESPONSE_QUEUE)] == [10, 7, 3]


async def test_of_many_requests_at_once_one_in_many_is_timed() -> None:
    rig = Rig(queue_max=1_000, bytes_max=100_000)
    stand_for = []
    for number in range(3 * SAMPLED):
        rig.receive(frames(number % 100))
        await rig.pump()
        (request,) = rig.take()
        timing = request.extras.timing if request.extras is not None else None
        stand_for.append(timing.stands_for if timing is not None else 0)
        rig.connection.respond(request, [b"x"])
    timed = {number: so_many for number, so_many in enumerate(stand_for) if so_many}
    assert timed == {0: 1, 1: 1, 1 + SAMPLED: SAMPLED, 1 + 2 * SAMPLED: SAMPLED}
