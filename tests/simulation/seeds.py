"""Tells the histories of new seeds in worker processes, until it is stopped, and adds them up.

SIGTERM, SIGINT and the end of the time stop it alike: each worker finishes the history it is at,
and the totals are printed. A flag in shared memory tells the workers: a terminal and `timeout` send
their signal to the whole group of processes, so workers ignore it.
"""

from __future__ import annotations

import faulthandler
import gc
import itertools
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from ctypes import c_int
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from config.errors import ConfigError
from tests.simulation.history import tell
from tests.simulation.plan import write_plan

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

CHUNK: Final = 20  # seeds that a worker gets at a time
STUCK_SECONDS: Final = 120  # of real time; a history takes a tenth of a second
_STOPS: Final = (signal.SIGTERM, signal.SIGINT)

_is_stopped = multiprocessing.RawValue(c_int, 0)  # shared with the workers, which are forked


class Told(NamedTuple):
    """What came of one seed."""

    seed: str
    failures: list[str]
    requests: int
    seconds: float  # of the processor, with the collection of what it leaves


@dataclass(slots=True)
class Totals:
    """What came of all seeds so far."""

    first: str  # what the seeds begin with
    histories: int = 0
    requests: int = 0
    seconds: float = 0.0  # of the processor
    failed: list[str] = field(default_factory=list)  # seeds

    def add(self, told: Told) -> None:
        """Add one history."""
        self.histories += 1
        self.requests += told.requests
        self.seconds += told.seconds
        if told.failures:
            self.failed.append(told.seed)

    def line(self, took_seconds: float) -> str:
        """Return one line; `took_seconds` is the time that has passed."""
        return (
            f"{self.histories} histories of seeds {self.first}0.., {len(self.failed)} failed, "
            f"{self.requests} requests, {took_seconds:.0f} s; "
            f"{self.histories / max(self.seconds, 0.001):.1f} histories a second on a core"
        )


def run_seeds(seeds: list[str]) -> list[Told]:
    """Tell the histories of some seeds, until told to stop."""
    told = []
    for seed in seeds:
        if _is_stopped.value:
            break
        faulthandler.dump_traceback_later(STUCK_SECONDS, exit=True)
        began = time.process_time()
        verdict = tell(write_plan(seed))
        gc.collect()
        took = time.process_time() - began
        faulthandler.cancel_dump_traceback_later()
        told.append(Told(seed, verdict.failures, verdict.requests, took))
    return told


def run_many(
    first: str, jobs: int, seconds: float, count: int, on_failure: Callable[[Told], None]
) -> Totals:
    """Tell the histories of the seeds `first`0, `first`1 ... in `jobs` processes.

    Ends after `count` (0: never), after `seconds`, or at a signal (`stopping_at_signals`).
    """
    ends = time.monotonic() + seconds
    numbers = iter(range(count) if count else range(sys.maxsize))
    totals = Totals(first)
    pending: set[Future[list[Told]]] = set()
    started = multiprocessing.Value("i", 0)
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, context, _settle, (started,)) as pool:
        while True:
            while len(pending) < 2 * jobs and not _is_stopped.value:
                seeds = [f"{first}{number}" for number in itertools.islice(numbers, CHUNK)]
                if not seeds:
                    break
                pending.add(pool.submit(run_seeds, seeds))
            if not pending:
                break
            left = max(0.0, min(ends - time.monotonic(), threading.TIMEOUT_MAX))
            done, pending = wait(pending, None if _is_stopped.value else left, FIRST_COMPLETED)
            if time.monotonic() >= ends:
                _is_stopped.value = 1
            for chunk in done:
                for told in chunk.result():
                    totals.add(told)
                    if told.failures:
                        on_failure(told)
    _is_stopped.value = 0
    return totals


@contextmanager
def stopping_at_signals() -> Iterator[None]:
    """Let SIGTERM and SIGINT end `run_many`, in place of the process."""

    def stop(_number: int, _frame: object) -> None:
        _is_stopped.value = 1

    before = {number: signal.signal(number, stop) for number in _STOPS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _settle(started: Synchronized[int]) -> None:
    """Begin a worker process: it stays on one core, where its threads hand over fastest.

    What its first history leaves, all later ones use: the collector need not look at it again.
    """
    for number in _STOPS:
        signal.signal(number, signal.SIG_IGN)
    cores = sorted(os.sched_getaffinity(0))
    with started.get_lock():
        core = cores[started.value % len(cores)]
        started.value += 1
    os.sched_setaffinity(0, {core})
    with suppress(ConfigError):
        tell(write_plan("the first of a process"))
    gc.disable()  # `run_seeds` collects
    gc.collect()
    gc.freeze()
