"""The benchmark of long turns runs each of its cases to the end."""

from types import SimpleNamespace

import pytest

from benchmarks import bench_turns


@pytest.mark.parametrize("name", bench_turns.CASES)
def test_every_case_runs(name, monkeypatch, capsys):
    for constant in ("IDS", "PARTITIONS", "ABORTS", "OFFSETS", "LATE", "COMMITTED", "GROUPS"):
        monkeypatch.setattr(bench_turns, constant, 3)
    monkeypatch.setattr(bench_turns, "OLD_RECORDS", 9)
    monkeypatch.setattr(bench_turns, "IDS_OF_OLD", 3)
    # Collections take a second each in a process that has run many tests.
    collector = SimpleNamespace(collect=int, freeze=int, unfreeze=int)
    monkeypatch.setattr(bench_turns, "gc", collector)
    monkeypatch.setattr(bench_turns, "ROUNDS", 1)
    assert bench_turns.main([name]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[2].startswith(f"| {name} | "), rows
