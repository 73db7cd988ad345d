"""Issue producer ids from blocks that the metadata log has recorded.

A block of 1,000 is durable in the metadata log before its first id is issued. A stop discards the
rest of a block. So no id is issued twice (KIP-730 does the same between Kafka's controller and its
brokers).
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
        """Return an id that was never issued before."""
        while (producer_id := next(self._block, None)) is None:
            async with self._refill:
                # Another task may have fetched a block while this one waited for the lock.
                if (producer_id := next(self._block, None)) is not None:
                    return producer_id
                self._block = iter(await self._next_block())
        return producer_id
