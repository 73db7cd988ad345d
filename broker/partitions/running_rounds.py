"""The rounds and lanes of group commit that run in threads, and those that are stuck.

A round flushes logs one after the other; a lane flushes one, or a few, beside them. If many are
due, a few rounds share them: the file system commits their journal entries together, and a log
waits for few others. Rounds and lanes are both `FlushRound`s and differ in how many may run at a
time. One that is stuck counts against neither: it is put aside, and another takes over the flushes
that it has not begun.

Where the kernel runs fdatasyncs by itself, the small flushes of a round or a lane begin there, all
at once, and need no thread (`KernelRound`). They count and get stuck as the others. The kernel's
workers share the loop's processor. So a flush that is alone goes to a thread, which may use another
one, and ends a little sooner; and so does a large one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.partitions.flush_pool import FlushPool
from broker.partitions.flush_round import FlushRound, Job
from broker.partitions.kernel_round import KernelRound
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.clock import SECOND_NS
from broker.runtime.owners import Owner

# Rounds that run at a time. There is one disk: while a round waits for it, appends gather for the
# next. A second round fills the gaps between the fsyncs of the first.
ROUNDS_MAX = 2
# When they begin together there may be more, so that the threads' hand-overs are worth it.
ROUNDS_TOGETHER_MAX = 4
FLUSHES_PER_ROUND_MIN = 6  # if there is more than one round
# Lanes that run at a time: enough for a transaction over ten partitions, its offsets and its state.
LANES_MAX = 16
STUCK_SECONDS = 0.25  # well above an fsync on a busy disk (8 to 15 ms at the 99th percentile)
STUCK_ROUNDS_MAX = 14
STUCK_NS = int(STUCK_SECONDS * SECOND_NS)
# The pool starts them when they are needed.
FLUSH_THREADS = ROUNDS_MAX - 1 + ROUNDS_TOGETHER_MAX + LANES_MAX + STUCK_ROUNDS_MAX


class RunningRounds:
    """What runs in the pool. `finish` takes the flushes that have ended from a round.

    `ended` is called after that, when a round has come to its end.
    """

    __slots__ = ("_ended", "_finish", "_lanes", "_now_ns", "_pool", "_rounds", "_stuck")

    def __init__(
        self,
        pool: BlockingPool,
        finish: Callable[[FlushRound], None],
        ended: Callable[[], None],
        now_ns: Callable[[], int] = lambda: 0,
    ) -> None:
        """`now_ns` is the clock by which each flush is timed."""
        self._pool = pool
        self._now_ns = now_ns
        self._finish = finish
        self._ended = ended
        self._rounds: dict[FlushRound, None] = {}
        self._lanes: dict[FlushRound, None] = {}
        self._stuck: dict[FlushRound, None] = {}

    @property
    def may_start(self) -> bool:
        """Whether another round may run."""
        return len(self._rounds) < ROUNDS_MAX

    @property
    def free_lanes(self) -> int:
        """How many more lanes may run."""
        return LANES_MAX - len(self._lanes)

    @property
    def is_any(self) -> bool:
        """Whether a flush runs, stuck or not."""
        return bool(self._rounds or self._lanes or self._stuck)

    @property
    def stuck_count(self) -> int:
        """How many rounds and lanes are stuck."""
        return len(self._stuck)

    @property
    def untold_count(self) -> int:
        """How many flushes have ended in rounds that have not."""
        rounds = (*self._rounds, *self._lanes, *self._stuck)
        return sum(round_.untold_count for round_ in rounds)

    def run(self, jobs: list[Job], now_ns: int) -> None:
        """Run flushes one after the other, if there are many in rounds side by side."""
        jobs = self._begin_in_kernel(jobs, self._rounds, now_ns)
        if not jobs:
            return
        count = max(1, min(ROUNDS_TOGETHER_MAX, len(jobs) // FLUSHES_PER_ROUND_MIN))
        for first in range(count):
            self._run(FlushRound(jobs[first::count], now_ns, self._now_ns), self._rounds)

    def run_in_lanes(self, jobs: list[Job], now_ns: int) -> None:
        """Run flushes side by side, in as many lanes as are free."""
        jobs = self._begin_in_kernel(jobs, self._lanes, now_ns)
        free = max(1, self.free_lanes)
        for first in range(min(free, len(jobs))):
            self._run(FlushRound(jobs[first::free], now_ns, self._now_ns), self._lanes)

    def _begin_in_kernel(
        self, jobs: list[Job], among: dict[FlushRound, None], now_ns: int
    ) -> list[Job]:
        """Begin what the kernel takes; return what is left for threads."""
        pool = self._pool
        is_alone = len(jobs) == 1 and not (self._rounds or self._lanes)
        if is_alone or not (isinstance(pool, FlushPool) and pool.runs_syncs):
            return jobs
        round_ = KernelRound(now_ns, self._now_ns, self._told)
        others = round_.begin(jobs, pool)
        if round_.left:
            among[round_] = None
        return others

    def _told(self, round_: KernelRound) -> None:
        if round_.left:
            self._finish(round_)
        else:
            self._end(round_, None)

    def _run(self, round_: FlushRound, among: dict[FlushRound, None]) -> None:
        among[round_] = None
        self._pool.submit(Owner.FLUSH, round_.run, partial(self._end, round_))

    def _end(self, round_: FlushRound, error: BaseException | None) -> None:
        assert error is None, f"a round keeps its errors: {error!r}"
        for among in (self._rounds, self._lanes, self._stuck):
            among.pop(round_, None)
        self._finish(round_)
        self._ended()

    def pass_stuck(self, now_ns: int) -> None:
        """Start others in place of stuck ones, with the flushes these have not begun."""
        for among in (self._rounds, self._lanes):
            for round_ in tuple(among):
                if len(self._stuck) < STUCK_ROUNDS_MAX and round_.is_stuck(now_ns, STUCK_NS):
                    del among[round_]
                    self._stuck[round_] = None
                    if rest := round_.take_rest():
                        self._run(FlushRound(rest, now_ns, self._now_ns), among)
                    self._finish(round_)
