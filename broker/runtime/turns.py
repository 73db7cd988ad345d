"""Long walks on the loop, a part in each turn: no step may hold up other tasks (I13).

What is walked over may change between two turns: a walk over a table needs a copy of its keys, and
looks each of them up again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

STEPS_PER_TURN: Final = 1_000  # of a microsecond or two

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


async def in_turns(steps: Generator[int, None, Result], per_turn: int = STEPS_PER_TURN) -> Result:
    """Run so many steps in each turn of the loop, and return their result."""
    results: list[Result] = []

    def kept() -> Generator[int, None, None]:
        results.append((yield from steps))

    async for _ in InTurns(kept(), per_turn):
        pass
    return results[0]


class Topic(Protocol):
    """A topic that a request names."""

    @property
    def partitions(self) -> Sequence[Any]:
        """Its partitions, or their numbers."""
        ...


Named = TypeVar("Named", bound=Topic)


def names_more_than(topics: Sequence[Topic], most: int) -> bool:
    """Whether a request names more topics than `most`, or more partitions."""
    return len(topics) > most or sum(len(topic.partitions) for topic in topics) > most


def with_partitions(topics: Iterable[Named]) -> Iterator[tuple[Named, Any]]:
    """Yield each topic with None, and then with each of its partitions."""
    for topic in topics:
        yield topic, None
        for partition in topic.partitions:
            yield topic, partition
