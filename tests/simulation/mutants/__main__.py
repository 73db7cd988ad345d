"""Hunts for seeded bugs, prints what became of each, and writes the table of docs/simulation.md.

    python -m tests.simulation.mutants [NAMES] [--seeds 5000] [--jobs 2] [--dry]
    python -m tests.simulation.mutants --from FILE

NAMES are bugs, or the beginnings of their names; none means all. What is known is kept in a file of
the commit (`tests.simulation.mutants.results`): a hunt that was ended goes on where it was. Rows of
bugs that are not named stay in the page as they are. The second form writes the rows of what a
file knows.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.simulation.mutants.hunt import Hunt, all_mutants, wanted
from tests.simulation.mutants.page import PAGE, row_of, with_rows
from tests.simulation.mutants.results import NOT_FOUND, Found, Results, path_of_today


def main() -> int:
    """Run the hunt; return 1 if a bug was not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=5_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--dry", action="store_true", help="leave the page as it is")
    parser.add_argument("--from", type=Path, dest="file", help="hunt for nothing: use this file")
    options = parser.parse_args()
    names = wanted(options.names)
    if not names:
        parser.error(f"no bug is called {' or '.join(options.names)}")
    results = Results.load(options.file or path_of_today())
    if options.file:
        every = [results.bugs[name] for name in names if name in results.bugs]
    else:
        every = []
        for found in Hunt(results, names, options.jobs).run(options.seeds):
            print(f"{found.name:55} {_seeds(found):>12}  {found.failure[:160]}", flush=True)
            every.append(found)
    if not options.dry:
        _write(results.path.stem, every)
    missed = sum(found.judge == NOT_FOUND for found in every)
    print(f"{len(every) - missed} of {len(every)} found", flush=True)
    return bool(missed)


def _seeds(found: Found) -> str:
    return str(found.seed) if found.seed is not None else f"not in {found.seeds}"


def _write(commit: str, every: list[Found]) -> None:
    """Write the rows of these bugs into the page."""
    mutants = all_mutants()
    rows = {found.name: row_of(mutants[found.name], found, commit) for found in every}
    PAGE.write_text(with_rows(PAGE.read_text(encoding="utf-8"), rows, mutants), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
