"""Long walks of endpoints over topics and groups, in slices, shared by those who ask; and rates.

All visitors look at the same topics and groups, and their pages ask every few seconds. So the rows
of a list are made once for all who ask within `KEPT_NS` or, if they are much work, within
`KEPT_TIMES` the time of that work, at most `KEPT_NS_MAX`. What a visitor may not see is left out
for each.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Generic, TypeVar

from broker.runtime.clock import MS_NS, SECOND_NS, Clock

SLICE_NS: Final = MS_NS // 4
EACH: Final = 16  # steps between two looks at the clock
FRESH_NS: Final = 2 * SECOND_NS
OLD_NS: Final = 30 * SECOND_NS
TOPICS_MAX: Final = 10_000
KEPT_NS: Final = 2 * SECOND_NS
KEPT_TIMES: Final = 100
KEPT_NS_MAX: Final = 30 * SECOND_NS
SORTED: Final = 200  # rows at a time, some 0.2 ms

Row = TypeVar("Row")


class Turns:
    """Lets others have the loop after each slice of a walk."""

    def __init__(self, clock: Clock) -> None:
        self._now_ns = clock.monotonic_ns
        self._ends_ns = self._now_ns() + SLICE_NS
        self._count = 0
        self.slices = 1  # begun so far: what others do between them is not our work

    async def turn(self) -> None:
        """Count one step, of at most some 10 µs."""
        self._count += 1
        if not self._count % EACH:
            await self.look()

    async def look(self) -> None:
        """Look at the clock: after a step of some 100 µs."""
        if self._now_ns() >= self._ends_ns:
            await asyncio.sleep(0)
            self._ends_ns = self._now_ns() + SLICE_NS
            self.slices += 1


class SharedRows(Generic[Row]):
    """The rows of a list; `make` walks, and nobody may change what it returns."""

    def __init__(self, clock: Clock, make: Callable[[Turns], Awaitable[list[Row]]]) -> None:
        self._clock = clock
        self._make = make
        self._turn = asyncio.Lock()
        self._rows: list[Row] = []
        self._kept_until_ns = 0
        self._changes = 0  # that were made here

    async def get(self) -> list[Row]:
        """Return the rows, of a walk that has just been or is made now."""
        async with self._turn:
            if self._clock.monotonic_ns() >= self._kept_until_ns:
                turns, changes = Turns(self._clock), self._changes
                self._rows = await self._make(turns)
                if changes == self._changes:  # else the walk may have passed what was changed
                    kept_ns = max(KEPT_NS, KEPT_TIMES * SLICE_NS * turns.slices)
                    self._kept_until_ns = self._clock.monotonic_ns() + min(kept_ns, KEPT_NS_MAX)
            return self._rows

    def forget(self) -> None:
        """Walk for the next one who asks: something has been changed here."""
        self._kept_until_ns = 0
        self._changes += 1


async def page_of_rows(
    rows: list[Row], key: Callable[[Row], Any], offset: int, limit: int, turns: Turns
) -> list[Row]:
    """Return a page of the rows in the order of `key`, sorted in steps."""
    parts: list[list[Row]] = []
    for begin in range(0, len(rows), SORTED):
        parts.append(sorted(rows[begin : begin + SORTED], key=key))
        await turns.look()
    found: list[Row] = []
    merged: Iterable[Row] = heapq.merge(*parts, key=key)
    for place, row in enumerate(merged):
        if place >= offset + limit:
            break
        if place >= offset:
            found.append(row)
        await turns.turn()
    return found


class Rates:
    """Records a second of each topic, between two looks at it that are seconds apart."""

    def __init__(self, clock: Clock) -> None:
        self._now_ns = clock.monotonic_ns
        self._looks: dict[str, tuple[int, int, float | None]] = {}

    def of(self, topic: str, appended: int) -> float | None:
        """Return the rate of a topic whose end offsets add up to `appended` now.

        None at the first look.
        """
        now_ns = self._now_ns()
        look = self._looks.get(topic)
        if look is None or now_ns - look[0] > OLD_NS or appended < look[1]:
            if len(self._looks) >= TOPICS_MAX:
                self._looks.clear()
            self._looks[topic] = (now_ns, appended, None)
            return None
        since_ns, before, rate = look
        if now_ns - since_ns >= FRESH_NS:
            rate = round((appended - before) / ((now_ns - since_ns) / SECOND_NS), 2)
            self._looks[topic] = (now_ns, appended, rate)
        return rate
