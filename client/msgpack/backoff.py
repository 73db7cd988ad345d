"""Pauses between attempts: each is twice as long as the one before, up to a maximum.

As in Kafka's clients, where `retry.backoff.ms` grows to `retry.backoff.max.ms`, and
`reconnect.backoff.ms` to `reconnect.backoff.max.ms`: both end at 1 s.
"""

from __future__ import annotations

import asyncio
from typing import Final

FIRST_S: Final = 0.1
LONGEST_S: Final = 1.0


class Backoff:
    """The pauses between attempts of one operation. `next_s` is the length of the next one."""

    def __init__(self, longest_s: float = LONGEST_S) -> None:
        self.next_s = FIRST_S
        self._longest_s = longest_s

    @property
    def has_paused(self) -> bool:
        """Whether there was a pause since the last success."""
        return self.next_s > FIRST_S

    async def pause(self) -> None:
        """Wait before the next attempt."""
        wait_s, self.next_s = self.next_s, min(2 * self.next_s, self._longest_s)
        await asyncio.sleep(wait_s)

    def reset(self) -> None:
        """Begin with the shortest pause again, after a success."""
        self.next_s = FIRST_S
