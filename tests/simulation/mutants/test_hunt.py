"""What the hunt makes of the processes that it starts, and of the page that it keeps."""

import subprocess
import sys
import time

import pytest

from tests.simulation.mutants import hunt
from tests.simulation.mutants.hunt import (
    BEGIN,
    END,
    UNCHANGED,
    Found,
    Hunt,
    Limits,
    all_mutants,
    row_of,
    rows_in,
    with_rows,
)

FIRST, SECOND = list(all_mutants().values())[:2]


def watched(program, *, ends=None):
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        return hunt._watch("a-bug", process, 1, ends or time.monotonic() + 60)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def saying(*lines):
    return "".join(f"print({line!r}, flush=True)\n" for line in lines)


def test_the_first_failure_of_a_history_finds_a_bug():
    found = watched(saying('{"seed": 1}', '{"seed": 2}', '{"seed": 2, "failures": ["log: a\\nb"]}'))
    assert found == Found("a-bug", 2, 2, "log: a")
    assert found.judge == "log"


def test_histories_without_a_failure_find_nothing():
    found = watched(saying('{"seed": 1}', '{"seed": 7}', '{"over": true}'))
    assert found == Found("a-bug", None, 7)


def test_a_process_that_dies_has_found_its_bug():
    found = watched(saying('{"seed": 3}') + "import os; os._exit(9)")
    assert found == Found("a-bug", 3, 3, "crash: the process ended with 9 at seed 3")


def test_a_process_that_is_silent_has_found_its_bug(monkeypatch):
    monkeypatch.setattr(hunt, "HANG_SECONDS", 0.5)
    found = watched(saying('{"seed": 3}') + "import time; time.sleep(60)")
    assert (found.seed, found.judge) == (3, "hang")


def test_a_hunt_ends_when_its_time_is_over():
    found = watched(saying('{"seed": 4}') + "import time; time.sleep(60)", ends=time.monotonic())
    assert found == Found("a-bug", None, 3)


def test_a_seed_that_the_product_fails_does_not_count(monkeypatch):
    """Seed 2 fails with and without the bug, seed 5 only with it."""
    tries = []

    def attempt(name, first, last, ends):
        tries.append((name, first, last))
        bad = [seed for seed in (2, 5) if first <= seed <= last and (name, seed) != (UNCHANGED, 5)]
        return Found(name, bad[0], bad[0], "log: x") if bad else Found(name, None, last)

    monkeypatch.setattr(hunt, "_try", attempt)
    assert Hunt(Limits(9, 60)).find("a-bug") == Found("a-bug", 5, 5, "log: x")
    assert tries == [("a-bug", 1, 9), (UNCHANGED, 2, 2), ("a-bug", 3, 9), (UNCHANGED, 5, 5)]


def test_the_table_keeps_rows_of_bugs_that_were_not_hunted():
    page = f"# A page\n\n{BEGIN}\n{END}\nThe end.\n"
    one = row_of(FIRST, Found(FIRST.name, 12, 12, "log: `a` | b"))
    two = row_of(SECOND, Found(SECOND.name, None, 5000))
    page = with_rows(with_rows(page, {SECOND.name: two}), {FIRST.name: one})
    assert rows_in(page) == {FIRST.name: one, SECOND.name: two}
    assert page.index(FIRST.name) < page.index(SECOND.name)
    assert "1 of 2 bugs are found." in page
    assert page.startswith("# A page\n")
    assert page.endswith(f"{END}\nThe end.\n")
    assert with_rows(page, {}) == page


def test_a_row_says_bug_seeds_judge_and_failure():
    row = row_of(FIRST, Found(FIRST.name, 12, 12, "log: `a` | b"))
    assert row == f"| {FIRST.name} | {FIRST.row} | 12 | log | `'a' \\| b` |"
    missed = row_of(FIRST, Found(FIRST.name, None, 5000))
    assert missed == f"| {FIRST.name} | {FIRST.row} | not in 5,000 | none |  |"


def test_a_page_without_the_markers_is_refused():
    with pytest.raises(AssertionError, match="has no line"):
        with_rows("# A page\n", {})
