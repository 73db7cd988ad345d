"""Appends in the order they came, inline while the disk keeps up, queued when it does not.

A produce request appends before its handler returns: into the page cache, some microseconds. Two
things would make that wait for the disk and with it the whole loop: more dirty pages than the
kernel tolerates, and a journal commit that does not end. So above `barnabas.unflushed.bytes.max`
unflushed bytes, or while a flush of that log is older than `barnabas.flush.stall.ms`, appends
take their place in the partition's queue, and go on when a flush has ended. A queued request
holds its bytes of the request budget and its place in its connection: that stops its producer.

Order: once something is queued for a partition, everything after it queues behind it.
`write.caching` topics are not gated; they trust the page cache, as they say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from broker.clock import MS_NS, Clock
from broker.group_commit import GroupCommit
from broker.metrics import Metrics
from broker.partition import Partition
from protocol.record_errors import RecordError
from storage.errors import StorageError
from storage.log import Appended
from storage.log_manager import LogManager

Outcome = Appended | StorageError | RecordError


class QueuedAppend(NamedTuple):
    """A batch that waits for its turn, and who is told."""

    batch: memoryview
    done: Callable[[Outcome], None]


class AppendQueue:
    """Lets appends through, or keeps them in line."""

    def __init__(
        self,
        logs: LogManager,
        commit: GroupCommit,
        unflushed_bytes_max: int,
        flush_stall_ms: int,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._logs = logs
        self._commit = commit
        self._unflushed_bytes_max = unflushed_bytes_max
        self._flush_stall_ns = flush_stall_ms * MS_NS
        self._metrics = metrics
        self._clock = clock
        self._queued: dict[Partition, None] = {}

    def append(
        self,
        partition: Partition,
        batch: memoryview,
        now_ms: int,
        done: Callable[[Outcome], None],
    ) -> Appended | None:
        """Append now and return where; or queue, return None, and call `done` later.

        Raises what `Log.append` raises when it is done now.
        """
        if partition.queue or self._must_wait(partition):
            partition.queue.append(QueuedAppend(batch, done))
            self._queued[partition] = None
            self._metrics.appends_queued += 1
            self._metrics.appends_queued_now += 1
            return None
        appended = partition.log.append(batch, now_ms)
        if not appended.is_duplicate:
            self._commit.appended(partition)
        return appended

    def drain(self) -> None:
        """Let queued appends through, as far as the disk has caught up; after each flush."""
        for partition in tuple(self._queued):
            while partition.queue and not self._must_wait(partition):
                self._append_queued(partition, partition.queue.popleft())
            if not partition.queue:
                del self._queued[partition]

    def drop(self, partition: Partition, error: StorageError) -> None:
        """Refuse everything queued for a partition that goes away."""
        self._queued.pop(partition, None)
        while partition.queue:
            self._metrics.appends_queued_now -= 1
            partition.queue.popleft().done(error)

    def _append_queued(self, partition: Partition, queued: QueuedAppend) -> None:
        self._metrics.appends_queued_now -= 1
        try:
            appended = partition.log.append(queued.batch, self._clock.now_ms())
        except (StorageError, RecordError) as error:
            queued.done(error)
            return
        if not appended.is_duplicate:
            self._commit.appended(partition)
        queued.done(appended)

    def _must_wait(self, partition: Partition) -> bool:
        if partition.log.write_caching or partition.log.failed is not None:
            return False
        if self._logs.unflushed_bytes > self._unflushed_bytes_max:
            return True
        started_ns = partition.flush_started_ns
        return started_ns > 0 and (self._clock.monotonic_ns() - started_ns > self._flush_stall_ns)
