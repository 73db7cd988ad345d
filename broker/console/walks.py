"""Long walks of endpoints over topics and groups, in slices; and how fast topics grow."""

from __future__ import annotations

import asyncio
from typing import Final

from broker.runtime.clock import MS_NS, SECOND_NS, Clock

SLICE_NS: Final = MS_NS
EACH: Final = 16  # steps between two looks at the clock
FRESH_NS: Final = 2 * SECOND_NS
OLD_NS: Final = 30 * SECOND_NS
TOPICS_MAX: Final = 10_000


class Turns:
    """Lets others have the loop after each slice of a walk."""

    def __init__(self, clock: Clock) -> None:
        self._now_ns = clock.monotonic_ns
        self._ends_ns = self._now_ns() + SLICE_NS
        self._count = 0

    async def turn(self) -> None:
        """Count one step, of at most some 10 µs."""
        self._count += 1
        if not self._count % EACH and self._now_ns() >= self._ends_ns:
            await asyncio.sleep(0)
            self._ends_ns = self._now_ns() + SLICE_NS


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
