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
  saves most of the fsyncs. In `__transaction_state` it begins `STATE_LINGER_SECONDS` later: the end
  of the transaction usually makes these records durable before.
- A request waits for several logs (`durable_together`, the end of a transaction): each of them is
  flushed in a thread of its own, a lane, beside the rounds. All wait for the disk at the same time,
  so that the request waits for one fsync and not for as many as it has logs. Requests share flushes
  as above. If more logs are due than lanes are free, a lane flushes a few one after the other.
- `write.caching` topics: records are visible and acknowledged from the page cache, as in Apache
  Kafka's defaults. `flush.messages`, `flush.ms`, rolls, `durable_together` and the stop flush them.

A disk may delay the fsync of one file, or of all. A round in which no flush has ended for
`STUCK_SECONDS` no longer counts against `ROUNDS_MAX`: another round takes over the flushes that it
has not begun. Lanes are rounds in this, with `LANES_MAX`. Up to `STUCK_ROUNDS_MAX` may be stuck.
The threads serve group commit alone, so neither reads nor checkpoints wait for a stuck one.

A failed fsync is terminal for its log (docs/design.md, "What an acknowledgement means"): it is
never retried, and every waiter gets KAFKA_STORAGE_ERROR. A flush that has found no descriptor has
not come to its fsync: it is tried again after `RETRY_SECONDS`. Waiters have deadlines (I9). A sweep
checks them, not a timer each: a deadline passes only if a disk is stuck, and then the accuracy of
a tick is enough.

Each flush of a round is finished whatever becomes of the others, and each waiter is answered. An
exception that one of them raises is reported and does not reach the rest.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter

from broker.error_mapping import code_of_failed_log
from broker.partitions.durable_together import AllDone, DurableTogether, Place
from broker.partitions.flush_round import FlushRound, Job, begin_flushes
from broker.partitions.lingering import Lingering
from broker.partitions.partition import CommitWaiter, Partition
from broker.partitions.running_rounds import STUCK_SECONDS, RunningRounds
from broker.runtime import owners
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.clock import MS_NS, Clock
from broker.runtime.metrics import Metrics
from broker.runtime.owners import Owner
from protocol.errors import ErrorCode
from storage.flush import Flush

# Long enough for a stream of small acks=1 requests to share an fsync, short enough that a
# consumer that connects now finds records of two milliseconds ago.
IDLE_LINGER_SECONDS = 0.002
# Nothing rests on these records (docs/decisions/0073): requests that need one wait for it.
STATE_LINGER_SECONDS = 0.1
RETRY_SECONDS = 0.1  # for a flush without a descriptor
FLUSHES_PER_ROUND_MAX = 64  # so that the first of many partitions does not wait for the last
FLUSHES_PER_LANE_MAX = 4  # when more logs are due than lanes are free

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
        self._advanced = advanced  # the high watermark has moved, or the log has failed
        self._metrics = metrics
        self._clock = clock
        self._waiting: dict[Partition, None] = {}
        self._idle: asyncio.Event = asyncio.Event()
        self._due: dict[Partition, None] = {}  # to be flushed by the next round
        self._due_for_lanes: dict[Partition, None] = {}
        self._lingering = Lingering(self._lingered)
        self._start_called = False
        self._rounds = RunningRounds(pool, self._finish_all, self._ended, clock.monotonic_ns)
        self._together = DurableTogether(self._wait_for_flush)

    def appended(self, partition: Partition) -> None:
        """Note that `partition` has more to make durable, and schedule the flush."""
        log = partition.log
        if log.write_caching:
            if log.flush_due():
                self._schedule(partition, urgent=False)
            self._tell_advanced(partition)
        else:
            self._schedule(partition, urgent=bool(partition.watchers or partition.sleepers))

    def wait(
        self,
        partition: Partition,
        end_offset: int,
        timeout_ms: int,
        answer: Callable[[ErrorCode], None],
        *,
        on_disk: bool = False,
    ) -> None:
        """Call `answer(code)` when `partition` is durable up to `end_offset`, or cannot be.

        With write.caching, records that are visible need no wait, unless `on_disk`. The code is
        NONE, KAFKA_STORAGE_ERROR, REQUEST_TIMED_OUT after `timeout_ms`, or
        UNKNOWN_TOPIC_OR_PARTITION if its topic is deleted.
        """
        log = partition.log
        if (log.durable_offset if on_disk else log.high_watermark) >= end_offset:
            answer(ErrorCode.NONE)
        else:
            self._wait_for_flush(partition, end_offset, timeout_ms, answer)

    def _wait_for_flush(
        self,
        partition: Partition,
        end_offset: int,
        timeout_ms: int,
        answer: Callable[[ErrorCode], None],
    ) -> None:
        if partition.log.failed is not None:
            answer(code_of_failed_log(partition.log))
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
        """As `wait`, but return the code, when it is on the disk also with write.caching."""
        future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def answer(code: ErrorCode) -> None:
            if not future.done():
                future.set_result(code)

        self.wait(partition, end_offset, timeout_ms, answer, on_disk=True)
        return await future

    def durable_together(self, places: Sequence[Place], done: AllDone) -> None:
        """Call `done(codes)` when each place is durable up to its offset, or cannot be.

        Durable means on the disk, also with write.caching. The logs are flushed side by side.
        There is one code for each place, in their order: NONE, KAFKA_STORAGE_ERROR,
        UNKNOWN_TOPIC_OR_PARTITION if its topic is deleted, or COORDINATOR_NOT_AVAILABLE if the
        broker stops and the disk does not answer. There is no deadline. `done` is called at once
        if nothing is to be waited for.
        """
        self._together.wait(places, done)

    def stop(self) -> None:
        """Begin the stop: requests of `durable_together` wait `STUCK_SECONDS` and no longer."""
        self._together.stop(STUCK_SECONDS)

    def flush_now(self, partition: Partition) -> None:
        """Begin a flush soon, even if no request waits: for the tickers and the stop."""
        self._schedule(partition, urgent=True)

    def sweep(self) -> None:
        """Answer REQUEST_TIMED_OUT to waiters past their deadline, and find stuck rounds."""
        now_ns = self._clock.monotonic_ns()
        self._pass_stuck(now_ns)
        for partition in tuple(self._waiting):
            for waiter in [one for one in partition.waiters if one.deadline_ns <= now_ns]:
                partition.waiters.remove(waiter)
                self._metrics.commits_timed_out += 1
                waiter.tell(ErrorCode.REQUEST_TIMED_OUT)
            if not partition.waiters:
                self._waiting.pop(partition, None)

    async def drained(self) -> None:
        """Wait until no flush runs; none begins later. For the stop: nobody calls `sweep` now.

        Who still waits then, for want of a descriptor, is told KAFKA_STORAGE_ERROR.
        """
        self._lingering.stop()
        while self.is_flushing or self._due or self._due_for_lanes:
            self._pass_stuck(self._clock.monotonic_ns())
            self._start()
            self._idle.clear()
            if self.is_flushing:
                with suppress(TimeoutError):
                    async with asyncio.timeout(STUCK_SECONDS / 2):
                        await self._idle.wait()
        self._together.stopped()
        for partition in tuple(self._waiting):
            self.drop(partition, code_of_failed_log(partition.log))

    @property
    def ended_count(self) -> int:
        """How many flushes have ended, in order or not."""
        return self._metrics.flushes + self._rounds.untold_count

    @property
    def is_flushing(self) -> bool:
        """Whether a flush runs, stuck or not."""
        return self._rounds.is_any

    def _pass_stuck(self, now_ns: int) -> None:
        self._rounds.pass_stuck(now_ns)
        self._metrics.flushes_stuck_now = self._rounds.stuck_count
        if self._due or self._due_for_lanes:
            self._start_called = False  # an earlier call may have failed
            self._call_start_soon()

    def drop(self, partition: Partition, code: ErrorCode) -> None:
        """Answer `code` to all requests that wait for a partition that is being removed."""
        self._waiting.pop(partition, None)
        while partition.waiters:
            partition.waiters.popleft().tell(code)

    def _schedule(self, partition: Partition, *, urgent: bool) -> None:
        if partition.flush_started_ns:
            return  # `_finish` looks again
        if urgent:
            self._make_due(partition)
            self._call_start_soon()
        else:
            pause = STATE_LINGER_SECONDS if partition.is_patient else IDLE_LINGER_SECONDS
            self._lingering.add(partition, pause)

    def _make_due(self, partition: Partition) -> None:
        if partition.lane_waiters:
            self._due.pop(partition, None)
            self._due_for_lanes[partition] = None
        else:
            self._due[partition] = None

    def _lingered(self, partitions: list[Partition]) -> None:
        for partition in partitions:
            if not partition.flush_started_ns:
                self._make_due(partition)
        self._start()

    def _call_start_soon(self) -> None:
        if not self._start_called and (
            self._rounds.may_start or (self._due_for_lanes and self._rounds.free_lanes > 0)
        ):
            self._start_called = True
            owners.soon(Owner.FLUSH, self._start)

    def _start(self) -> None:
        """Begin lanes and rounds for the partitions that are due, as many as may run."""
        self._start_called = False
        rounds = self._rounds
        now_ns = self._clock.monotonic_ns()
        while self._due_for_lanes and (free := rounds.free_lanes) > 0:
            jobs = self._begin(self._due_for_lanes, free * FLUSHES_PER_LANE_MAX, now_ns)
            rounds.run_in_lanes(jobs, now_ns)
        while self._due and rounds.may_start:
            if jobs := self._begin(self._due, FLUSHES_PER_ROUND_MAX, now_ns):
                rounds.run(jobs, now_ns)

    def _begin(self, due: dict[Partition, None], count_max: int, now_ns: int) -> list[Job]:
        jobs, failed = begin_flushes(due, count_max, now_ns)
        self._metrics.traffic.began(len(jobs))
        for partition in failed:  # by a write: it will not become durable
            self.drop(partition, code_of_failed_log(partition.log))
            self._tell_advanced(partition)
        return jobs

    def _ended(self) -> None:
        """A round or a lane has ended: others may start."""
        if self._due or self._due_for_lanes:
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
        waiters = partition.waiters
        self._metrics.traffic.flushed(flush.elapsed_ns, len(waiters), self._clock.monotonic_ns())
        log = partition.log
        log.finish_flush(flush, error)
        if error is not None:
            self._metrics.flush_failures += 1
        durable_offset = log.durable_offset
        while waiters and waiters[0].end_offset <= durable_offset:
            waiters.popleft().tell(ErrorCode.NONE)
        if not waiters:
            self._waiting.pop(partition, None)
        if log.failed is not None:
            self.drop(partition, code_of_failed_log(partition.log))
        elif error is not None:
            self._lingering.add(partition, RETRY_SECONDS)
        elif log.end_offset > durable_offset:
            self._schedule(
                partition, urgent=bool(waiters or partition.watchers or partition.sleepers)
            )
        self._tell_advanced(partition)
