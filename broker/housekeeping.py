"""What the broker does on its own, by the clock: one ticker task a duty.

| duty | every | what |
|---|---|---|
| deadlines | 100 ms | answers commits and queued appends that are late, finds stuck fsyncs |
| connections | 1 s | ends idle connections and frames that were begun and not ended |
| pages | 1 s | lets go of the mapped pages that were sent |
| checkpoints | `barnabas.recovery.point.interval.ms` | advances and writes recovery points |
| flushes | 1 s | flushes `write.caching` logs whose `flush.ms` is over |
| retention | `log.retention.check.interval.ms` | removes segments past age or size |
| deletions | 1 s | looks whether the disk is full, unlinks what `file.delete.delay.ms` has let go |
| handlers | 1 s, until they are | imports the handlers that nobody has asked for yet |
| metadata | 1 s | makes snapshots of the metadata log, and trims it |
| producers | `producer.id.expiration.check.interval.ms` | forgets idle producers |
| groups | `offsets.retention.check.interval.ms` | removes old offsets, and groups that are over |

A duty that fails is logged and tried again at its next turn; a log that fails stops its own
partition only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from broker.disk_room import DiskRoom
from broker.handlers import HANDLERS
from broker.metadata.snapshot_keeper import SnapshotKeeper
from broker.processor import Processor
from broker.services import Services
from storage.errors import StorageError
from storage.home import FOREVER_MS

logger = logging.getLogger("barnabas.housekeeping")

DEADLINE_TICK_SECONDS = 0.1
TICK_SECONDS = 1.0
BETWEEN_HANDLERS_SECONDS = 0.01  # an import holds the loop up for 2 ms


class Housekeeping:
    """The tickers of one broker."""

    def __init__(
        self,
        services: Services,
        processors: list[Processor],
    ) -> None:
        self._services = services
        self._processors = processors
        self._room = DiskRoom(
            services.logs.home.room,
            services.logs.filesystem,
            services.logs.data_directory,
            services.metrics,
            services.clock,
        )
        self._snapshots = SnapshotKeeper(
            services.controller.metadata_log, services.config, services.clock.now_ms()
        )
        self._knows_snapshots = False
        self._not_loaded = list(HANDLERS)
        self._complained: set[str] = set()  # directories whose last checkpoint failed
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()

    def start(self) -> None:
        """Begin all tickers."""
        config = self._services.config
        for seconds, duty in (
            (DEADLINE_TICK_SECONDS, self._deadlines),
            (TICK_SECONDS, self._connections),
            (TICK_SECONDS, self._pages),
            (config.barnabas_recovery_point_interval_ms / 1000, self._checkpoints),
            (TICK_SECONDS, self._flushes),
            (TICK_SECONDS, self._deletions),
            (TICK_SECONDS, self._handlers),
            (TICK_SECONDS, self._metadata),
            (config.producer_id_expiration_check_interval_ms / 1000, self._producers),
            (config.offsets_retention_check_interval_ms / 1000, self._groups),
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
        self._services.appends.sweep()

    async def _handlers(self) -> None:
        while self._not_loaded and not self._stopping.is_set():
            self._not_loaded[-1].load()
            self._not_loaded.pop()
            await asyncio.sleep(BETWEEN_HANDLERS_SECONDS)

    async def _connections(self) -> None:
        for processor in self._processors:
            processor.sweep()

    async def _pages(self) -> None:
        self._services.logs.home.files.sweep()

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
                self._complain(log.directory, error)
                log.finish_checkpoint(checkpoint, error)
        error = None
        try:
            await self._services.checkpoints.write()
        except OSError as caught:
            error = caught
        self._complain(self._services.logs.data_directory, error)

    def _complain(self, directory: str, error: OSError | None) -> None:
        """Say that checkpoints fail when they begin to; a full disk is told of elsewhere."""
        if error is None:
            self._complained.discard(directory)
        elif not self._services.logs.home.room.note(error) and directory not in self._complained:
            self._complained.add(directory)
            logger.error(
                "checkpoint of %s failed: %s. The next start has more to recover; it is tried "
                "again at every turn.",
                directory,
                error,
            )

    async def _retention(self) -> None:
        now_ms = self._services.clock.now_ms()
        for partition in self._services.partitions.all():
            try:
                partition.log.apply_retention(now_ms)
            except (OSError, StorageError) as error:
                logger.error("retention of %s failed: %s", partition.log.directory, error)
            await asyncio.sleep(0)

    async def _deletions(self) -> None:
        if self._room.look():
            await self._retention()
        # Readers of a deleted file hold it open: on a full disk the delay only delays.
        now_ms = FOREVER_MS if self._room.is_full else self._services.clock.now_ms()
        self._services.logs.purge_deleted(now_ms)
        await self._services.topics.open_offline()

    async def _metadata(self) -> None:
        keeper, pool = self._snapshots, self._services.pool
        if not self._knows_snapshots:
            await pool.run(keeper.load)
            self._knows_snapshots = True
        snapshot = keeper.begin(self._services.clock.now_ms())
        if snapshot is not None:
            error = None
            try:
                await pool.run(snapshot.run)
            except OSError as caught:
                error = caught
                if not self._services.logs.home.room.note(error):
                    logger.error("no snapshot of the metadata log: %s", error)
            keeper.finish(snapshot, error, self._services.clock.now_ms())
        while keeper.trim(self._services.clock.now_ms()):
            await pool.run(keeper.sync)

    async def _producers(self) -> None:
        now_ms = self._services.clock.now_ms()
        for partition in self._services.partitions.all():
            partition.log.expire_producers(now_ms)

    async def _groups(self) -> None:
        if self._services.has_groups:
            await self._services.groups.expire_offsets()
