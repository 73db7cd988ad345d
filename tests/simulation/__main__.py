"""Run histories: `python -m tests.simulation --help`.

    --seed S         one history, and its digest
    --plan FILE      a history that was kept
    --shrink         make it smaller while it fails, and tell its story
    (neither)        new seeds on every core until stopped, or for --seconds, or --count

A history that fails is kept as a plan in tests/simulation/found/, where it is a test.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import itertools
import multiprocessing
import os
import secrets
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from config.errors import ConfigError
from tests.simulation.history import tell
from tests.simulation.plan import Plan, write_plan
from tests.simulation.shrink import judge_of, shrink
from tests.simulation.story import story_of

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

FOUND = Path(__file__).parent / "found"
CHUNK = 20
STUCK_SECONDS = 120  # of real time; a history takes a tenth of a second


class Told(NamedTuple):
    """What came of one seed."""

    seed: str
    failures: list[str]
    requests: int
    seconds: float  # of the processor, with the collection of what it leaves


def run_seeds(seeds: list[str]) -> list[Told]:
    """Tell the histories of some seeds."""
    told = []
    for seed in seeds:
        faulthandler.dump_traceback_later(STUCK_SECONDS, exit=True)
        began = time.process_time()
        verdict = tell(write_plan(seed))
        gc.collect()
        took = time.process_time() - began
        faulthandler.cancel_dump_traceback_later()
        told.append(Told(seed, verdict.failures, verdict.requests, took))
    return told


def _settle(workers: Synchronized[int]) -> None:
    """Begin a worker process: it stays on one core, where its threads hand over fastest.

    What its first history leaves, all later ones use: the collector need not look at it again.
    """
    cores = sorted(os.sched_getaffinity(0))
    with workers.get_lock():
        core = cores[workers.value % len(cores)]
        workers.value += 1
    os.sched_setaffinity(0, {core})
    with suppress(ConfigError):
        tell(write_plan("the first of a process"))
    gc.disable()  # `run_seeds` collects
    gc.collect()
    gc.freeze()


def _one(plan: Plan, *, shrinks: bool, tells: bool) -> int:
    verdict = tell(plan, keeps_story=tells and not shrinks)
    print(f"{verdict.digest} {verdict.requests} requests, {verdict.seconds:.3f} s")
    if shrinks and verdict.failures:
        judges = {judge_of(failure) for failure in verdict.failures}
        plan = shrink(plan, lambda less: _is_objected_to(less, judges))
        verdict = tell(plan, keeps_story=True)
        print(plan.to_json())
    if tells or shrinks:
        print(story_of(plan, verdict))
    else:
        print("\n".join(verdict.failures))
    return 1 if verdict.failures else 0


def _is_objected_to(plan: Plan, judges: set[str]) -> bool:
    try:
        return bool(judges & set(map(judge_of, tell(plan).failures)))
    except ConfigError:  # what is left of the settings does not fit together
        return False


def _many(first: str, jobs: int, seconds: float, count: int, *, keeps: bool) -> int:
    began = time.monotonic()
    ends = began + seconds
    numbers = iter(range(count) if count else range(sys.maxsize))
    totals = {"histories": 0, "requests": 0, "seconds": 0.0, "failures": 0}
    pending: set[Future[list[Told]]] = set()
    workers = multiprocessing.Value("i", 0)
    with ProcessPoolExecutor(jobs, initializer=_settle, initargs=(workers,)) as pool:
        while True:
            while len(pending) < 2 * jobs and time.monotonic() < ends:
                seeds = [f"{first}{number}" for number in itertools.islice(numbers, CHUNK)]
                if not seeds:
                    break
                pending.add(pool.submit(run_seeds, seeds))
            if not pending:
                break
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for chunk in done:
                for told in chunk.result():
                    totals["histories"] += 1
                    totals["requests"] += told.requests
                    totals["seconds"] += told.seconds
                    totals["failures"] += bool(told.failures)
                    if told.failures:
                        print(f"seed {told.seed}: {told.failures[0]}", flush=True)
                        if keeps:
                            _keep(told.seed)
    took = time.monotonic() - began
    print(
        f"{totals['histories']} histories of seeds {first}0.., {totals['failures']} failed, "
        f"{totals['requests']} requests, {took:.0f} s; "
        f"{totals['histories'] / max(totals['seconds'], 0.001):.1f} histories a second on a core"
    )
    return 1 if totals["failures"] else 0


def _keep(seed: str) -> None:
    FOUND.mkdir(exist_ok=True)
    (FOUND / f"seed_{seed}.json").write_text(write_plan(seed).to_json() + "\n")


def main() -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seed")
    parser.add_argument("--plan", type=Path)
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--story", action="store_true")
    parser.add_argument("--first", default=None, help="what new seeds begin with")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--keep", action="store_true", help="keep what fails in found/")
    options = parser.parse_args()
    if options.seed is not None or options.plan is not None:
        plan = write_plan(options.seed) if options.plan is None else None
        plan = plan or Plan.from_json(options.plan.read_text())
        return _one(plan, shrinks=options.shrink, tells=options.story)
    first = secrets.token_hex(4) + "-" if options.first is None else options.first
    return _many(first, options.jobs, options.seconds, options.count, keeps=options.keep)


if __name__ == "__main__":
    sys.exit(main())
