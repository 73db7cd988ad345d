"""What the broker does on its own, by the clock: one ticker task a duty.

| duty | every | what |
|---|---|---|
| deadlines | 100 ms | answers commits whose deadline has passed, lets queued appends look again |
| connections | 1 s | ends idle connections and frames that were begun and not ended |
| checkpoints | `barnabas.recovery.point.interval.ms` | advances and writes recovery points |
| flushes | 1 s | flushes `write.caching` logs whose `flush.ms` is over |
| retention | `log.retention.check.interval.ms` | removes segments past age or size |
| deletions | 1 s | unlinks files whose `file.delete.delay.ms` is over |
| producers | `producer.id.expiration.check.interval.ms` | forgets idle producers |

A duty that fails is logged and tried again at its next turn; a log that fails stops its own
partition only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from broker.processor import Processor
from broker.services import Services
from storage.errors import StorageError

logger = logging.getLogger("barnabas.housekeeping")

DEADLINE_TICK_SECONDS = 0.1
TICK_SECONDS = 1.0


class Housekeeping:
    """The tickers of one broker."""

    def __init__(
        self,
        services: Services,
        processors: list[Processor],
    ) -> None:
        self._services = services
        self._processors = processors
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()

    def start(self) -> None:
        """Begin all tickers."""
        config = self._services.config
        for seconds, duty in (
            (DEADLINE_TICK_SECONDS, self._deadlines),
            (TICK_SECONDS, self._connections),
            (config.barnabas_recovery_point_interval_ms / 1000, self._checkpoints),
            (TICK_SECONDS, self._flushes),
            (TICK_SECONDS, self._deletions),
            (config.producer_id_expiration_check_interval_ms / 1000, self._producers),
        ):
            self._tasks.append(asyncio.create_task(self._every(seconds, seconds, duty)))
        retention_seconds = config.log_retention_check_interval_ms / 1000
        first_seconds = min(retention_seconds, config.log_initial_task_delay_ms / 1000)
        self._tasks.append(
            asyncio.create_task(self._every(retention_seconds, first_seconds, self._retention))
        )

    async def stop(self) -> None:
        """End all tickers; one that is within its duty ends it first."""
        self._stopping.set()
        await asyncio.gather(*self._tasks)

    async def _every(
        self, seconds: float, first_seconds: float, duty: Callable[[], Awaitable[None]]
    ) -> None:
        rest_seconds = first_seconds
        while not await self._stops_within(rest_seconds):
            rest_seconds = seconds
            try:
                await duty()
            except Exception:
                logger.exception("housekeeping failed and will be tried again")

    async def _stops_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def _deadlines(self) -> None:
        self._services.commit.sweep()
        self._services.appends.drain()

    async def _connections(self) -> None:
        for processor in self._processors:
            processor.sweep()

    async def _flushes(self) -> None:
        now_ms = self._services.clock.now_ms()
        for partition in self._services.partitions.all():
            if partition.log.write_caching and partition.log.flush_due(now_ms):
                self._services.commit.flush_now(partition)

    async def _checkpoints(self) -> None:
        for log in self._services.logs.all():
            checkpoint = log.begin_checkpoint()
            if checkpoint is not None:
                error = None
                try:
                    await self._services.pool.run(checkpoint.run)
                except OSError as caught:
                    error = caught
                    logger.error("checkpoint of %s failed: %s", log.directory, caught)
                log.finish_checkpoint(checkpoint, error)
        await self._services.checkpoints.write()

    async def _retention(self) -> None:
        now_ms = self._services.clock.now_ms()
        for partition in self._services.partitions.all():
            try:
                partition.log.apply_retention(now_ms)
            except (OSError, StorageError) as error:
                logger.error("retention of %s failed: %s", partition.log.directory, error)
            await asyncio.sleep(0)

    async def _deletions(self) -> None:
        self._services.logs.purge_deleted(self._services.clock.now_ms())

    async def _producers(self) -> None:
        now_ms = self._services.clock.now_ms()
        for partition in self._services.partitions.all():
            partition.log.expire_producers(now_ms)
