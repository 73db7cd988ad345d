"""Appends in the order they came, inline while the disk keeps up, queued when it does not.

A produce request appends before its handler returns: a write into the page cache takes some
microseconds. Two things would make that write wait for the disk and stop the whole loop: more dirty
pages than the kernel tolerates, and a journal commit that does not end. So appends are queued while
more than `barnabas.unflushed.bytes.max` bytes are unflushed, or while a flush of the log is older
than `barnabas.flush.stall.ms`. They go on when a flush ends. A queued request keeps its share of
the request budget and its place in its connection, which stops its producer. A request that has
waited for its whole timeout is refused, and its batch is not in the log.

A batch that must be checked or recompressed first (`broker.partitions.prepared_batches`) is queued,
too. The batches behind it wait, so a producer's batches stay in order however long each one takes.
While a thread reads a batch, its request is not answered: the answer gives the memory to the next
frame.

The first append to a log after the start needs the last batches of the log (`Log.load_end`). If
these are not in memory, the append waits in the queue until a thread has loaded them.

A marker, which ends a transaction, has its place among the batches like any other, but no deadline.

Order: once an append is queued for a partition, all later ones queue behind it. `write.caching`
topics are not gated, since they trust the page cache by definition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from broker.error_mapping import BatchRefused
from broker.partitions.group_commit import GroupCommit
from broker.partitions.partition import AppendOutcome, Partition, QueuedAppend
from broker.partitions.prepared_batches import PreparedBatches
from broker.partitions.warm_reads import when_warm
from broker.runtime import owners
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.clock import MS_NS, Clock
from broker.runtime.metrics import Metrics
from broker.runtime.owners import Owner
from broker.runtime.record_work import RecordWork
from protocol.control_records import Marker
from protocol.record_errors import RecordError
from storage.errors import AppendTimedOut, StorageError
from storage.log import Appended
from storage.log_manager import LogManager

# A drain yields to the loop after so many bytes (a MiB is written in half a millisecond). An append
# counts as at least APPEND_BYTES_MIN, since it costs more than writing its bytes.
STEP_BYTES_MAX = 4 * 1024 * 1024
APPEND_BYTES_MIN = 16 * 1024
NEVER_NS = 1 << 63  # the deadline of a marker: what it ends waits for it
_NOTHING = memoryview(b"")


class AppendQueue:
    """Lets appends through, or queues them."""

    def __init__(
        self,
        logs: LogManager,
        commit: GroupCommit,
        record_work: RecordWork,
        unflushed_bytes_max: int,
        flush_stall_ms: int,
        metrics: Metrics,
        clock: Clock,
        pool: BlockingPool,
    ) -> None:
        self._logs = logs
        self._commit = commit
        self._prepared = PreparedBatches(record_work, lambda partition: self._drain((partition,)))
        self._unflushed_bytes_max = unflushed_bytes_max
        self._flush_stall_ns = flush_stall_ms * MS_NS
        self._metrics = metrics
        self._clock = clock
        self.queued: dict[Partition, None] = {}  # which have batches that wait
        self._to_look_at: dict[Partition, None] = {}  # by the current drain, in turn
        self._draining = False
        self._pool = pool
        self._loading: set[Partition] = set()  # their `Log.load_end` is running

    @property
    def prepared_bytes(self) -> int:
        """The memory of prepared batches that wait for their turn."""
        return self._prepared.held_bytes

    def has_turn(self, partition: Partition) -> bool:
        """Whether a batch may be appended to `partition` now; if not, it must be queued."""
        return not (partition.queue or self._must_wait(partition)) and (
            partition.log.is_end_loaded or self._load_end(partition)
        )

    def append(
        self, partition: Partition, batch: memoryview, now_ms: int, transaction: int = 0
    ) -> Appended:
        """Append now, and return the offsets; the caller has checked `has_turn`.

        `transaction`, and what is raised: as for `Log.append`.
        """
        appended = partition.log.append(batch, now_ms, transaction)
        if not appended.is_duplicate:
            self._commit.appended(partition)
        return appended

    def append_marker(
        self,
        partition: Partition,
        marker: Marker,
        done: Callable[[AppendOutcome], None],
        check: Callable[[], None] | None = None,
    ) -> None:
        """Append the end of a transaction when it has its turn, however late; then call `done`.

        `check` comes first, in that turn; its StorageError or BatchRefused is the outcome.
        """

        def append(_: memoryview, now_ms: int) -> Appended:
            if check is not None:
                check()
            appended = partition.log.append_marker(marker, now_ms)
            self._commit.appended(partition)
            return appended

        queued = QueuedAppend(_NOTHING, NEVER_NS, done, append)
        if self.has_turn(partition):
            self._append_now(queued)
        else:
            self._enqueue(partition, queued)

    def queue(
        self,
        partition: Partition,
        batch: memoryview,
        timeout_ms: int,
        done: Callable[[AppendOutcome], None],
        prepare: Callable[[], memoryview] | None = None,
        client: object = None,
        append: Callable[[memoryview, int], Appended] | None = None,
    ) -> None:
        """Append when the batch has its turn, and call `done` with the outcome.

        The outcome is AppendTimedOut after `timeout_ms`. With `prepare`, a thread calls it first,
        and its result is appended in place of `batch`. `client` identifies the sender: clients
        that have batches to prepare take turns. `append`, if given, decides at the batch's turn
        whether it is appended, and does so.
        """
        deadline_ns = self._clock.monotonic_ns() + max(timeout_ms, 0) * MS_NS
        queued = QueuedAppend(
            batch, deadline_ns, done, append or partial(self.append, partition), prepare, client
        )
        self._enqueue(partition, queued)
        self._prepared.begin(partition, queued)

    def _enqueue(self, partition: Partition, queued: QueuedAppend) -> None:
        partition.queue.append(queued)
        self.queued[partition] = None
        self._metrics.appends_queued += 1
        self._metrics.appends_queued_now += 1

    def drain(self) -> None:
        """Let queued appends through as far as the disk has caught up. Called after each flush."""
        self._drain(self.queued)

    def _drain(self, partitions: Iterable[Partition]) -> None:
        """Look at `partitions`, one append of each in turn.

        An append or its answer may call for another drain, since a `write.caching` log advances at
        once. The inner drain only adds partitions to those that the outer one looks at.
        """
        to_look_at = self._to_look_at
        to_look_at.update(dict.fromkeys(partitions))
        if self._draining or not to_look_at:
            return
        self._draining = True
        bytes_left = STEP_BYTES_MAX
        try:
            while to_look_at:
                partition = next(iter(to_look_at))
                del to_look_at[partition]
                if not self._has_next(partition):
                    continue
                if bytes_left <= 0:
                    to_look_at[partition] = None
                    break
                queued = partition.queue.popleft()
                bytes_left -= APPEND_BYTES_MIN + len(queued.batch or b"")
                if partition.queue:
                    to_look_at[partition] = None
                else:
                    self.queued.pop(partition, None)
                self._metrics.appends_queued_now -= 1
                self._prepared.let_go(queued)
                self._append_now(queued)
        finally:
            self._draining = False
        if to_look_at:  # no other drain starts before `_go_on`
            self._draining = True
            owners.soon(Owner.APPEND, self._go_on)

    def _go_on(self) -> None:
        self._draining = False
        self._drain(())

    def _has_next(self, partition: Partition) -> bool:
        queue = partition.queue
        if not queue or self._must_wait(partition):
            return False
        if not queue[0].is_ready:
            self._prepared.begin(partition, queue[0])  # again, if it was dropped
            return False
        return partition.log.is_end_loaded or self._load_end(partition)

    def _load_end(self, partition: Partition) -> bool:
        """Have the log load what its first append needs; return whether it already has."""
        if partition not in self._loading:
            self._loading.add(partition)
            loaded = partial(self._end_loaded, partition)
            when_warm(self._pool, Owner.APPEND, partition.log.load_end, loaded)
        return partition.log.is_end_loaded

    def _end_loaded(self, partition: Partition, error: Exception | None) -> None:
        self._loading.discard(partition)
        if error is None:
            self._drain((partition,))
        else:
            # In the next turn, so that the append that is about to be queued is dropped too.
            owners.soon(Owner.APPEND, self.drop, partition, error)

    def sweep(self) -> None:
        """Refuse the appends that have waited too long, then let others through."""
        now_ns = self._clock.monotonic_ns()
        for partition in tuple(self.queued):
            late = [queued for queued in partition.queue if queued.deadline_ns <= now_ns]
            if not late:
                continue
            partition.queue = deque(
                queued for queued in partition.queue if queued.deadline_ns > now_ns
            )
            for queued in late:
                self._metrics.appends_timed_out += 1
                self._refuse(queued, AppendTimedOut(partition.log.directory))
            if not partition.queue:
                self.queued.pop(partition, None)
        self.drain()

    def drop(self, partition: Partition, error: Exception) -> None:
        """Refuse everything queued for a partition that is being removed."""
        self.queued.pop(partition, None)
        while partition.queue:
            self._refuse(partition.queue.popleft(), error)

    def _refuse(self, queued: QueuedAppend, error: Exception) -> None:
        self._metrics.appends_queued_now -= 1
        self._prepared.let_go(queued)
        if queued.walk is None or queued.walk.withdraw():
            queued.tell(error)
        else:
            queued.refusal = error

    def _append_now(self, queued: QueuedAppend) -> None:
        outcome: AppendOutcome
        if queued.batch is None:
            assert queued.failure is not None, "only what is ready is appended"
            outcome = queued.failure
        else:
            try:
                outcome = queued.append(queued.batch, self._clock.now_ms())
            except (StorageError, RecordError, BatchRefused) as error:
                outcome = error
            except Exception as error:  # it is answered, and the batches behind it are appended
                owners.failed(Owner.APPEND, error)
                outcome = error
        queued.tell(outcome)

    def _must_wait(self, partition: Partition) -> bool:
        if partition.log.write_caching or partition.log.failed is not None:
            return False
        if self._logs.unflushed_bytes > self._unflushed_bytes_max:
            return True
        started_ns = partition.flush_started_ns
        return started_ns > 0 and (self._clock.monotonic_ns() - started_ns > self._flush_stall_ns)
