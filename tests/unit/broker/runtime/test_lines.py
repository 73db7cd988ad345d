"""Lines of requests: first come, first served, by key."""

import asyncio

import pytest

from broker.runtime.lines import Lines


async def test_those_of_a_key_go_on_in_their_order_and_other_keys_do_not_wait():
    lines, seen = Lines(), []
    free = asyncio.Event()

    async def request(key, name, *, waits=False):
        async with lines.turn(key):
            if waits:
                await free.wait()
            seen.append(name)

    tasks = [asyncio.create_task(request("a", "first", waits=True))]
    tasks += [asyncio.create_task(request("a", name)) for name in ("second", "third")]
    tasks.append(asyncio.create_task(request("b", "other")))
    for _ in range(5):
        await asyncio.sleep(0)
    assert seen == ["other"]
    assert ("a" in lines.waiting, "b" in lines.waiting) == (True, False)
    free.set()
    await asyncio.gather(*tasks)
    assert seen == ["other", "first", "second", "third"]
    assert "a" not in lines.waiting


async def test_a_request_that_fails_leaves_the_line():
    lines = Lines()
    with pytest.raises(ValueError, match="no"):
        async with lines.turn("a"):
            raise ValueError("no")
    assert "a" not in lines.waiting


async def test_a_place_is_taken_before_its_task_begins():
    lines, seen = Lines(), []

    async def request(turn, name):
        async with turn:
            await asyncio.sleep(0)
            seen.append(name)

    first, second = lines.turn("a"), lines.turn("a")
    assert "a" in lines.waiting
    await asyncio.gather(request(first, "first"), request(second, "second"))
    assert seen == ["first", "second"]
    assert "a" not in lines.waiting


async def test_a_request_that_is_cancelled_in_the_line_leaves_it():
    lines = Lines()
    async with lines.turn("a"):
        waiting = asyncio.create_task(lines.turn("a").__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
    assert "a" not in lines.waiting
