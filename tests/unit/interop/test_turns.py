"""The comparisons to run: those whose subject changed, and a third of the others."""

from collections import Counter
from fnmatch import fnmatch

import pytest

from tests.interop import turns
from tests.interop.turns import ROOT, SUBJECTS, due

COMMITS = [f"{number:08x}{'0' * 32}" for number in range(30)]


def test_every_module_has_a_subject_that_exists() -> None:
    modules = {path.stem for path in (ROOT / "tests" / "interop").glob("test_*.py")}
    assert modules == {name for name in SUBJECTS if name.startswith("test_")}
    files = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("[!.]*/**/*.*")]
    files += [path.name for path in ROOT.iterdir()] + ["docker/run"]
    patterns = {pattern for subject in SUBJECTS.values() for pattern in subject}
    stale = [one for one in patterns if not any(fnmatch(path, one) for path in files)]
    assert stale == [], "these subjects no longer exist"


def test_a_change_runs_its_comparisons() -> None:
    for commit in COMMITS:
        assert {"test_metadata_snapshots", "test_refusals"} <= due(
            commit, ["broker/metadata/image.py"]
        )
        assert "test_groups" in due(commit, ["tests/interop/test_groups.py"])
    assert due(COMMITS[0], ["tests/interop/oracle/kafka.py"]) == set(SUBJECTS)


def test_every_other_comparison_runs_in_one_of_three_commits() -> None:
    rounds = [due(commit, []) for commit in COMMITS]
    assert {len(one) for one in rounds} <= {len(SUBJECTS) // 3, len(SUBJECTS) // 3 + 1}
    assert Counter(name for one in rounds for name in one) == dict.fromkeys(SUBJECTS, 10)


def test_all_comparisons_run_if_the_changes_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert due("", []) == due(COMMITS[1], None) == set(SUBJECTS)
    monkeypatch.setenv("TURNS", "1")
    monkeypatch.setattr(turns, "due_now", lambda: frozenset({"test_image"}))
    assert "test_groups" in turns.waiting()
    assert "test_image" not in turns.waiting()
    monkeypatch.delenv("TURNS")
    assert turns.waiting() == []
