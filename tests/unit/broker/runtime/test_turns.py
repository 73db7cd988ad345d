"""A walk in turns lets other tasks run after so many items."""

import asyncio

import pytest

from broker.runtime.turns import InTurns


async def walk(count: int, per_turn: int) -> list[list[int]]:
    """Return the items of each turn of the loop."""
    turns: list[list[int]] = [[]]
    is_over = False

    async def other() -> None:
        while not is_over:
            await asyncio.sleep(0)
            turns.append([])

    beside = asyncio.ensure_future(other())
    await asyncio.sleep(0)
    async for item in InTurns(range(count), per_turn):
        turns[-1].append(item)
    is_over = True
    await beside
    return [turn for turn in turns if turn]


@pytest.mark.parametrize(
    ("count", "per_turn", "wanted"),
    [
        (0, 2, []),
        (1, 2, [[0]]),
        (2, 2, [[0, 1]]),
        (5, 2, [[0, 1], [2, 3], [4]]),
        (3, 1, [[0], [1], [2]]),
    ],
)
async def test_each_turn_has_its_share(count, per_turn, wanted):
    assert await walk(count, per_turn) == wanted
