"""Appends in the order they came, inline while the disk keeps up, queued when it does not.

A produce request appends before its handler returns: into the page cache, some microseconds. Two
things would make that wait for the disk and with it the whole loop: more dirty pages than the
kernel tolerates, and a journal commit that does not end. So above `barnabas.unflushed.bytes.max`
unflushed bytes, or while a flush of that log is older than `barnabas.flush.stall.ms`, appends
take their place in the partition's queue, and go on when a flush has ended. A queued request
holds its bytes of the request budget and its place in its connection: that stops its producer. One
that has waited for as long as its request allows is refused, and is not in the log.

A batch that must be packed anew first (`broker.recompression`) takes its place too, and the ones
behind it wait for it, so that a producer's batches stay in order whatever each of them takes.

Order: once something is queued for a partition, everything after it queues behind it.
`write.caching` topics are not gated; they trust the page cache, as they say.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.blocking_pool import BlockingPool
from broker.clock import MS_NS, Clock
from broker.group_commit import GroupCommit
from broker.metrics import Metrics
from broker.partition import Partition
from protocol.record_errors import InvalidRecord, RecordError
from storage.errors import AppendTimedOut, StorageError
from storage.log import Appended
from storage.log_manager import LogManager

logger = logging.getLogger("barnabas.storage")

Outcome = Appended | StorageError | RecordError


class QueuedAppend:
    """A batch that waits for its turn, and who is told."""

    __slots__ = ("batch", "deadline_ns", "done", "failure")

    def __init__(
        self, batch: memoryview | None, deadline_ns: int, done: Callable[[Outcome], None]
    ) -> None:
        self.batch = batch  # None: a thread is about to make it
        self.deadline_ns = deadline_ns
        self.done = done
        self.failure: RecordError | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the batch is there, or is known not to come."""
        return self.batch is not None or self.failure is not None


class AppendQueue:
    """Lets appends through, or keeps them in line."""

    def __init__(
        self,
        logs: LogManager,
        commit: GroupCommit,
        pool: BlockingPool,
        unflushed_bytes_max: int,
        flush_stall_ms: int,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._logs = logs
        self._commit = commit
        self._pool = pool
        self._unflushed_bytes_max = unflushed_bytes_max
        self._flush_stall_ns = flush_stall_ms * MS_NS
        self._metrics = metrics
        self._clock = clock
        self._queued: dict[Partition, None] = {}

    def has_turn(self, partition: Partition) -> bool:
        """Whether a batch may be appended to `partition` now; else it takes its place in line."""
        return not (partition.queue or self._must_wait(partition))

    def append(self, partition: Partition, batch: memoryview, now_ms: int) -> Appended:
        """Append now, which is `partition`'s turn, and return where.

        Raises what `Log.append` raises.
        """
        appended = partition.log.append(batch, now_ms)
        if not appended.is_duplicate:
            self._commit.appended(partition)
        return appended

    def queue(
        self,
        partition: Partition,
        batch: memoryview,
        timeout_ms: int,
        done: Callable[[Outcome], None],
        prepare: Callable[[], memoryview] | None = None,
    ) -> None:
        """Append when it is its turn, and call `done`; after `timeout_ms` with AppendTimedOut.

        With `prepare`, which a thread calls, what it returns takes the place of `batch`.
        """
        deadline_ns = self._clock.monotonic_ns() + max(timeout_ms, 0) * MS_NS
        queued = QueuedAppend(batch if prepare is None else None, deadline_ns, done)
        partition.queue.append(queued)
        if prepare is not None:
            self._prepare(queued, prepare)
        self._queued[partition] = None
        self._metrics.appends_queued += 1
        self._metrics.appends_queued_now += 1

    def _prepare(self, queued: QueuedAppend, prepare: Callable[[], memoryview]) -> None:
        made: list[memoryview] = []

        def ended(error: BaseException | None) -> None:
            if error is None:
                queued.batch = made[0]
            elif isinstance(error, RecordError):
                queued.failure = error
            else:
                logger.error("a batch could not be packed anew", exc_info=error)
                queued.failure = InvalidRecord(f"The batch cannot be packed anew: {error!r}")
            self.drain()

        self._pool.submit(lambda: made.append(prepare()), ended)

    def drain(self) -> None:
        """Let queued appends through, as far as the disk has caught up; after each flush."""
        for partition in tuple(self._queued):
            while (
                partition.queue and partition.queue[0].is_ready and not self._must_wait(partition)
            ):
                self._append_queued(partition, partition.queue.popleft())
            if not partition.queue:
                del self._queued[partition]

    def sweep(self) -> None:
        """Refuse what has waited too long, then let through what may."""
        now_ns = self._clock.monotonic_ns()
        for partition in tuple(self._queued):
            late = [queued for queued in partition.queue if queued.deadline_ns <= now_ns]
            for queued in late:
                partition.queue.remove(queued)
                self._metrics.appends_queued_now -= 1
                self._metrics.appends_timed_out += 1
                queued.done(AppendTimedOut(partition.log.directory))
        self.drain()

    def drop(self, partition: Partition, error: StorageError) -> None:
        """Refuse everything queued for a partition that goes away."""
        self._queued.pop(partition, None)
        while partition.queue:
            self._metrics.appends_queued_now -= 1
            partition.queue.popleft().done(error)

    def _append_queued(self, partition: Partition, queued: QueuedAppend) -> None:
        self._metrics.appends_queued_now -= 1
        if queued.batch is None:
            assert queued.failure is not None, "only what is ready is appended"
            queued.done(queued.failure)
            return
        try:
            appended = self.append(partition, queued.batch, self._clock.now_ms())
        except (StorageError, RecordError) as error:
            queued.done(error)
            return
        queued.done(appended)

    def _must_wait(self, partition: Partition) -> bool:
        if partition.log.write_caching or partition.log.failed is not None:
            return False
        if self._logs.unflushed_bytes > self._unflushed_bytes_max:
            return True
        started_ns = partition.flush_started_ns
        return started_ns > 0 and (self._clock.monotonic_ns() - started_ns > self._flush_stall_ns)
