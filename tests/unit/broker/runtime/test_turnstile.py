"""Tasks that wait for the same thing do not go on in the same turn of the loop."""

import asyncio

from broker.runtime.turnstile import Turnstile


async def test_one_task_passes_in_each_turn_of_the_loop_in_their_order():
    turnstile, start, passed = Turnstile(), asyncio.Event(), []
    in_this_turn: list[int] = []

    async def run(number: int) -> None:
        await start.wait()
        await turnstile.passed()
        if not in_this_turn:
            asyncio.get_running_loop().call_soon(in_this_turn.clear)
        in_this_turn.append(number)
        passed.append((number, len(in_this_turn)))

    tasks = [asyncio.create_task(run(number)) for number in range(5)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    start.set()
    await asyncio.wait(tasks)
    assert passed == [(0, 1), (2, 1), (3, 1), (4, 1)]


async def test_a_task_that_is_cancelled_lets_the_others_pass():
    turnstile = Turnstile()
    tasks = [asyncio.create_task(turnstile.passed()) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[1].cancel()
    await asyncio.wait(tasks)
    assert [task.cancelled() for task in tasks] == [True, True, False]
