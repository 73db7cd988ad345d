"""Makes new log start offsets durable, so that clients see them, and deletes what is below them.

Retention and DeleteRecords move the next start offsets of logs (`storage.trimming`). One write of
the checkpoint files then makes those of all logs durable, however many segments are deleted.

Who asks for the start of a log while DeleteRecords is under way there waits for it (`until_cut`):
clients ask without waiting for the answer, and in Kafka they then see the new start.

On a full disk that write fails. Then the segments below the next start offsets are deleted first,
each log with a sync of its own, which also frees the space for the write.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from broker.partitions.checkpoint_writer import CheckpointWriter
from broker.runtime.blocking_pool import BlockingPool
from storage.log import Log
from storage.log_manager import LogManager
from storage.trash import FOREVER_MS

logger = logging.getLogger("barnabas.topics")


class LogStarts:
    """The log start offsets of one broker's logs."""

    __slots__ = ("_checkpoints", "_cuts", "_logs", "_pool")

    def __init__(self, logs: LogManager, checkpoints: CheckpointWriter, pool: BlockingPool) -> None:
        self._logs = logs
        self._checkpoints = checkpoints
        self._pool = pool
        self._cuts: dict[Log, list[asyncio.Future[None]]] = {}  # one for each DeleteRecords

    def begin_cut(self, logs: Iterable[Log]) -> asyncio.Future[None]:
        """Note that DeleteRecords is under way in logs; the caller gives it to `end_cut`."""
        cut = asyncio.get_running_loop().create_future()
        for log in logs:
            self._cuts.setdefault(log, []).append(cut)
        return cut

    def end_cut(self, cut: asyncio.Future[None], logs: Iterable[Log]) -> None:
        """Let those go on that wait for a DeleteRecords."""
        cut.set_result(None)
        for log in logs:
            cuts = self._cuts[log]
            cuts.remove(cut)
            if not cuts:
                del self._cuts[log]

    def is_cut(self, log: Log) -> bool:
        """Whether DeleteRecords is under way in a log."""
        return log in self._cuts

    async def until_cut(self, log: Log, timeout_seconds: float) -> None:
        """Return when each DeleteRecords now under way in a log is over, or after the timeout."""
        cuts = self._cuts.get(log)
        if cuts:
            await asyncio.wait(list(cuts), timeout=timeout_seconds)

    async def write(self) -> bool:
        """Write the next start offsets of all logs; return whether clients see them now.

        If not, the write failed, and the next checkpoint tries again.
        """
        try:
            await self._checkpoints.write()
        except OSError as error:
            self._logs.home.room.note(error)
            return False
        return True

    async def settle(self, logs: Sequence[Log], now_ms: int) -> None:
        """Return when clients see the next start offsets of `logs`, or raise OSError.

        After an error they see some of them, and the others once a later write succeeds.
        """
        if await self.write():
            return
        for log in logs:
            try:
                await self.delete_segments(log, now_ms, sync=True)
            except OSError as error:
                logger.error(
                    "deletion of segments of %(directory)s failed: %(error)s",
                    {"directory": log.directory, "error": error},
                )
        if any(log.start_offset < log.next_start_offset for log in logs):
            await self._purge()
            await self._checkpoints.write()

    async def delete_segments(self, log: Log, now_ms: int, *, sync: bool = False) -> None:
        """Delete the segments of a log below its start offset (`Log.begin_deletion`).

        Raises OSError: what could not be deleted is left to a later call.
        """
        deletion = log.begin_deletion(now_ms, sync=sync)
        if deletion is not None:
            try:
                await self._pool.run(deletion.run)
            finally:
                deletion.finish()

    async def _purge(self) -> None:
        purge = self._logs.home.trash.begin_purge(FOREVER_MS)
        if purge is not None:
            await self._pool.run(purge.run)
            self._logs.finish_purge(purge)
