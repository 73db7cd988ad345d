"""Long walks on the loop, a part in each turn: no step may hold up other tasks (I13).

What is walked over may change between two turns: a walk over a table needs a copy of its keys, and
looks each of them up again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class InTurns(Generic[Item]):
    """Asynchronous iteration over items, which lets other tasks run after each `per_turn` of them.

    No generator: one that a `return` or `break` leaves would need to be closed.
    """

    __slots__ = ("_items", "_left", "_per_turn")

    def __init__(self, items: Iterable[Item], per_turn: int) -> None:
        self._items = iter(items)
        self._per_turn = self._left = per_turn

    def __aiter__(self) -> InTurns[Item]:
        return self

    async def __anext__(self) -> Item:
        if self._left:
            self._left -= 1
        else:
            self._left = self._per_turn - 1
            await asyncio.sleep(0)
        for item in self._items:
            return item
        raise StopAsyncIteration


async def in_turns(steps: Generator[int, None, Result]) -> Result:
    """Run one step in each turn of the loop, and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        await asyncio.sleep(0)
