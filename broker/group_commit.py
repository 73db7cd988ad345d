"""Group commit: one fsync acknowledges everyone who waited when it began.

Per partition one flush runs at a time; its end moves the durable end of the log and with it the
high watermark, answers the producers with acks=all whose records it covered, and wakes fetches.
Whatever was appended meanwhile is the next flush's. Partitions that are due together are flushed
together, in rounds: one call of the pool runs the flushes of a round one after the other, since
handing each to a thread costs more than most of them take.

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
from functools import partial
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
# Rounds under way at a time. The disk is one: while a round waits for it, what comes gathers for
# the next, and a second round fills the gaps between the fsyncs of the first.
ROUNDS_MAX = 2
FLUSHES_PER_ROUND_MAX = 64  # so that the first of many partitions does not wait for the last


class CommitWaiter(NamedTuple):
    """Someone who is answered when the log is durable up to `end_offset`."""

    end_offset: int
    deadline_ns: int
    answer: Callable[[ErrorCode], None]


class _Round:
    """Flushes that one thread runs, one after the other, and how each went."""

    __slots__ = ("flushes", "outcomes")

    def __init__(self) -> None:
        self.flushes: list[tuple[Partition, Flush]] = []
        self.outcomes: list[OSError | None] = []

    def run(self) -> None:
        """For a thread of the pool."""
        for _, flush in self.flushes:
            try:
                flush.run()
            except OSError as error:
                self.outcomes.append(error)
            except BaseException as error:  # whatever it was, nothing was made durable
                self.outcomes.append(OSError(f"the flush ended by {error!r}"))
            else:
                self.outcomes.append(None)


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
        self._due: dict[Partition, None] = {}  # to be flushed by the next round
        self._start_called = False
        self._running = 0  # rounds

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
        while self._running or self._due:
            self._start()
            self._idle.clear()
            if self._running:
                await self._idle.wait()

    def drop(self, partition: Partition, code: ErrorCode) -> None:
        """Answer everyone who waits for a partition that goes away."""
        self._waiting.discard(partition)
        while partition.waiters:
            partition.waiters.popleft().answer(code)

    def _schedule(self, partition: Partition, *, urgent: bool) -> None:
        if partition.flush_started_ns:
            return  # its end looks again
        if urgent:
            self._due[partition] = None
            self._call_start_soon()
        elif not partition.flush_scheduled:
            partition.flush_scheduled = True
            asyncio.get_running_loop().call_later(IDLE_LINGER_SECONDS, self._lingered, partition)

    def _lingered(self, partition: Partition) -> None:
        partition.flush_scheduled = False
        if not partition.flush_started_ns:
            self._due[partition] = None
            self._start()

    def _call_start_soon(self) -> None:
        if not self._start_called and self._running < ROUNDS_MAX:
            self._start_called = True
            asyncio.get_running_loop().call_soon(self._start)

    def _start(self) -> None:
        """Begin rounds for what is due, as far as rounds may run."""
        self._start_called = False
        while self._due and self._running < ROUNDS_MAX:
            round_ = _Round()
            for partition in tuple(self._due):
                del self._due[partition]
                flush = partition.log.begin_flush()
                if flush is not None:
                    partition.flush_started_ns = self._clock.monotonic_ns()
                    round_.flushes.append((partition, flush))
                if len(round_.flushes) == FLUSHES_PER_ROUND_MAX:
                    break
            if round_.flushes:
                self._running += 1
                self._pool.submit(round_.run, partial(self._end, round_))

    def _end(self, ended: _Round, error: BaseException | None) -> None:
        assert error is None, f"a round keeps its errors: {error!r}"
        self._running -= 1
        for (partition, flush), outcome in zip(ended.flushes, ended.outcomes, strict=True):
            self._finish(partition, flush, outcome)
        if self._due:
            self._call_start_soon()
        if not self._running:
            self._idle.set()

    def _finish(self, partition: Partition, flush: Flush, error: OSError | None) -> None:
        partition.flush_started_ns = 0
        self._metrics.flushes += 1
        log = partition.log
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
