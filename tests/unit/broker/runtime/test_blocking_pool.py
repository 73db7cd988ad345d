"""Blocking calls do not block the loop, and their outcome comes back on it."""

import asyncio
import threading

import pytest

from broker.runtime.blocking_pool import BlockingPool, thread_executor
from broker.runtime.owners import Owner


async def test_outcomes_are_delivered_on_the_loop() -> None:
    pool = BlockingPool(thread_executor(2, "test"), asyncio.get_running_loop())
    loop_thread = threading.get_ident()
    seen: list[tuple[int, BaseException | None]] = []
    call_threads: list[int] = []

    def fail() -> None:
        call_threads.append(threading.get_ident())
        raise OSError(5, "Input/output error")

    pool.submit(
        Owner.APPEND,
        lambda: call_threads.append(threading.get_ident()),
        lambda error: seen.append((threading.get_ident(), error)),
    )
    pool.submit(Owner.APPEND, fail, lambda error: seen.append((threading.get_ident(), error)))
    async with asyncio.timeout(10):
        while len(seen) < 2:
            await asyncio.sleep(0.001)
    assert {thread for thread, _ in seen} == {loop_thread}
    assert loop_thread not in call_threads
    errors = [error for _, error in seen if error is not None]
    assert [type(error) for error in errors] == [OSError]
    assert await pool.run(lambda: 7) == 7
    with pytest.raises(OSError, match="Input/output error"):
        await pool.run(fail)
    pool.close()


async def test_the_pool_is_busy_until_its_calls_return() -> None:
    pool = BlockingPool(thread_executor(2, "test"), asyncio.get_running_loop())
    release = threading.Event()
    back: list[BaseException | None] = []
    assert not pool.is_busy
    assert pool.ended_count == 0
    pool.submit(Owner.APPEND, release.wait, back.append)
    waiting = asyncio.create_task(pool.run(release.wait))
    await asyncio.sleep(0)
    waiting.cancel()  # the caller is cancelled; the call continues
    await asyncio.gather(waiting, return_exceptions=True)
    assert pool.is_busy
    release.set()
    async with asyncio.timeout(5):
        while pool.is_busy:
            await asyncio.sleep(0.001)
    assert back == [None]
    assert pool.ended_count == 2
    pool.close()
