"""Group commit: one fsync acknowledges all requests that waited when it began.

Each partition has at most one flush at a time. When it ends, the durable end of the log and with it
the high watermark move, producers with acks=all whose records it covered are answered, and fetches
are woken. Records appended meanwhile are left to the next flush. Waiters are kept in the order of
the offsets they wait for, not of their arrival: a retried batch waits for its original. Partitions
that are due together are flushed together, in rounds: one call of the pool runs the flushes of a
round one after the other, since handing each to a thread costs more than most of them take.

- A request waits (acks=all, a parked fetch): the next flush begins at the end of this turn of the
  loop, so that it covers everything the turn appended.
- No request waits (acks 0 and 1): it begins `IDLE_LINGER_SECONDS` later, which delays no reader and
  saves most of the fsyncs.
- `write.caching` topics: records are visible and acknowledged from the page cache, as in Apache
  Kafka's defaults. `flush.messages`, `flush.ms`, rolls and the stop flush them.

A disk may delay the fsync of one file, or of all. A round in which no flush has ended for
`STUCK_SECONDS` no longer counts against `ROUNDS_MAX`: another round takes over the flushes that it
has not begun. Up to `STUCK_ROUNDS_MAX` rounds may be stuck. The threads serve group commit alone,
so neither reads nor checkpoints wait for a stuck one.

A failed fsync is terminal for its log (docs/design.md, "What an acknowledgement means"): it is
never retried, and every waiter gets KAFKA_STORAGE_ERROR. Waiters have deadlines (I9). A sweep
checks them, not a timer each: a deadline passes only if a disk is stuck, and then the accuracy of
a tick is enough.

Each flush of a round is finished whatever becomes of the others, and each waiter is answered. An
exception that one of them raises is reported and does not reach the rest.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Callable
from functools import partial
from operator import attrgetter

from broker.partitions.flush_round import FlushRound, Job
from broker.partitions.partition import CommitWaiter, Partition
from broker.runtime import owners
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.clock import MS_NS, SECOND_NS, Clock
from broker.runtime.metrics import Metrics
from broker.runtime.owners import Owner
from protocol.errors import ErrorCode
from storage.flush import Flush

# Long enough for a stream of small acks=1 requests to share an fsync, short enough that a
# consumer that connects now finds records of two milliseconds ago.
IDLE_LINGER_SECONDS = 0.002
# Rounds that run at a time. There is one disk: while a round waits for it, appends gather for the
# next. A second round fills the gaps between the fsyncs of the first.
ROUNDS_MAX = 2
FLUSHES_PER_ROUND_MAX = 64  # so that the first of many partitions does not wait for the last
STUCK_SECONDS = 0.25  # well above an fsync on a busy disk (8 to 15 ms at the 99th percentile)
STUCK_ROUNDS_MAX = 14
STUCK_NS = int(STUCK_SECONDS * SECOND_NS)
FLUSH_THREADS = ROUNDS_MAX + STUCK_ROUNDS_MAX  # the pool starts them when they are needed


_end_offset = attrgetter("end_offset")


class GroupCommit:
    """Flushes logs, and answers the requests that wait for it."""

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
        self._waiting: dict[Partition, None] = {}
        self._idle: asyncio.Event = asyncio.Event()
        self._due: dict[Partition, None] = {}  # to be flushed by the next round
        self._start_called = False
        self._running: dict[FlushRound, None] = {}
        self._stuck: dict[FlushRound, None] = {}

    def appended(self, partition: Partition) -> None:
        """Note that `partition` has more to make durable, and schedule the flush."""
        log = partition.log
        if log.write_caching:
            if log.flush_due():
                self._schedule(partition, urgent=False)
            self._tell_advanced(partition)
        else:
            self._schedule(partition, urgent=bool(partition.watchers))

    def wait(
        self,
        partition: Partition,
        end_offset: int,
        timeout_ms: int,
        answer: Callable[[ErrorCode], None],
    ) -> None:
        """Call `answer(code)` when `partition` is durable up to `end_offset`, or cannot be.

        The code is NONE, KAFKA_STORAGE_ERROR, or REQUEST_TIMED_OUT after `timeout_ms`.
        """
        log = partition.log
        if log.high_watermark >= end_offset:
            answer(ErrorCode.NONE)
        elif log.failed is not None:
            answer(ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            deadline_ns = self._clock.monotonic_ns() + max(timeout_ms, 0) * MS_NS
            waiter = CommitWaiter(end_offset, deadline_ns, answer)
            waiters = partition.waiters
            if not waiters or waiters[-1].end_offset <= end_offset:
                waiters.append(waiter)
            else:  # a duplicate of an earlier batch: durable before the last waiters
                insort(waiters, waiter, key=_end_offset)
            self._waiting[partition] = None
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
        """Begin a flush soon, even if no request waits: for the tickers and the stop."""
        self._schedule(partition, urgent=True)

    def sweep(self) -> None:
        """Answer REQUEST_TIMED_OUT to waiters past their deadline, and find stuck rounds."""
        now_ns = self._clock.monotonic_ns()
        self._pass_stuck(now_ns)
        for partition in tuple(self._waiting):
            late = [waiter for waiter in partition.waiters if waiter.deadline_ns <= now_ns]
            for waiter in late:
                partition.waiters.remove(waiter)
                self._metrics.commits_timed_out += 1
                waiter.tell(ErrorCode.REQUEST_TIMED_OUT)
            if not partition.waiters:
                self._waiting.pop(partition, None)

    async def drained(self) -> None:
        """Wait until no flush runs."""
        while self.is_flushing or self._due:
            self._start()
            self._idle.clear()
            if self.is_flushing:
                await self._idle.wait()

    @property
    def is_flushing(self) -> bool:
        """Whether a flush runs, stuck or not."""
        return bool(self._running or self._stuck)

    def _pass_stuck(self, now_ns: int) -> None:
        """Start other rounds in place of stuck ones, with the flushes these have not begun."""
        for round_ in tuple(self._running):
            if len(self._stuck) < STUCK_ROUNDS_MAX and round_.is_stuck(now_ns, STUCK_NS):
                del self._running[round_]
                self._stuck[round_] = None
                if rest := round_.take_rest():
                    self._run(FlushRound(rest, now_ns))
                self._finish_all(round_)
        self._metrics.flushes_stuck_now = len(self._stuck)
        if self._due:
            self._start_called = False  # an earlier call may have failed
            self._call_start_soon()

    def _run(self, round_: FlushRound) -> None:
        self._running[round_] = None
        self._pool.submit(Owner.FLUSH, round_.run, partial(self._end, round_))

    def drop(self, partition: Partition, code: ErrorCode) -> None:
        """Answer `code` to all requests that wait for a partition that is being removed."""
        self._waiting.pop(partition, None)
        while partition.waiters:
            partition.waiters.popleft().tell(code)

    def _schedule(self, partition: Partition, *, urgent: bool) -> None:
        if partition.flush_started_ns:
            return  # `_finish` looks again
        if urgent:
            self._due[partition] = None
            self._call_start_soon()
        elif not partition.flush_scheduled:
            partition.flush_scheduled = True
            owners.later(Owner.FLUSH, IDLE_LINGER_SECONDS, self._lingered, partition)

    def _lingered(self, partition: Partition) -> None:
        partition.flush_scheduled = False
        if not partition.flush_started_ns:
            self._due[partition] = None
            self._start()

    def _call_start_soon(self) -> None:
        if not self._start_called and len(self._running) < ROUNDS_MAX:
            self._start_called = True
            owners.soon(Owner.FLUSH, self._start)

    def _start(self) -> None:
        """Begin rounds for the partitions that are due, up to ROUNDS_MAX."""
        self._start_called = False
        while self._due and len(self._running) < ROUNDS_MAX:
            now_ns = self._clock.monotonic_ns()
            jobs: list[Job] = []
            for partition in tuple(self._due):
                del self._due[partition]
                try:
                    flush = partition.log.begin_flush()
                except Exception as error:  # the flushes before it have begun, and go on
                    owners.failed(
                        Owner.FLUSH, error, f"the beginning of a flush of {partition.log}"
                    )
                    continue
                if partition.log.failed is not None:  # by a write: it will not become durable
                    self.drop(partition, ErrorCode.KAFKA_STORAGE_ERROR)
                    self._tell_advanced(partition)
                elif flush is not None:
                    partition.flush_started_ns = now_ns
                    jobs.append((partition, flush))
                if len(jobs) == FLUSHES_PER_ROUND_MAX:
                    break
            if jobs:
                self._run(FlushRound(jobs, now_ns))

    def _end(self, ended: FlushRound, error: BaseException | None) -> None:
        assert error is None, f"a round keeps its errors: {error!r}"
        self._running.pop(ended, None)
        self._stuck.pop(ended, None)
        self._finish_all(ended)
        if self._due:
            self._call_start_soon()
        if not self.is_flushing:
            self._idle.set()

    def _finish_all(self, round_: FlushRound) -> None:
        """Finish the flushes of a round that have ended."""
        for partition, flush, error in round_.take_ended():
            try:
                self._finish(partition, flush, error)
            except Exception as failure:
                owners.failed(Owner.FLUSH, failure, f"the end of a flush of {partition.log}")

    def _tell_advanced(self, partition: Partition) -> None:
        try:
            self._advanced(partition)
        except Exception as error:
            owners.failed(Owner.FLUSH, error, f"waking fetches and appends of {partition.log}")

    def _finish(self, partition: Partition, flush: Flush, error: OSError | None) -> None:
        partition.flush_started_ns = 0
        self._metrics.flushes += 1
        log = partition.log
        log.finish_flush(flush, error)
        if error is not None:
            self._metrics.flush_failures += 1
        waiters = partition.waiters
        durable_offset = log.durable_offset
        while waiters and waiters[0].end_offset <= durable_offset:
            waiters.popleft().tell(ErrorCode.NONE)
        if not waiters:
            self._waiting.pop(partition, None)
        if log.failed is not None:
            self.drop(partition, ErrorCode.KAFKA_STORAGE_ERROR)
        elif log.end_offset > durable_offset:
            self._schedule(partition, urgent=bool(waiters or partition.watchers))
        self._tell_advanced(partition)
