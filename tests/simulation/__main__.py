"""Run histories: `python -m tests.simulation --help`.

    --seed S         one history, and its digest
    --plan FILE      a history that was kept
    --shrink         make it smaller while it fails, and tell its story
    (neither)        new seeds on every core until stopped, or for --seconds, or --count; then the
                     totals

A history that fails is kept as a plan in tests/simulation/found/, where it is a test.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time
from pathlib import Path

from config.errors import ConfigError
from tests.simulation.history import tell
from tests.simulation.plan import Plan, write_plan
from tests.simulation.seeds import Told, run_many, stopping_at_signals
from tests.simulation.shrink import judge_of, shrink
from tests.simulation.story import story_of

FOUND = Path(__file__).parent / "found"


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

    def failed(told: Told) -> None:
        print(f"seed {told.seed}: {told.failures[0]}", flush=True)
        if keeps:
            _keep(told.seed)

    with stopping_at_signals():
        print(f"new seeds {first}0.. in {jobs} processes; ctrl-c for the totals", flush=True)
        totals = run_many(first, jobs, seconds, count, failed)
    print(totals.line(time.monotonic() - began))
    return 1 if totals.failed else 0


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
