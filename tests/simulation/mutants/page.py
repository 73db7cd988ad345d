"""The table of docs/simulation.md: what became of each bug, and at which commit."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tests.simulation.mutants.mutant import ROOT, Mutant
from tests.simulation.mutants.results import Found

PAGE: Final = ROOT / "docs" / "simulation.md"
BEGIN: Final = "<!-- mutants: begin (python -m tests.simulation.mutants) -->"
END: Final = "<!-- mutants: end -->"
HEAD: Final = (
    "| bug | what it does | seeds needed | judge | what it said | commit |\n"
    "|---|---|---|---|---|---|\n"
)
MISSED: Final = "| not in "
FAILURE_CHARS_MAX: Final = 110


def row_of(mutant: Mutant, found: Found, commit: str) -> str:
    """Return the line of a bug in the table."""
    said = " ".join(found.failure.partition(":")[2].split()).replace("|", "\\|")
    said = said.replace("`", "'")
    if len(said) > FAILURE_CHARS_MAX:
        said = said[:FAILURE_CHARS_MAX].rsplit(" ", 1)[0] + " …"
    seeds = str(found.seed)
    if found.seed is None:
        which = "were told" if mutant.only_with else "run its code"
        seeds = f"not in {found.seeds:,}, of which {found.reached:,} {which}"
    said = f"`{said}`" if said else ""
    return f"| {mutant.name} | {mutant.row} | {seeds} | {found.judge} | {said} | {commit} |"


def rows_in(page: str) -> dict[str, str]:
    """Return the lines of the table in a page, by the name of the bug."""
    _, _, rest = page.partition(BEGIN)
    lines = rest.partition(END)[0].splitlines()
    return {
        line.split("|")[1].strip(): line
        for line in lines
        if line.startswith("| ") and not line.startswith("| bug |")
    }


def with_rows(page: str, rows: dict[str, str], names: Collection[str]) -> str:
    """Return the page with `rows` in its table, in the order of `names`, all bugs that there are.

    Rows of bugs that are not in `rows` stay.
    """
    known = rows_in(page) | rows
    lines = [known[name] for name in names if name in known]
    found = [line for line in lines if MISSED not in line]
    summary = f"{len(found)} of {len(names)} bugs are found"
    if len(lines) < len(names):
        summary += f"; {len(names) - len(lines)} were not hunted yet"
    before, begin, rest = page.partition(BEGIN)
    assert begin, f"{PAGE} has no line {BEGIN}"
    _, end, after = rest.partition(END)
    assert end, f"{PAGE} has no line {END}"
    table = HEAD + "\n".join(lines)
    return f"{before}{BEGIN}\n\n{summary}.\n\n{table}\n\n{END}{after}"
