"""The collector of lines that are never reached."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.simulation import reach
from tests.simulation.reach import BEGIN, END, PROBES, Place, probed, rows, with_table

SOURCE = """
import os
class C:
    x = 1
    def f(self, n):
        'words'
        if n:
            return 1
        try:
            y = lambda: 2
        except OSError:
            pass
        else:
            n = 3
        return n
def never():
    ...
"""


def test_a_statement_of_a_function_is_marked_when_it_runs():
    tree, places = probed(SOURCE, "a.py")
    hits = bytearray(len(places))
    space = {PROBES: hits}
    exec(compile(tree, "a.py", "exec"), space)
    assert [place.text for place in places] == [
        "if n:", "try:", "return n", "return 1", "y = lambda: 2", "n = 3"
    ]  # fmt: skip
    assert {place.function for place in places} == {"C.f"}
    assert not any(hits)
    assert space["C"]().f(0) == 3
    assert [place.text for place, hit in zip(places, hits, strict=True) if not hit] == ["return 1"]


def test_rows_are_for_functions(monkeypatch):
    monkeypatch.setattr(reach, "REASONS", (("b/", "old", "because"),))
    a1, a2 = Place("a.py", "f", 1, "x | y"), Place("a.py", "f", 2, "z")
    b1, b2 = Place("b/c.py", "old_one", 1, "x"), Place("b/c.py", "old_two", 2, "y")
    assert list(rows([a1, a2, b1, b2], [a1, b1, b2])) == [
        "| a.py | f | 1 of 2 | `x \\| y` | |",
        "| b/c.py | old_one, old_two | | | because |",
    ]
    assert list(rows([a1, a2], [a1, a2])) == ["| a.py | f | all | | |"]


def test_the_table_stands_between_its_marks():
    page = with_table(f"one\n{BEGIN}\nold\n{END}\ntwo\n", "new")
    assert page == f"one\n{BEGIN}\n\nnew\n\n{END}\ntwo\n"
    with pytest.raises(SystemExit):
        with_table("one", "new")


def test_histories_reach_most_of_the_product():
    arguments = ["-m", "tests.simulation.reach", "--seeds", "1", "--jobs", "1", "--dry"]
    told = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
    words = next(line for line in told.stdout.splitlines() if "seeds reach" in line).split()
    assert int(words[3]) > int(words[5]) // 3
