"""The benchmark of long turns runs each of its cases to the end."""

import pytest

from benchmarks import bench_turns


@pytest.mark.parametrize("name", bench_turns.CASES)
def test_every_case_runs(name, monkeypatch, capsys):
    for constant in ("IDS", "PARTITIONS", "ABORTS", "OFFSETS", "LATE", "COMMITTED", "GROUPS"):
        monkeypatch.setattr(bench_turns, constant, 3)
    monkeypatch.setattr(bench_turns, "OLD_RECORDS", 9)
    monkeypatch.setattr(bench_turns, "IDS_OF_OLD", 3)
    assert bench_turns.main([name]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[2].startswith(f"| {name} | "), rows
