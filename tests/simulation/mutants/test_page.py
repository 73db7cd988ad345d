"""The table of docs/simulation.md."""

import pytest

from tests.simulation.mutants.hunt import all_mutants
from tests.simulation.mutants.page import BEGIN, END, row_of, rows_in, with_rows
from tests.simulation.mutants.results import Found

MUTANTS = all_mutants()
FIRST, SECOND = list(MUTANTS.values())[:2]


def test_the_table_keeps_rows_of_bugs_that_were_not_hunted():
    page = f"# A page\n\n{BEGIN}\n{END}\nThe end.\n"
    one = row_of(FIRST, Found(FIRST.name, 12, 12, 9, "log: `a` | b"), "c0ffee")
    two = row_of(SECOND, Found(SECOND.name, None, 5000, 3), "c0ffee")
    page = with_rows(with_rows(page, {SECOND.name: two}, MUTANTS), {FIRST.name: one}, MUTANTS)
    assert rows_in(page) == {FIRST.name: one, SECOND.name: two}
    assert page.index(FIRST.name) < page.index(SECOND.name)
    count = len(MUTANTS)
    assert f"1 of {count} bugs are found; {count - 2} were not hunted yet." in page
    assert page.startswith("# A page\n")
    assert page.endswith(f"{END}\nThe end.\n")
    assert with_rows(page, {}, MUTANTS) == page


def test_a_row_says_bug_seeds_judge_failure_and_commit():
    row = row_of(FIRST, Found(FIRST.name, 12, 12, 9, "log: `a` | b"), "c0ffee")
    assert row == f"| {FIRST.name} | {FIRST.row} | 12 | log | `'a' \\| b` | c0ffee |"
    missed = row_of(FIRST, Found(FIRST.name, None, 5000, 3), "c0ffee")
    seeds = "not in 5,000, of which 3 run its code"
    assert missed == f"| {FIRST.name} | {FIRST.row} | {seeds} | none |  | c0ffee |"


def test_a_page_without_the_markers_is_refused():
    with pytest.raises(AssertionError, match="has no line"):
        with_rows("# A page\n", {}, MUTANTS)
