"""What the hunt makes of the processes that it starts, and of what it knows already."""

import subprocess
import sys

import pytest

from tests.simulation.mutants import hunt
from tests.simulation.mutants.hunt import UNCHANGED, Hunt, Told, watched
from tests.simulation.mutants.results import Found, Results


def told_by(program):
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        return list(watched(process, 1))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def saying(*lines):
    return "".join(f"print({line!r}, flush=True)\n" for line in lines)


def test_the_first_failure_of_a_history_finds_a_bug():
    lines = '{"seed": 1}', '{"seed": 2}', '{"seed": 2, "failures": ["log: a\\nb"]}', '{"seed": 3}'
    assert told_by(saying(*lines)) == [Told(2, "log: a")]


def test_histories_without_a_failure_find_nothing():
    assert told_by(saying('{"seed": 1}', '{"seed": 7}', '{"over": true}')) == []


def test_the_product_as_it_is_says_what_each_history_reaches():
    one = '{"seed": 1, "failures": ["log: a"], "reached": ["x"]}'
    two = '{"seed": 2, "failures": [], "reached": ["x", "y"]}'
    told = told_by(saying('{"seed": 1}', one, '{"seed": 2}', two, '{"over": true}'))
    assert told == [Told(1, "log: a", ["x"]), Told(2, "", ["x", "y"])]


def test_a_process_that_dies_has_found_its_bug():
    told = told_by(saying('{"seed": 3}') + "import os; os._exit(9)")
    assert told == [Told(3, "crash: the process ended with 9 at seed 3")]


def test_a_process_that_is_silent_has_found_its_bug(monkeypatch):
    monkeypatch.setattr(hunt, "HANG_SECONDS", 0.5)
    (told,) = told_by(saying('{"seed": 3}') + "import time; time.sleep(60)")
    assert told.seed == 3
    assert told.failure.startswith("hang: ")


@pytest.fixture
def trials(monkeypatch):
    """A product that fails seed 2 and dies at seed 4, and a bug of seeds 2, 5, 7 and 9.

    Seed 5 does not run what the bug changes.
    """
    tried = []

    def trial(name, seeds):
        tried.append((name, *seeds))
        for seed in seeds:
            if name == UNCHANGED:
                failure = {2: "log: old", 4: "crash: dead"}.get(seed, "")
                yield Told(seed, failure, () if seed == 5 else ("a-bug",))
                if seed == 4:
                    return
            elif seed in (2, 7, 9):
                yield Told(seed, "log: x")
                return

    monkeypatch.setattr(hunt, "trial", trial)
    monkeypatch.setattr(hunt, "FIRST_BLOCK", 3)
    return tried


def test_a_bug_is_hunted_for_in_blocks_with_the_seeds_that_can_tell(trials, tmp_path):
    results = Results.load(tmp_path / "results")
    assert list(Hunt(results, ["a-bug"], 1).run(10)) == [Found("a-bug", 7, 7, 4, "log: x")]
    assert trials == [
        (UNCHANGED, 1, 2, 3),
        ("a-bug", 1, 3),
        (UNCHANGED, 4, 5, 6),
        (UNCHANGED, 5, 6),
        ("a-bug", 6),
        (UNCHANGED, 7, 8, 9, 10),
        ("a-bug", 7, 8, 9, 10),
    ]


def test_a_hunt_goes_on_where_it_was_ended(trials, tmp_path):
    path = tmp_path / "results"
    missed = Found("a-bug", None, 6, 3)
    assert list(Hunt(Results.load(path), ["a-bug"], 1).run(6)) == [missed]
    with path.open("a") as file:
        file.write('{"bug":"a-bug","se')  # the line that a kill has cut
    trials.clear()
    assert list(Hunt(Results.load(path), ["a-bug"], 1).run(6)) == [missed]
    assert trials == []
    assert [found.seed for found in Hunt(Results.load(path), ["a-bug"], 1).run(10)] == [7]
    assert trials == [(UNCHANGED, 7, 8, 9, 10), ("a-bug", 7, 8, 9, 10)]


def test_a_long_hunt_notes_how_far_it_is(trials, tmp_path, monkeypatch):
    monkeypatch.setattr(hunt, "STRETCH", 2)
    path = tmp_path / "results"
    list(Hunt(Results.load(path), ["a-bug"], 1).run(10))
    known = [line for line in path.read_text().splitlines() if '"bug"' in line]
    assert [line.partition('"seeds":')[2].partition(",")[0] for line in known] == ["3", "6", "7"]


def test_a_bug_that_needs_certain_clients_is_hunted_for_with_them_alone(
    trials, tmp_path, monkeypatch
):
    monkeypatch.setattr(hunt, "_only_with", lambda _name: frozenset({"flip"}))
    monkeypatch.setattr(hunt, "kinds_in", lambda seed: {"flip"} if seed in (1, 2, 9) else {"stop"})
    results = Results.load(tmp_path / "results")
    assert list(Hunt(results, ["a-bug"], 1).run(10)) == [Found("a-bug", 9, 9, 3, "log: x")]
    assert trials == [
        ("a-bug", 1, 2),
        (UNCHANGED, 2),  # which fails without the bug, too
        ("a-bug", 9),
        (UNCHANGED, 9),
    ]
    assert results.failed == {2}
