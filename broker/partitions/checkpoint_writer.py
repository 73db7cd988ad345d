"""Writes the checkpoint files of the data directory, one write at a time.

Recovery points and log starts go into two files that hold those of every log. Two who write at
once could leave the older state in place of the newer, so all writing goes through here: whoever
comes while a write is under way takes the next one, with everyone else who came meanwhile.
"""

from __future__ import annotations

import asyncio

from broker.runtime.blocking_pool import BlockingPool
from storage.log_manager import LogManager


class CheckpointWriter:
    """The one way to the checkpoint files while the broker runs."""

    __slots__ = ("_lock", "_logs", "_pool")

    def __init__(self, logs: LogManager, pool: BlockingPool) -> None:
        self._logs = logs
        self._pool = pool
        self._lock = asyncio.Lock()

    async def write(self) -> None:
        """Return when recovery points and log starts, as they are now, are on the disk.

        Raises OSError: the files are as they were before.
        """
        async with self._lock:
            # What a write before this one has already written is not written again: then there
            # is nothing to do, and of many who waited only the first causes a write.
            write = self._logs.begin_write_checkpoints()
            if write is not None:
                await self._pool.run(write)
