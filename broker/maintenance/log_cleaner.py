"""Schedule compaction: choose the next log, and run its pass in threads of its own.

Up to log.cleaner.threads passes run at a time, each over the dirtiest log that is dirty enough
(`storage.compaction.cleanable`). If there is none, the cleaner waits log.cleaner.backoff.ms. A pass
belongs to the loop: its steps run there, and the slow jobs that they yield run in a thread.

| a pass ends with | what follows |
|---|---|
| nothing left to clean | the next log; the cleaned offset goes into `cleaner-offset-checkpoint` |
| the log closed or failed meanwhile, the broker stopping | nothing: a later pass starts over |
| no space, no descriptors | a WARNING; the log is tried again after a backoff |
| damage in the log, another error | an ERROR; the log is left as it is until the broker restarts |
"""

from __future__ import annotations

import asyncio
import errno
import logging
from functools import partial

from broker.maintenance.cleaner_pace import CleanerPace
from broker.partitions.warm_reads import warm
from broker.runtime import owners
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.clock import MS_NS, SECOND_NS
from broker.runtime.owners import Owner
from broker.services import Services
from protocol.record_errors import RecordError
from storage.compaction.cleanable import find_cleanable
from storage.compaction.key_map import SALT_BYTES
from storage.compaction.one_pass import CompactionAborted, PassLimits, PassResult, Steps, compact
from storage.errors import LogFailed, StorageError
from storage.files.room import PASSING
from storage.log import Log

logger = logging.getLogger("barnabas.compaction")

THREADS_MAX = 64  # of the pool; created on demand
LOGS_PER_TURN = 100  # looked at, each some 10 µs, or more if it has many segments
SOON_SECONDS = 0.01
MAP_BYTES_MAX = 2**31 - 1  # for the keys of one pass, as in Kafka
MIB = 1024 * 1024

Key = tuple[str, int]


class LogCleaner:
    """The passes of one broker."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._pool = BlockingPool(
            services.executor(THREADS_MAX, "cleaner"), asyncio.get_running_loop()
        )
        self._pace = CleanerPace(
            services.clock, lambda: services.config.log_cleaner_io_max_bytes_per_second
        )
        self._passes: dict[Key, asyncio.Task[None]] = {}
        self._uncleanable: dict[Key, Log] = {}
        self._resting: dict[Key, int] = {}  # until when, by the monotonic clock
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.rests = 0  # how often it has found nothing to clean

    def start(self) -> None:
        """Start, unless log.cleaner.enable is false or the directory is served read-only."""
        config = self._services.config
        if config.log_cleaner_enable and not config.barnabas_read_only:
            self._task = owners.spawn(Owner.COMPACTION, self._run(), "log cleaner")

    async def stop(self) -> None:
        """Stop all passes at their next step; their logs stay intact."""
        self._stopping.set()
        self._pace.stop()
        if self._task is not None:
            await self._task
        await asyncio.gather(*self._passes.values())
        self._pool.close()

    async def _run(self) -> None:
        stopping = owners.spawn(Owner.COMPACTION, self._stopping.wait())
        while not self._stopping.is_set():
            try:
                await self._begin_passes()
            except Exception as error:  # retried after the backoff
                owners.failed(Owner.COMPACTION, error, "looking for logs to compact")
            self.rests += not self._passes
            await asyncio.wait(
                [stopping, *self._passes.values()],
                timeout=max(self._services.config.log_cleaner_backoff_ms / 1000, SOON_SECONDS),
                return_when=asyncio.FIRST_COMPLETED,
            )
            self._passes = {key: task for key, task in self._passes.items() if not task.done()}

    async def _begin_passes(self) -> None:
        config = self._services.config
        left = self._uncleanable.items()
        self._uncleanable = {key: log for key, log in left if not log.lease.is_over}
        self._count()
        while len(self._passes) < min(config.log_cleaner_threads, THREADS_MAX):
            log = await self._filthiest()
            if log is None:
                return
            task = owners.spawn(Owner.COMPACTION, self._clean(log), f"compaction of {log!r}")
            self._passes[log.topic, log.partition] = task

    async def _filthiest(self) -> Log | None:
        """The log with the largest dirty part of those that are worth a pass."""
        now_ms = self._services.clock.now_ms()
        best: Log | None = None
        best_ratio = -1.0
        looked_at = 0
        for partition in self._services.partitions.all():
            log = partition.log
            if "compact" not in log.config.cleanup_policy or not self._may_clean(log):
                continue
            looked_at += 1
            if not looked_at % LOGS_PER_TURN:
                await asyncio.sleep(0)
            try:
                cleanable = await warm(self._services.pool, partial(find_cleanable, log, now_ms))
            except (StorageError, OSError) as error:
                if log.failed is None:  # it may have been closed in the meantime
                    self._give_up(log, error)
                continue
            if cleanable.ratio > best_ratio and cleanable.is_worth_it(
                log.config.min_cleanable_dirty_ratio
            ):
                best, best_ratio = log, cleanable.ratio
        return best

    def _may_clean(self, log: Log) -> bool:
        key = (log.topic, log.partition)
        return (
            log.failed is None
            and not log.segments.held
            and key not in self._passes
            and self._uncleanable.get(key) is not log
            and self._resting.get(key, 0) <= self._services.clock.monotonic_ns()
        )

    async def _clean(self, log: Log) -> None:
        """Run one pass and log its result."""
        started_ns = self._services.clock.monotonic_ns()
        try:
            # Recovery must not look at what the pass relies on being durable: persist the points.
            # And a start must know that there may be holes.
            recovery_point = log.recovery_point
            log.home.checkpoint_changes += log.segments.cleaned.begin()
            await self._services.checkpoints.write()
            if log.failed is not None:
                return
            now_ms = self._services.clock.now_ms()
            cleanable = await warm(
                self._services.pool, partial(find_cleanable, log, now_ms, recovery_point)
            )
            if not cleanable.dirty_bytes:
                return  # its dirty records were deleted meanwhile
            result = await self._drive(compact(log, cleanable, self._limits(), now_ms))
        except CompactionAborted as reason:
            logger.debug("compaction of %(log)s ended: %(reason)s", {"log": log, "reason": reason})
        except (StorageError, RecordError, OSError) as error:
            self._failed(log, error)
        except Exception as error:
            owners.failed(Owner.COMPACTION, error, f"compaction of {log!r}")
            self._give_up(log, error)
        else:
            seconds = (self._services.clock.monotonic_ns() - started_ns) / SECOND_NS
            _report(log, result, seconds)

    async def _drive(self, steps: Steps) -> PassResult:
        """Take the steps of a pass here, and run the jobs that they yield in a thread."""
        error: Exception | None = None
        while True:
            try:
                job = next(steps) if error is None else steps.throw(error)
            except StopIteration as end:
                result: PassResult = end.value
                return result
            error = None
            if job is None:
                await asyncio.sleep(SOON_SECONDS)
                continue
            try:
                await self._pool.run(job)
            except Exception as caught:  # the pass undoes its work and raises again
                error = caught

    def _limits(self) -> PassLimits:
        config = self._services.config
        map_bytes_max = config.log_cleaner_dedupe_buffer_size // config.log_cleaner_threads
        return PassLimits(
            map_bytes_max=min(map_bytes_max, MAP_BYTES_MAX),
            map_load_factor=config.log_cleaner_io_buffer_load_factor,
            decompressed_bytes_max=config.barnabas_decompressed_bytes_max,
            salt=self._services.random_bytes(SALT_BYTES),
            proceed=self._pace.breath(),
        )

    def _failed(self, log: Log, error: Exception) -> None:
        if log.failed is not None:  # closed with its topic, or already logged
            return
        cause = error.__cause__ if isinstance(error, LogFailed) else error
        if not isinstance(cause, OSError) or cause.errno not in PASSING:
            self._give_up(log, error)
            return
        log.home.room.note(cause)
        backoff_ns = max(1000, self._services.config.log_cleaner_backoff_ms) * MS_NS
        self._resting[log.topic, log.partition] = self._services.clock.monotonic_ns() + backoff_ns
        logger.warning(
            "cannot compact %(topic)s-%(partition)d now, will retry: %(error)s (%(errno)s)",
            {
                "topic": log.topic,
                "partition": log.partition,
                "error": error,
                "errno": errno.errorcode.get(cause.errno or 0, "?"),
            },
        )

    def _give_up(self, log: Log, error: Exception) -> None:
        """Exclude a log from cleaning from now on."""
        self._uncleanable[log.topic, log.partition] = log
        self._count()
        logger.error(
            "Unexpected exception thrown when cleaning log %(topic)s-%(partition)d. Marking its"
            " partition as uncleanable: %(error)s. The broker serves it as it is, and compacts it"
            " again only after a restart; `barnabas verify` shows what is damaged.",
            {"topic": log.topic, "partition": log.partition, "error": error},
        )

    def _count(self) -> None:
        self._services.metrics.partitions_uncleanable_now = len(self._uncleanable)


def _report(log: Log, result: PassResult, seconds: float) -> None:
    counts = result.counts
    logger.info(
        "compacted %(topic)s-%(partition)d (dirty section [%(start_offset)d, %(end_offset)d)): "
        "%(mib_before).1f MiB in %(segments_before)d segments to %(mib_after).1f MiB in "
        "%(segments_after)d, %(records_kept)d of %(records_read)d records kept, %(keys)d keys in a "
        "map of %(map_mib).1f MiB, %(seconds).1f s",
        {
            "topic": log.topic,
            "partition": log.partition,
            "start_offset": result.start_offset,
            "end_offset": result.end_offset,
            "mib_before": counts.bytes_read / MIB,
            "segments_before": result.segments_before,
            "mib_after": counts.bytes_written / MIB,
            "segments_after": result.segments_after,
            "records_kept": counts.records_kept,
            "records_read": counts.records_read,
            "keys": result.keys,
            "map_mib": result.map_bytes / MIB,
            "seconds": seconds,
        },
    )
