"""Every seeded bug applies to today's code, compiles, and changes it; loading it does what it says.

When one of these fails, the product has changed where a bug is seeded: seed it in the new code, as
somebody would write it there, or take it out if it can no longer be written.
"""

import ast
import re
import subprocess
import sys

import pytest

from tests.simulation.mutants.hunt import all_mutants
from tests.simulation.mutants.mutant import ROOT, DoesNotApply, Mutant, text_of

MUTANTS = all_mutants()
NAMES = list(MUTANTS)
COUNT_MIN = 75


def test_there_are_enough_of_them():
    assert len(MUTANTS) >= COUNT_MIN


@pytest.mark.parametrize("name", NAMES)
def test_a_mutant_applies_compiles_and_differs(name):
    mutant = MUTANTS[name]
    for file in mutant.files:
        source = mutant.source(file)
        before, after = ast.parse(text_of(file)), ast.parse(source)
        compile(source, file, "exec")
        assert ast.dump(before) != ast.dump(after), f"{name} changes nothing in {file}"


def test_names_and_rows_are_unique_and_of_one_form():
    assert [name for name in NAMES if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name)] == []
    rows = [mutant.row for mutant in MUTANTS.values()]
    assert len(set(rows)) == len(rows)
    assert [row for row in rows if "|" in row or row.endswith(".") or "  " in row] == []


def test_mutants_change_the_product_and_nothing_else():
    packages = ("broker/", "storage/", "protocol/", "config/")
    changed = {file for mutant in MUTANTS.values() for file in mutant.files}
    assert [file for file in sorted(changed) if not file.startswith(packages)] == []


def test_a_mutant_that_no_longer_applies_says_so():
    gone = Mutant("gone-code", "a row", "broker/server.py", "no such text", "x")
    with pytest.raises(DoesNotApply, match=r"gone-code: .* broker/server.py 0 times"):
        gone.source("broker/server.py")


def test_a_fresh_process_runs_the_mutated_module():
    program = (
        "from tests.simulation.mutants.hunt import all_mutants\n"
        "from tests.simulation.mutants.loading import plant\n"
        "plant(all_mutants()['one-batch-too-few-remembered'])\n"
        "from storage.producers.producer_state import BATCHES_KEPT\n"
        "print(BATCHES_KEPT)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "4\n"


def test_a_module_that_is_imported_already_is_refused():
    import storage.producers.producer_state  # noqa: F401 - what the mutant changes
    from tests.simulation.mutants.loading import plant

    with pytest.raises(AssertionError, match="imported before"):
        plant(MUTANTS["one-batch-too-few-remembered"])
