"""Lets tasks do their next step one after the other, each in a turn of the loop of its own.

Tasks that have waited for the same thing, such as a flush, all go on in one turn of the loop. If
each then has some milliseconds of work, the loop would turn only when all of them are done.
"""

from __future__ import annotations

import asyncio


class Turnstile:
    """Lets one task through in each turn of the loop, in their order."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def passed(self) -> None:
        """Return in a turn of the loop in which no other task has passed."""
        async with self._lock:
            await asyncio.sleep(0)  # the one before has had its turn
