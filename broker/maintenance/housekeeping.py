"""Periodic duties of the broker, each with a ticker of its own (`broker.maintenance.tickers`).

| duty | every | what |
|---|---|---|
| deadlines | 100 ms | answers commits and queued appends that are late, finds stuck fsyncs |
| connections | 1 s | ends idle connections, and those whose frame is incomplete at its deadline |
| quotas | 1 s | forgets what clients used so long ago that it counts no more |
| pages | 1 s | releases mapped pages that were sent |
| checkpoints | `barnabas.recovery.point.interval.ms` | advances and writes recovery points |
| flushes | 1 s | flushes `write.caching` logs whose `flush.ms` has passed |
| retention | `log.retention.check.interval.ms` | removes segments past age or size |
| collections | 5 s | makes full garbage collections (`broker.maintenance.full_collections`) |
| certificates | 1 s | reloads certificates whose files were replaced, if a listener has TLS |
| deletions | 1 s | checks whether the disk is full, unlinks files after `file.delete.delay.ms` |
| offline | 1 s | tries again to open logs that could not be opened, and to load their groups |
| handlers | at the start | imports the remaining handlers in a thread |
| metadata | 1 s | writes snapshots of the metadata, and trims its log |
| producers | `producer.id.expiration.check.interval.ms` | expires idle producers |
| groups | `offsets.retention.check.interval.ms` | expires offsets and removes empty groups |
| transactions | see there | those of `broker.maintenance.transaction_duties` |

A duty that fails is logged and tried again at its next turn. A log that fails stops only its own
partition. A read-only broker has only the duties deadlines, connections, pages, collections,
handlers and certificates.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Protocol

from broker.handlers import HANDLERS
from broker.maintenance.disk_room import DiskRoom
from broker.maintenance.full_collections import SECONDS as COLLECTION_SECONDS
from broker.maintenance.full_collections import FullCollections
from broker.maintenance.tickers import Tickers
from broker.maintenance.transaction_duties import TransactionDuties
from broker.metadata.snapshot_keeper import SnapshotKeeper
from broker.network.processor import Processor
from broker.partitions.warm_reads import warm
from broker.runtime import owners
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.clock import let_others_run
from broker.runtime.owners import Owner
from broker.runtime.turns import InTurns
from broker.services import Services
from storage.errors import StorageError
from storage.log import Log
from storage.trash import FOREVER_MS

logger = logging.getLogger("barnabas.housekeeping")

LOGS_PER_TURN = 500  # asked for a checkpoint, each some 2 µs if nothing has changed
DEADLINE_TICK_SECONDS = 0.1
TICK_SECONDS = 1.0


class Loadable(Protocol):
    """Modules that are imported on first use, or earlier."""

    def load(self) -> None:
        """Import them. For a thread of the pool."""


class GroupModules:
    """The modules of groups; otherwise the first group request imports them."""

    def load(self) -> None:
        """Import them."""
        import_module("broker.groups.coordinator")
        import_module("broker.groups.frozen")
        import_module("broker.groups.group_log")
        import_module("broker.groups.removal")
        import_module("broker.transactions.timeouts")


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
            services.logs.directory.filesystem,
            services.logs.directory.path,
            services.metrics,
            services.clock,
        )
        self._snapshots = SnapshotKeeper(
            services.controller.metadata_log, services.config, services.clock.now_ms()
        )
        self._knows_snapshots = False
        self._not_loaded: list[Loadable] = [*HANDLERS, GroupModules()]
        self._complained: set[str] = set()  # directories whose last checkpoint failed
        self._full_collections = FullCollections()
        self._tickers = Tickers()

    def start(self) -> None:
        """Start all tickers."""
        config = self._services.config
        tickers = self._tickers
        tickers.call(DEADLINE_TICK_SECONDS, self._deadlines)
        for duty in (self._connections, self._quotas, self._pages):
            tickers.call(TICK_SECONDS, duty)
        tickers.call(COLLECTION_SECONDS, self._collections)
        if self._services.tls is not None:
            tickers.run(TICK_SECONDS, TICK_SECONDS, self._certificates)
        # Immediately: the first request should not wait for an import, 50 ms for groups.
        tickers.run(TICK_SECONDS, 0, self._handlers)
        if not config.barnabas_read_only:
            self._start_changing()

    def _start_changing(self) -> None:
        """Start the tickers that change files."""
        config, tickers = self._services.config, self._tickers
        tickers.call(TICK_SECONDS, self._flushes)
        for seconds, duty in (
            (config.barnabas_recovery_point_interval_ms / 1000, self._checkpoints),
            (TICK_SECONDS, self._deletions),
            (TICK_SECONDS, self._offline),
            (TICK_SECONDS, self._metadata),
            (config.producer_id_expiration_check_interval_ms / 1000, self._producers),
            (config.offsets_retention_check_interval_ms / 1000, self._groups),
            *TransactionDuties(self._services).all(),
        ):
            tickers.run(seconds, seconds, duty)
        retention_seconds = config.log_retention_check_interval_ms / 1000
        first_seconds = min(retention_seconds, config.log_initial_task_delay_ms / 1000)
        tickers.run(retention_seconds, first_seconds, self._retention)

    @property
    def is_resting(self) -> bool:
        """Whether no duty runs."""
        return self._tickers.are_resting

    async def stop(self) -> None:
        """Stop all tickers; one that is at work finishes first, but begins no further log."""
        await self._tickers.stop()

    def _deadlines(self) -> None:
        self._services.commit.sweep()
        self._services.appends.sweep()

    async def _handlers(self) -> None:
        if not self._not_loaded:
            return
        # A thread of its own: a stop in haste asks whether the pool waits for the disk.
        executor = self._services.executor(1, "imports")
        imports = BlockingPool(executor, asyncio.get_running_loop())
        try:
            await imports.run(self._load)
        finally:
            imports.close()

    def _load(self) -> None:
        """Import what is left, in a thread; a stop need not wait for more than one of them."""
        while self._not_loaded and not self._tickers.is_stopping:
            self._not_loaded[-1].load()
            self._not_loaded.pop()
            let_others_run()

    def _connections(self) -> None:
        for processor in self._processors:
            processor.sweep()

    def _quotas(self) -> None:
        self._services.limits.expire()
        self._services.quotas.expire()

    def _pages(self) -> None:
        self._services.logs.home.files.sweep()

    def _collections(self) -> None:
        self._full_collections.look()

    async def _certificates(self) -> None:
        if self._services.tls is not None:
            await self._services.tls.look()

    def _flushes(self) -> None:
        now_ms = self._services.clock.now_ms()
        for partition in self._services.partitions.all():
            if partition.log.write_caching and partition.log.flush_due(now_ms):
                self._services.commit.flush_now(partition)

    async def _checkpoints(self) -> None:
        async for log in InTurns(self._services.logs.all(), LOGS_PER_TURN):
            if self._tickers.is_stopping:  # closing the logs writes all that is left
                return
            try:
                await self._checkpoint(log)
            except Exception as unforeseen:  # of this log: go on with the others
                owners.failed(Owner.TICKER, unforeseen, f"the checkpoint of {log!r}")
        error = None
        try:
            await self._services.checkpoints.write()
        except OSError as caught:
            error = caught
        self._complain(self._services.logs.directory.path, error)

    async def write_checkpoints(self) -> None:
        """Write the recovery points of all logs now."""
        await self._checkpoints()

    async def _checkpoint(self, log: Log) -> None:
        checkpoint = log.begin_checkpoint()
        if checkpoint is None:
            return
        error: Exception | None = None
        try:
            await self._services.pool.run(checkpoint.run)
        except OSError as caught:
            self._complain(log.directory, caught)
            error = caught
        except Exception as caught:
            owners.failed(Owner.TICKER, caught, f"the checkpoint of {log!r}")
            error = caught
        else:
            self._complain(log.directory, None)
        log.finish_checkpoint(checkpoint, error)

    def _complain(self, directory: str, error: OSError | None) -> None:
        """Log that checkpoints fail when they begin to; `disk_room` logs a full disk."""
        if error is None:
            self._complained.discard(directory)
        elif not self._services.logs.home.room.note(error) and directory not in self._complained:
            self._complained.add(directory)
            logger.error(
                "checkpoint of %(directory)s failed, will retry: %(error)s. Until it succeeds, the"
                " next start has more to recover.",
                {"directory": directory, "error": error},
            )

    async def _retention(self) -> None:
        services, now_ms = self._services, self._services.clock.now_ms()
        due: list[Log] = []
        for partition in services.partitions.all():
            if self._tickers.is_stopping:
                return
            with _contained(partition.log):
                if await self._retain(partition.log, now_ms):
                    due.append(partition.log)
            await asyncio.sleep(0)
        if not due:
            return
        is_written = await services.starts.write()
        for log in due:
            if self._tickers.is_stopping:
                return
            with _contained(log):
                await services.starts.delete_segments(log, now_ms, sync=not is_written)

    async def _retain(self, log: Log, now_ms: int) -> bool:
        pool = self._services.pool
        # Reading timestamps reads files; do it in a thread before the loop decides.
        await warm(pool, log.load_end)
        await warm(pool, partial(log.segments_to_delete, now_ms))
        return log.apply_retention(now_ms)

    async def _deletions(self) -> None:
        if self._room.must_ask:
            await self._services.pool.run(self._room.ask)
        if self._room.look():
            await self._retention()
        # Readers of a deleted file hold it open: on a full disk the delay only delays.
        now_ms = FOREVER_MS if self._room.is_full else self._services.clock.now_ms()
        purge = self._services.logs.home.trash.begin_purge(now_ms)
        if purge is not None:
            await self._services.pool.run(purge.run)
            self._services.logs.finish_purge(purge)

    async def _offline(self) -> None:
        await self._services.topics.open_offline()
        if self._services.has_groups:
            self._services.groups.look_again()
        if self._services.has_transactions:
            self._services.transactions.look_again()

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
                    logger.error(
                        "cannot write a metadata snapshot, will retry: %(error)s", {"error": error}
                    )
            keeper.finish(snapshot, error, self._services.clock.now_ms())
        while keeper.trim(self._services.clock.now_ms()):
            await pool.run(keeper.sync)

    async def _producers(self) -> None:
        now_ms = self._services.clock.now_ms()
        for partition in self._services.partitions.all():
            for _ in partition.log.expire_producers(now_ms):
                await asyncio.sleep(0)

    async def _groups(self) -> None:
        if self._services.has_groups:
            from broker.groups.removal import expire_offsets

            await expire_offsets(self._services.groups)


@contextmanager
def _contained(log: Log) -> Iterator[None]:
    """Keep what fails in the retention of one log from the others."""
    try:
        yield
    except (OSError, StorageError) as error:
        logger.error(
            "retention of %(directory)s failed: %(error)s",
            {"directory": log.directory, "error": error},
        )
    except Exception as error:
        owners.failed(Owner.TICKER, error, f"retention of {log!r}")
