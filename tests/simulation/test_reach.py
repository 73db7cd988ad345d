"""The collector of lines that are never reached."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.simulation import reach
from tests.simulation.reach import (
    BEGIN,
    END,
    PROBES,
    Place,
    all_places,
    probed,
    rows,
    unneeded,
    with_table,
)

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


HANDLING = """
def f():
    try:
        a()
    except OSError | ValueError:
        b()
        def g():
            c()
    except:
        d()
    e()
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


A1, A2 = Place("a.py", "f", 1, "x | y"), Place("a.py", "f", 2, "z")
B1, B2 = Place("b/c.py", "old_one", 1, "x"), Place("b/c.py", "old_two", 2, "y")


@pytest.fixture
def reasons(monkeypatch):
    monkeypatch.setattr(reach, "REASONS", (("b/", "old", "because"),))
    monkeypatch.setattr(reach, "TEXTS", (("raise Assertion", "a bug"),))
    monkeypatch.setattr(reach, "HANDLERS", (("Exception", "a surprise"),))


@pytest.mark.usefixtures("reasons")
def test_rows_are_for_functions():
    assert list(rows([A1, A2, B1, B2], [A1, B1, B2])) == [
        "| a.py | f | 1 of 2 | `x \\| y` | |",
        "| b/c.py | old_one, old_two | | | because |",
    ]
    assert list(rows([A1, A2], [A1, A2])) == ["| a.py | f | all | | |"]
    texts = [A1, A2._replace(text="raise AssertionError"), A2._replace(handler="Exception")]
    assert list(rows(texts, texts)) == [
        "| a.py | f | 1 of 3 | `x \\| y` | |",
        "| a.py | f | | | a bug |",
        "| a.py | f | | | a surprise |",
    ]


@pytest.mark.usefixtures("reasons")
def test_a_reason_that_nothing_needs_is_told():
    assert unneeded([B1, A1._replace(text="raise AssertionError(1)")]) == [
        ("Exception", "a surprise")
    ]
    assert unneeded([A1, A2._replace(handler="Exception")]) == [
        ("b/", "old", "because"), ("raise Assertion", "a bug")
    ]  # fmt: skip


def test_every_reason_is_for_statements_that_exist():
    assert unneeded(place for own in all_places().values() for place in own) == []


def test_a_statement_knows_the_exceptions_that_lead_to_it():
    _, places = probed(HANDLING, "a.py")
    assert {place.text: place.handler for place in places} == {
        "try:": "", "a()": "", "b()": "OSError | ValueError", "def g():": "OSError | ValueError",
        "c()": "", "d()": "BaseException", "e()": "",
    }  # fmt: skip


def test_the_table_stands_between_its_marks():
    page = with_table(f"one\n{BEGIN}\nold\n{END}\ntwo\n", "new")
    assert page == f"one\n{BEGIN}\n\nnew\n\n{END}\ntwo\n"
    with pytest.raises(SystemExit):
        with_table("one", "new")


@pytest.mark.slow
def test_histories_reach_most_of_the_product():
    arguments = ["-m", "tests.simulation.reach", "--seeds", "3", "--jobs", "1", "--dry"]
    told = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
    words = next(line for line in told.stdout.splitlines() if "seeds reach" in line).split()
    assert int(words[3]) > int(words[5]) // 3
