"""The comparison of flushes side by side and one after the other runs and prints a table."""

import pytest

from benchmarks import bench_commit_round


def test_every_way_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench_commit_round.main(["2", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in lines] == [
        "| 2 logs, ms",
        "|---|---:|---:|---:|",
        "| bare, in turn",
        "| bare, side by side",
        "| rounds of group commit",
        "| durable_together",
    ]
