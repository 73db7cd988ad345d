"""A loop whose timers come due when time is let pass."""

import asyncio

import pytest

from broker.testing.elastic_loop import Ahead, AheadClock, ElasticLoop


def run(program):
    ahead = Ahead()
    with asyncio.Runner(loop_factory=lambda: ElasticLoop(ahead)) as runner:
        return runner.run(program(runner.get_loop(), AheadClock(ahead)))


def test_timers_come_due_in_their_order():
    async def program(loop, clock):
        told = []
        loop.call_later(20, told.append, "late")
        loop.call_later(10, told.append, "early")
        loop.call_at(loop.time() + 40, told.append, "never")
        loop.call_later(5, told.append, "cancelled").cancel()
        before = clock.monotonic_ns(), clock.now_ms(), loop.time()
        loop.advance(30)
        assert told == ["early", "late"]
        assert 30e9 <= clock.monotonic_ns() - before[0] < 40e9
        assert 30_000 <= clock.now_ms() - before[1] < 40_000
        assert 30 <= loop.time() - before[2] < 40
        assert len(loop.timers) == 1
        loop.advance(11)
        assert told == ["early", "late", "never"]

    run(program)


def test_what_is_not_due_comes_at_its_time():
    async def program(loop, clock):
        told = asyncio.Event()
        loop.call_later(10, told.set)
        loop.advance(9.99)
        assert not told.is_set()
        await asyncio.wait_for(told.wait(), 5)
        assert loop.timers == {}

    run(program)


def test_sleeps_and_timeouts_are_timers():
    async def program(loop, clock):
        sleeping = asyncio.create_task(asyncio.sleep(1_000, "slept"))
        waiting = asyncio.create_task(asyncio.wait_for(asyncio.Event().wait(), 500))
        await asyncio.sleep(0)
        loop.advance(1_001)
        assert await sleeping == "slept"
        with pytest.raises(TimeoutError):
            await waiting
        await asyncio.sleep(0.01)

    run(program)


def test_a_timer_that_fires_another_keeps_its_time():
    async def program(loop, clock):
        told = []
        loop.call_later(1, lambda: loop.call_later(1, told.append, "again"))
        loop.advance(100)
        assert told == []
        loop.advance(1)
        assert told == ["again"]

    run(program)


def test_a_failure_is_told_and_the_others_come():
    async def program(loop, clock):
        failures, told = [], []
        loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
        loop.call_later(1, lambda: 1 // 0)
        loop.call_later(2, told.append, "next")
        loop.advance(3)
        assert told == ["next"]
        assert isinstance(failures[0], ZeroDivisionError)

    run(program)
