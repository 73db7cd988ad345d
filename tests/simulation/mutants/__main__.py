"""Hunts for seeded bugs, prints what became of each, and writes the table of docs/simulation.md.

    python -m tests.simulation.mutants [NAMES] [--seeds 5000] [--jobs 2] [--seconds N] [--dry]

NAMES are bugs, or the beginnings of their names; none means all. Rows of bugs that are not named
stay in the page as they are.
"""

from __future__ import annotations

import argparse
import sys

from tests.simulation.mutants.hunt import (
    NOT_FOUND,
    PAGE,
    Hunt,
    Limits,
    all_mutants,
    row_of,
    with_rows,
)


def main() -> int:
    """Run the hunt; return how many bugs were not found, at most 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=5_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=24 * 3600.0, help="for each bug")
    parser.add_argument("--dry", action="store_true", help="leave the page as it is")
    options = parser.parse_args()
    mutants = all_mutants()
    wanted = [
        name
        for name in mutants
        if not options.names or any(name.startswith(begin) for begin in options.names)
    ]
    if not wanted:
        parser.error(f"no bug is called {' or '.join(options.names)}")
    missed = 0
    hunt = Hunt(Limits(options.seeds, options.seconds))
    for found in hunt.run(wanted, options.jobs):
        missed += found.judge == NOT_FOUND
        seeds = str(found.seed) if found.seed is not None else f"not in {found.seeds}"
        print(f"{found.name:55} {seeds:>12}  {found.failure[:160]}", flush=True)
        if not options.dry:
            row = row_of(mutants[found.name], found)
            page = PAGE.read_text(encoding="utf-8")
            PAGE.write_text(with_rows(page, {found.name: row}), encoding="utf-8")
    print(f"{len(wanted) - missed} of {len(wanted)} found", flush=True)
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
