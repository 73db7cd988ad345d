"""Calls in a thread, one at a time: their order, their bound, and callers that leave."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from broker.runtime import one_by_one
from broker.runtime.blocking_pool import BlockingPool, thread_executor
from broker.runtime.one_by_one import OneByOne, TooManyWait


@pytest.fixture
async def pool() -> AsyncIterator[BlockingPool]:
    pool = BlockingPool(thread_executor(4, "test"), asyncio.get_running_loop())
    yield pool
    pool.close()


async def test_calls_run_one_at_a_time_in_their_order(pool: BlockingPool) -> None:
    work = OneByOne(pool)
    running: list[int] = []
    found: list[int] = []

    def call(number: int) -> int:
        running.append(number)
        assert len(running) == 1
        running.remove(number)
        found.append(number)
        return number

    results = await asyncio.gather(*(work.run(lambda n=n: call(n)) for n in range(20)))  # type: ignore[misc]
    assert results == found == list(range(20))
    assert work.waiting_count == 0


async def test_a_caller_that_leaves_does_not_let_the_next_begin_early(pool: BlockingPool) -> None:
    work = OneByOne(pool)
    go_on, begun = threading.Event(), threading.Event()

    def stuck() -> None:
        begun.set()
        go_on.wait(10)

    first = asyncio.create_task(work.run(stuck))
    while not begun.is_set():
        await asyncio.sleep(0.001)
    first.cancel()
    second = asyncio.create_task(work.run(lambda: "second"))
    gone = asyncio.create_task(work.run(lambda: "gone"))
    await asyncio.sleep(0.02)
    assert not second.done()
    gone.cancel()
    go_on.set()
    assert await second == "second"
    assert await work.run(lambda: "third") == "third"


async def test_an_exception_reaches_its_caller_only(pool: BlockingPool) -> None:
    work = OneByOne(pool)

    def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await work.run(fails)
    assert await work.run(lambda: 1) == 1


async def test_so_many_wait_and_no_more(
    pool: BlockingPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_by_one, "WAITING_MAX", 2)
    work = OneByOne(pool)
    go_on = threading.Event()
    running = asyncio.create_task(work.run(lambda: go_on.wait(10)))
    await asyncio.sleep(0.01)
    waiting = [asyncio.create_task(work.run(lambda: True)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyWait):
        await work.run(lambda: True)
    go_on.set()
    assert await asyncio.gather(running, *waiting) == [True, True, True]
