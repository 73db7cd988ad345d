"""Producer ids, given out from blocks that the metadata log has recorded.

A block of 1,000 is written to the metadata log, and durable there, before the first id of it is
given out; what is left of a block at a stop is never used. So no id is issued twice, whatever
happens (KIP-730 does the same between Kafka's controller and its brokers).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class ProducerIds:
    """Gives out producer ids."""

    def __init__(self, next_block: Callable[[], Awaitable[range]]) -> None:
        self._next_block = next_block  # returns once the block is durable
        self._block = iter(range(0))
        self._refill = asyncio.Lock()

    async def next(self) -> int:
        """Return an id that nobody has had."""
        while (producer_id := next(self._block, None)) is None:
            async with self._refill:
                # Whoever waited for the lock may find a block that another has fetched.
                if (producer_id := next(self._block, None)) is not None:
                    return producer_id
                self._block = iter(await self._next_block())
        return producer_id
