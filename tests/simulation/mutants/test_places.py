"""Which statements a bug changes, and whether a history runs them."""

import subprocess
import sys

import pytest

from tests.simulation.mutants.hunt import all_mutants
from tests.simulation.mutants.mutant import ROOT
from tests.simulation.mutants.places import changed_lines, reached_by
from tests.support.thorough import some_of

BEFORE = """\
import os
LIMIT = 5
class C:
    def f(self, n):
        'words'
        if n:
            n += 1
        else:
            n -= 1
        try:
            n = g(n)
        except OSError:
            n = 0
        return n
def g(n):
    with n:
        n()
        n()
def h():
    'only words'
"""


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("n += 1", "n += 2", {7}),
        ("n -= 1", "n -= 1\n            n -= 1", {9}),
        ("if n:", "if not n:", {6}),
        ("return n", "n += 1\n        return n", {14}),
        ("        return n\n", "", {14}),
        ("return n", "return n\n        n()", {14}),  # the last statement before it
        ("except OSError", "except ValueError", {10}),
        ("n = 0", "n = 1", {10}),
        ("        n()\n        n()\n", "        n()\n", {18}),
        ("with n:", "with n + 1:", {16}),
        ("def f(self, n)", "def f(self, n=0)", None),
        ("LIMIT = 5", "LIMIT = 6", None),
        ("import os", "import os, sys", set()),
        ("'only words'", "'only words'\n    pass", {20}),
    ],
)
def test_the_statements_that_a_change_needs(old, new, lines):
    assert BEFORE.count(old) == 1
    assert changed_lines(BEFORE, BEFORE.replace(old, new)) == lines


def some_mutants():
    mutants = all_mutants()
    names = {*some_of(mutants), "acknowledge-before-fsync"}
    return {name: mutant for name, mutant in mutants.items() if name in names}


@pytest.fixture(scope="module")
def bugs():
    return {name: reached_by(mutant) for name, mutant in all_mutants().items()}


def test_most_bugs_need_statements_that_a_probe_tells_of(bugs):
    assert all(any(bug.probes.values()) for bug in bugs.values() if bug.probes is not None)
    assert sum(bug.probes is None for bug in bugs.values()) < len(bugs) // 10


def test_a_history_says_which_bugs_it_reaches_and_stays_the_same(bugs):
    program = (
        "from tests.simulation.mutants.places import Probes\n"
        "from tests.simulation.mutants.test_places import some_mutants\n"
        "probes = Probes(some_mutants().values())\n"
        "probes.plant()\n"
        "from tests.simulation.history import tell\n"
        "from tests.simulation.plan import write_plan\n"
        "print(tell(write_plan('1')).digest)\n"
        "print(*probes.reached())\n"
        "probes.clear()\n"
        "print(len(probes.reached()))\n"
    )
    from tests.simulation.history import tell  # of the product, which the other process probes
    from tests.simulation.plan import write_plan

    digest, reached, cleared = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert digest == tell(write_plan("1")).digest
    assert "acknowledge-before-fsync" in reached.split()
    untold = sum(bugs[name].probes is None for name in some_mutants())
    assert len(reached.split()) > untold == int(cleared)
