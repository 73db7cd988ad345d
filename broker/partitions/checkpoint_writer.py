"""Writes the checkpoint files of the data directory, one write at a time.

Two files hold the recovery points and the log start offsets of all logs. Two concurrent writes
could leave the older state in place of the newer, so all writes go through here. Callers that
arrive during a write wait for the next one, which serves them all.
"""

from __future__ import annotations

import asyncio

from broker.runtime.blocking_pool import BlockingPool
from storage.log_manager import LogManager


class CheckpointWriter:
    """The only writer of the checkpoint files while the broker runs."""

    __slots__ = ("_lock", "_logs", "_pool")

    def __init__(self, logs: LogManager, pool: BlockingPool) -> None:
        self._logs = logs
        self._pool = pool
        self._lock = asyncio.Lock()

    async def write(self) -> None:
        """Return when the current recovery points and log start offsets are on the disk.

        Clients see these start offsets then. Raises OSError; the files are then unchanged.
        """
        async with self._lock:
            # None if an earlier write has covered the current state: of many callers that waited,
            # only the first causes a write.
            write = self._logs.begin_write_checkpoints()
            if write is not None:
                await self._pool.run(write)
                self._logs.finish_write_checkpoints()
