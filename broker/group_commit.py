"""Group commit: one fsync acknowledges everyone who waited when it began.

Per partition one flush runs at a time, in the pool; its end moves the durable end of the log and
with it the high watermark, answers the producers with acks=all whose records it covered, and
wakes fetches. Whatever was appended meanwhile is the next flush's.

- Someone waits (acks=all, a parked fetch): the next flush begins at the end of this turn of the
  loop, so that everything the turn appended is in it.
- Nobody waits (acks 0 and 1): it begins `IDLE_LINGER_SECONDS` later, which costs a reader who is
  not there nothing and saves most of the fsyncs.
- `write.caching` topics: records are visible and acknowledged from the page cache, as in Apache
  Kafka's defaults; they are flushed by `flush.messages`, `flush.ms`, rolls and at the stop.

A failed fsync is terminal for its log (docs/design.md, "What an acknowledgement means"): never
retried, every waiter gets KAFKA_STORAGE_ERROR. Waiters have deadlines (I9), swept, not timed one
by one: a deadline passes only when a disk is stuck, and then a tick of accuracy is enough.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from broker.blocking_pool import BlockingPool
from broker.clock import MS_NS, Clock
from broker.metrics import Metrics
from broker.partition import Partition
from protocol.errors import ErrorCode
from storage.flush import Flush

logger = logging.getLogger("barnabas.storage")

# Long enough for a stream of small acks=1 requests to share an fsync, short enough that a
# consumer arriving now finds records of two milliseconds ago.
IDLE_LINGER_SECONDS = 0.002


class CommitWaiter(NamedTuple):
    """Someone who is answered when the log is durable up to `end_offset`."""

    end_offset: int
    deadline_ns: int
    answer: Callable[[ErrorCode], None]


class GroupCommit:
    """Flushes logs and answers who waited for it."""

    def __init__(
        self,
        pool: BlockingPool,
        advanced: Callable[[Partition], None],
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._pool = pool
        self._advanced = advanced  # the high watermark has moved, or the log has failed
        self._metrics = metrics
        self._clock = clock
        self._waiting: set[Partition] = set()
        self._idle: asyncio.Event = asyncio.Event()
        self._running = 0

    def appended(self, partition: Partition) -> None:
        """Note that `partition` has more to make durable, and see to it."""
        log = partition.log
        if log.write_caching:
            if log.flush_due():
                self._schedule(partition, urgent=False)
            self._advanced(partition)
        else:
            self._schedule(partition, urgent=bool(partition.watchers))

    def wait(
        self,
        partition: Partition,
        end_offset: int,
        timeout_ms: int,
        answer: Callable[[ErrorCode], None],
    ) -> None:
        """Call `answer(code)` once `partition` is durable up to `end_offset`, or cannot be.

        The code is NONE, KAFKA_STORAGE_ERROR, or after `timeout_ms` REQUEST_TIMED_OUT.
        """
        log = partition.log
        if log.high_watermark >= end_offset:
            answer(ErrorCode.NONE)
        elif log.failed is not None:
            answer(ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            deadline_ns = self._clock.monotonic_ns() + max(timeout_ms, 0) * MS_NS
            partition.waiters.append(CommitWaiter(end_offset, deadline_ns, answer))
            self._waiting.add(partition)
            self._schedule(partition, urgent=True)

    async def durable(self, partition: Partition, end_offset: int, timeout_ms: int) -> ErrorCode:
        """Wait for durability as a coroutine; see `wait`."""
        future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def answer(code: ErrorCode) -> None:
            if not future.done():
                future.set_result(code)

        self.wait(partition, end_offset, timeout_ms, answer)
        return await future

    def flush_now(self, partition: Partition) -> None:
        """Begin a flush soon, whoever waits: used by the tickers and at the stop."""
        self._schedule(partition, urgent=True)

    def sweep(self) -> None:
        """Answer REQUEST_TIMED_OUT to everyone whose deadline has passed."""
        now_ns = self._clock.monotonic_ns()
        for partition in tuple(self._waiting):
            late = [waiter for waiter in partition.waiters if waiter.deadline_ns <= now_ns]
            for waiter in late:
                partition.waiters.remove(waiter)
                self._metrics.commits_timed_out += 1
                waiter.answer(ErrorCode.REQUEST_TIMED_OUT)
            if not partition.waiters:
                self._waiting.discard(partition)

    async def drained(self) -> None:
        """Wait until no flush runs."""
        while self._running:
            self._idle.clear()
            await self._idle.wait()

    def drop(self, partition: Partition, code: ErrorCode) -> None:
        """Answer everyone who waits for a partition that goes away."""
        self._waiting.discard(partition)
        while partition.waiters:
            partition.waiters.popleft().answer(code)

    def _schedule(self, partition: Partition, *, urgent: bool) -> None:
        if partition.flush_started_ns or (partition.flush_scheduled and not urgent):
            return
        loop = asyncio.get_running_loop()
        if urgent:
            partition.flush_scheduled = True
            loop.call_soon(self._begin, partition)
        else:
            partition.flush_scheduled = True
            loop.call_later(IDLE_LINGER_SECONDS, self._begin, partition)

    def _begin(self, partition: Partition) -> None:
        partition.flush_scheduled = False
        if partition.flush_started_ns:
            return  # a more urgent call was first
        flush = partition.log.begin_flush()
        if flush is None:
            return
        partition.flush_started_ns = self._clock.monotonic_ns()
        self._running += 1
        self._pool.submit(flush.run, lambda error: self._finish(partition, flush, error))

    def _finish(self, partition: Partition, flush: Flush, error: BaseException | None) -> None:
        partition.flush_started_ns = 0
        self._running -= 1
        self._metrics.flushes += 1
        log = partition.log
        if error is not None and not isinstance(error, OSError):
            error = OSError(f"flush ended by {error!r}")
        log.finish_flush(flush, error)
        if log.failed is not None:
            if error is not None:
                self._metrics.flush_failures += 1
                logger.error(
                    "%s-%d is offline for writes until a restart: %s",
                    log.topic,
                    log.partition,
                    log.failed,
                )
            self.drop(partition, ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            waiters = partition.waiters
            durable_offset = log.durable_offset
            while waiters and waiters[0].end_offset <= durable_offset:
                waiters.popleft().answer(ErrorCode.NONE)
            if not waiters:
                self._waiting.discard(partition)
            if log.end_offset > durable_offset:
                self._schedule(partition, urgent=bool(waiters or partition.watchers))
        self._advanced(partition)
        if not self._running:
            self._idle.set()
