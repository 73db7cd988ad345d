"""The loop of virtual time keeps asyncio's promises, and the seed decides the rest."""

import asyncio
import signal

import pytest

from tests.simulation.conftest import MakeLoop
from tests.simulation.pool import Killed
from tests.simulation.world import MS, SECOND, Stuck


def test_time_jumps_to_the_next_timer(loop_of: MakeLoop) -> None:
    loop = loop_of("1")
    loop.run_until_complete(asyncio.sleep(3600))
    assert 3600 * SECOND <= loop.world.now_ns < 3601 * SECOND


def test_timers_ring_in_whole_milliseconds_like_uvloops(loop_of: MakeLoop) -> None:
    loop = loop_of("1")
    rung: list[str] = []

    async def run() -> None:
        loop.call_later(0.0004, rung.append, "soon")
        loop.call_soon(rung.append, "next")
        await asyncio.sleep(0)
        assert rung == ["soon", "next"], "a delay that rounds to nothing is a callback"
        loop.call_later(0.0014, rung.append, "early")
        began_ns = loop.world.now_ns
        while rung[-1] != "early":
            await asyncio.sleep(0.001)
        assert loop.world.now_ns - began_ns >= MS

    loop.run_until_complete(run())


def test_callbacks_run_first_in_first_out(loop_of: MakeLoop) -> None:
    loop = loop_of("1")
    called: list[int] = []
    for number in range(9):
        loop.call_soon(called.append, number)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert called == list(range(9))


def test_the_seed_orders_equal_timers(loop_of: MakeLoop) -> None:
    orders = set()
    for seed in range(9):
        loop = loop_of(str(seed))
        called: list[int] = []
        for number in range(4):
            loop.call_later(1, called.append, number)
        loop.call_later(2, loop.stop)
        loop.run_forever()
        orders.add(tuple(called))
    assert len(orders) > 1


def test_events_of_the_world_happen_while_the_loop_waits(loop_of: MakeLoop) -> None:
    loop = loop_of("1")
    found = loop.create_future()
    loop.world.after(5 * SECOND, lambda: found.set_result(loop.world.now_ns))
    assert loop.run_until_complete(found) == 5 * SECOND


def test_a_loop_that_waits_for_nothing_is_told_so(loop_of: MakeLoop) -> None:
    loop = loop_of("1")
    with pytest.raises(Stuck):
        loop.run_until_complete(loop.create_future())


def test_a_loop_that_never_rests_is_told_so(loop_of: MakeLoop) -> None:
    loop = loop_of("1")

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(Stuck, match="never rests"):
        loop.run_until_complete(spin())
    loop.bury()


def test_a_kill_ends_the_life_and_what_ran_in_it(loop_of: MakeLoop) -> None:
    loop = loop_of("1")
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            ended.append("work")

    def kill() -> None:
        raise Killed

    loop.world.after(SECOND, kill)
    with pytest.raises(Killed):
        loop.run_until_complete(work())
    loop.bury()
    assert ended == ["work"]
    assert loop.is_closed()


def test_signals_are_handled_or_kill(loop_of: MakeLoop) -> None:
    loop = loop_of("1")
    received: list[int] = []
    loop.add_signal_handler(signal.SIGTERM, received.append, 15)
    loop.receive(signal.SIGTERM)
    loop.run_until_complete(asyncio.sleep(0.01))
    assert received == [15]
    loop.remove_signal_handler(signal.SIGTERM)
    with pytest.raises(Killed):
        loop.receive(signal.SIGTERM)
