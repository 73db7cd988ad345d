"""Runs the simulator on bug after bug, and keeps the table of docs/simulation.md.

Each bug gets a fresh process (`tests.simulation.mutants.trial`), since its modules are loaded with
the bug in them. A process that dies, or that begins no history for `HANG_SECONDS`, has found its
bug too. A seed counts only if the product without the bug passes it; otherwise the hunt goes on
behind that seed.
"""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from tests.simulation.mutants.mutant import ROOT, Mutant
from tests.simulation.mutants.tables import (
    as_kafka,
    bounds,
    containment,
    durability,
    loop_work,
    promises,
    slips_broker,
    slips_files,
    slips_groups,
    slips_logs,
)

UNCHANGED: Final = "unchanged"
HANG_SECONDS: Final = 60
NOT_FOUND: Final = "none"
PAGE: Final = ROOT / "docs" / "simulation.md"
BEGIN: Final = "<!-- mutants: begin (python -m tests.simulation.mutants) -->"
END: Final = "<!-- mutants: end -->"
HEAD: Final = (
    "| bug | what it does | seeds needed | judge | what it said |\n|---|---|---|---|---|\n"
)
FAILURE_CHARS_MAX: Final = 110

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
)


class Found(NamedTuple):
    """What became of one bug: the failure at `seed`, or `seeds` histories without one."""

    name: str
    seed: int | None
    seeds: int
    failure: str = ""

    @property
    def judge(self) -> str:
        """The judge that objected first; `hang` or `crash` for the process."""
        return self.failure.partition(":")[0] if self.seed is not None else NOT_FOUND


class Limits(NamedTuple):
    """How long to hunt for one bug."""

    seeds: int
    seconds: float


def all_mutants() -> dict[str, Mutant]:
    """Return every seeded bug by name, in the order of the table."""
    mutants: dict[str, Mutant] = {}
    for table in TABLES:
        for mutant in table.MUTANTS:
            assert mutant.name not in mutants, f"two bugs are called {mutant.name}"
            mutants[mutant.name] = mutant
    return mutants


class Hunt:
    """The hunt for several bugs, and what is known about seeds of the product as it is."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._passes: dict[int, bool] = {}  # seed: whether the unchanged product passes it

    def run(self, names: Iterable[str], jobs: int) -> Iterator[Found]:
        """Yield what became of each bug, in their order."""
        with ThreadPoolExecutor(jobs) as threads:
            yield from threads.map(self.find, names)

    def find(self, name: str) -> Found:
        """Hunt for one bug."""
        ends = time.monotonic() + self._limits.seconds
        first = 1
        while first <= self._limits.seeds:
            found = _try(name, first, self._limits.seeds, ends)
            if found.seed is None or self._is_sound(found.seed):
                return found
            first = found.seed + 1
        return Found(name, None, self._limits.seeds)

    def _is_sound(self, seed: int) -> bool:
        """Whether the product without a bug passes the seed."""
        with self._lock:
            if seed not in self._passes:
                found = _try(UNCHANGED, seed, seed, time.monotonic() + 10 * HANG_SECONDS)
                self._passes[seed] = found.seed is None
            return self._passes[seed]


def _try(name: str, first: int, last: int, ends: float) -> Found:
    """Run one process over the seeds until one fails, the time is over, or it hangs or dies."""
    command = [sys.executable, "-m", "tests.simulation.mutants.trial", name, str(first), str(last)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        return _watch(name, process, first, ends)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _watch(name: str, process: subprocess.Popen[bytes], first: int, ends: float) -> Found:
    seed = first
    begun = False
    for line in _lines(process):
        if line is None:
            return Found(name, seed, seed, f"hang: no history begins or ends in {HANG_SECONDS} s")
        if line.get("over"):
            return Found(name, None, seed)
        seed, begun = line["seed"], True
        if failures := line.get("failures"):
            return Found(name, seed, seed, _first_line(failures))
        if time.monotonic() > ends:
            return Found(name, None, seed - 1)
    at = f"at seed {seed}" if begun else "before the first history"
    return Found(name, seed, seed, f"crash: the process ended with {process.wait()} {at}")


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


def _first_line(failures: Sequence[str]) -> str:
    return failures[0].partition("\n")[0]


# -- the table -------------------------------------------------------------------------------------


def row_of(mutant: Mutant, found: Found) -> str:
    """Return the line of a bug in the table."""
    said = " ".join(found.failure.partition(":")[2].split()).replace("|", "\\|")
    said = said.replace("`", "'")
    if len(said) > FAILURE_CHARS_MAX:
        said = said[:FAILURE_CHARS_MAX].rsplit(" ", 1)[0] + " …"
    seeds = str(found.seed) if found.seed is not None else f"not in {found.seeds:,}"
    said = f"`{said}`" if said else ""
    return f"| {mutant.name} | {mutant.row} | {seeds} | {found.judge} | {said} |"


def rows_in(page: str) -> dict[str, str]:
    """Return the lines of the table in a page, by the name of the bug."""
    _, _, rest = page.partition(BEGIN)
    lines = rest.partition(END)[0].splitlines()
    return {
        line.split("|")[1].strip(): line
        for line in lines
        if line.startswith("| ") and not line.startswith("| bug |")
    }


def with_rows(page: str, rows: dict[str, str]) -> str:
    """Return the page with `rows` in its table; rows of other bugs that exist still stay."""
    known = rows_in(page) | rows
    mutants = all_mutants()
    lines = [known[name] for name in mutants if name in known]
    found = [line for line in lines if "| not in " not in line]
    summary = f"{len(found)} of {len(lines)} bugs are found.\n\n"
    before, begin, rest = page.partition(BEGIN)
    assert begin, f"{PAGE} has no line {BEGIN}"
    _, end, after = rest.partition(END)
    assert end, f"{PAGE} has no line {END}"
    table = HEAD + "\n".join(lines)
    return f"{before}{BEGIN}\n\n{summary}{table}\n\n{END}{after}"
