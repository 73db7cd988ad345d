"""Runs the simulator on bug after bug, and says what became of each.

Seeds are gone through in blocks, each twice as long as those before it together. At first the
product as it is tells the histories of a block: a seed that it fails itself counts for no bug, and
one that does not run what a bug changes is the same history with that bug. Then each bug that is
not found yet gets a fresh process (`tests.simulation.mutants.trial`) for the seeds that are left,
since its modules are loaded with the bug in them. A process that dies, or that begins and ends no
history for `HANG_SECONDS`, has found its bug too.

A bug that needs certain clients or faults (`Mutant.only_with`) is hunted for in the histories that
have them. The product as it is tells only the one that fails then.

Whatever becomes known is in `Results` at once, so that a hunt may be ended at any time.
"""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import repeat
from typing import Any, Final, NamedTuple

from tests.simulation.mutants.mutant import ROOT, Mutant
from tests.simulation.mutants.results import Found, Results
from tests.simulation.mutants.tables import (
    as_kafka,
    bounds,
    containment,
    durability,
    fetch_sessions,
    later_ways,
    loop_work,
    promises,
    side_syncs,
    slips_broker,
    slips_files,
    slips_groups,
    slips_logs,
    transactions,
)
from tests.simulation.plan import write_plan

UNCHANGED: Final = "unchanged"
HANG_SECONDS: Final = 120
FIRST_BLOCK: Final = 25
CHUNK: Final = 25  # histories of one process of the product as it is
STRETCH: Final = 200  # histories with a bug, after which a hunt that was ended goes on

TABLES: Final = (
    promises,
    bounds,
    loop_work,
    containment,
    durability,
    as_kafka,
    slips_files,
    slips_logs,
    slips_broker,
    slips_groups,
    transactions,
    fetch_sessions,
    side_syncs,
    later_ways,
)


class Told(NamedTuple):
    """A history that has ended. `reached` is empty with a bug."""

    seed: int
    failure: str
    reached: Sequence[str] = ()


@cache
def all_mutants() -> dict[str, Mutant]:
    """Return every seeded bug by name, in the order of the table."""
    mutants: dict[str, Mutant] = {}
    for table in TABLES:
        for mutant in table.MUTANTS:
            assert mutant.name not in mutants, f"two bugs are called {mutant.name}"
            mutants[mutant.name] = mutant
    return mutants


class Hunt:
    """The hunt for several bugs. What `results` knows already is not tried again."""

    def __init__(self, results: Results, names: Sequence[str], jobs: int) -> None:
        self._results = results
        self._names = names
        self._jobs = jobs
        self._lock = threading.Lock()

    def run(self, seeds: int) -> Iterator[Found]:
        """Yield what became of each bug, when it is found or was hunted for with all seeds."""
        left = list(self._names)
        with ThreadPoolExecutor(self._jobs) as threads:
            for last in _blocks(seeds):
                if not all(map(_only_with, left)):
                    list(threads.map(self._tell, self._unknown(last)))
                found = list(threads.map(self._hunt, left, repeat(last)))
                yield from (one for one in found if one.seed is not None or last == seeds)
                left = [one.name for one in found if one.seed is None]

    def _unknown(self, last: int) -> list[list[int]]:
        """Return the seeds that the product without a bug has not told yet, in chunks."""
        seeds = [seed for seed in range(1, last + 1) if not self._results.is_known(seed)]
        return [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]

    def _tell(self, seeds: list[int]) -> None:
        """Tell histories without a bug, also behind one whose process dies."""
        while seeds:
            told = None
            for told in trial(UNCHANGED, seeds):
                with self._lock:
                    self._results.note_history(
                        told.seed, failed=bool(told.failure), reached=told.reached
                    )
            assert told is not None, "a process that told nothing of its first history"
            seeds = [seed for seed in seeds if seed > told.seed]

    def _hunt(self, name: str, last: int) -> Found:
        """Hunt for one bug up to a seed."""
        known = self._results.bug(name)
        if known.seed is not None or known.seeds >= last:
            return known
        seeds = self._seeds_for(name, known.seeds + 1, last)
        for at in range(0, len(seeds) or 1, STRETCH):
            stretch = seeds[at : at + STRETCH]
            is_last = at + STRETCH >= len(seeds)
            known = self._after(known, stretch, last if is_last else stretch[-1])
            with self._lock:
                self._results.note_bug(known)
            if known.seed is not None:
                break
        return known

    def _seeds_for(self, name: str, first: int, last: int) -> list[int]:
        """Return the seeds whose histories may show a bug."""
        sound, seeds = self._results.sound, range(first, last + 1)
        if kinds := _only_with(name):
            failed = self._results.failed
            return [seed for seed in seeds if seed not in failed and kinds & kinds_in(seed)]
        return [seed for seed in seeds if seed in sound and name in sound[seed]]

    def _after(self, known: Found, seeds: Sequence[int], last: int) -> Found:
        """Return what is known of a bug after some more of its seeds."""
        reached = known.reached
        while seeds:
            failed = next((told for told in trial(known.name, seeds) if told.failure), None)
            if failed is None:
                break
            reached += seeds.index(failed.seed) + 1
            if self._is_sound(failed.seed):
                return Found(known.name, failed.seed, failed.seed, reached, failed.failure)
            seeds = seeds[seeds.index(failed.seed) + 1 :]
        return Found(known.name, None, last, reached + len(seeds))

    def _is_sound(self, seed: int) -> bool:
        """Whether the product as it is passes a seed."""
        if not self._results.is_known(seed):
            self._tell([seed])
        return seed in self._results.sound


def _only_with(name: str) -> frozenset[str]:
    """Return what a history must have one of to show a bug; nothing if that is not known."""
    mutant = all_mutants().get(name)
    return mutant.only_with if mutant is not None else frozenset()


@cache
def kinds_in(seed: int) -> frozenset[str]:
    """Return the kinds of clients and faults of a history."""
    plan = write_plan(str(seed))
    return frozenset(one.kind for one in (*plan.clients, *plan.faults))


def _blocks(seeds: int) -> Iterator[int]:
    """Yield the last seed of each block."""
    last = FIRST_BLOCK
    while last < seeds:
        yield last
        last *= 2
    yield seeds


# -- One process -----------------------------------------------------------------------------------


def trial(name: str, seeds: Sequence[int]) -> Iterator[Told]:
    """Yield each history that a process tells; it may end behind the first failure."""
    if not seeds:
        return
    command = [sys.executable, "-m", "tests.simulation.mutants.trial", name, *map(str, seeds)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        yield from watched(process, seeds[0])
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def watched(process: subprocess.Popen[bytes], first: int) -> Iterator[Told]:
    """Yield what the process says, until it is over, dies or falls silent."""
    seed = first
    at = "before the first history"
    for line in _lines(process):
        if line is None:
            yield Told(seed, f"hang: no history begins or ends in {HANG_SECONDS} s")
            return
        if line.get("over"):
            return
        seed = line["seed"]
        at = f"at seed {seed}"
        failures: Sequence[str] | None = line.get("failures")
        if failures is not None:
            failure = failures[0].partition("\n")[0] if failures else ""
            yield Told(seed, failure, line.get("reached", ()))
            if failure and "reached" not in line:
                return
    yield Told(seed, f"crash: the process ended with {process.wait()} {at}")


def _lines(process: subprocess.Popen[bytes]) -> Iterator[dict[str, Any] | None]:
    """Yield each line of the process; None when it says nothing for too long."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        rest = b""
        while True:
            if not selector.select(HANG_SECONDS):
                yield None
                return
            data = process.stdout.read1()  # type: ignore[attr-defined]
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield json.loads(line)


def wanted(names: Iterable[str]) -> list[str]:
    """Return the bugs that are called so, or whose names begin so; all if none is named."""
    begins = tuple(names)
    return [name for name in all_mutants() if not begins or name.startswith(begins)]
