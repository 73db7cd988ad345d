"""Tickers: both kinds of duties run at intervals, outlive their failures, and end at the stop."""

import asyncio

from broker.maintenance.tickers import Tickers


async def test_a_duty_that_waits_runs_again_only_after_it_has_ended() -> None:
    tickers, ran, go_on = Tickers(), [0], asyncio.Event()

    async def duty() -> None:
        ran[0] += 1
        await go_on.wait()

    tickers.run(0.001, 0, duty)
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert ran == [1]
    go_on.set()
    while ran[0] < 3:
        await asyncio.sleep(0.001)
    await tickers.stop()
    ended_at = ran[0]
    await asyncio.sleep(0.005)
    assert ran == [ended_at]


async def test_a_stop_need_not_wait_for_the_next_run() -> None:
    tickers, ran = Tickers(), []

    def short() -> None:
        ran.append("short")

    async def long() -> None:
        ran.append("long")

    tickers.call(3600, short)
    tickers.run(3600, 3600, long)
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await tickers.stop()
    assert ran == []


async def test_a_stop_before_the_first_turn_ends_a_duty_that_never_ran() -> None:
    tickers, ran = Tickers(), []

    async def duty() -> None:
        ran.append("it")

    tickers.run(3600, 0, duty)
    async with asyncio.timeout(10):
        await tickers.stop()
    assert ran == []


async def test_a_failed_run_is_reported_and_followed_by_others() -> None:
    tickers, ran, reported = Tickers(), [0, 0], []
    asyncio.get_running_loop().set_exception_handler(
        lambda _loop, context: reported.append(str(context["exception"]))
    )

    def short() -> None:
        ran[0] += 1
        if ran[0] == 1:
            raise OSError("the disk is ill")
        if ran[0] == 2:
            raise RuntimeError("this is a bug")

    async def long() -> None:
        ran[1] += 1
        if ran[1] == 1:
            raise RuntimeError("so is this")

    tickers.call(0.001, short)
    tickers.run(0.001, 0, long)
    while min(ran) < 3:
        await asyncio.sleep(0.001)
    await tickers.stop()
    assert sorted(reported) == ["so is this", "this is a bug"]
