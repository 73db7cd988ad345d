"""The comparison of transactions runs on one side, and prints a table."""

import pytest

from benchmarks import transactions
from benchmarks.results import Results

CELLS = ("TV1, 1 producer, 3 partitions", "TV2, 1 producer, 3 partitions")


def test_both_versions_run_and_a_later_call_goes_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(transactions, "BARE_COUNT", 3)
    options = ["--side", "Barnabas", "--only", "1 producer, 3", "--seconds", "0.05"]
    options += ["--warm-seconds", "0", "--directory", str(tmp_path)]
    assert transactions.main([*options, "--rounds", "1"]) == 0
    told = capsys.readouterr().out
    for cell in CELLS:
        assert f"| {cell} | {transactions.P50} |  |  | " in told
    assert "| round | four bare fdatasyncs" in told
    found = Results(tmp_path / "transactions.json", {})
    assert [len(found.pairs(cell)) for cell in CELLS] == [1, 1]
    assert transactions.main([*options, "--rounds", "1"]) == 0  # nothing is missing
    assert len(Results(tmp_path / "transactions.json", {}).pairs(CELLS[0])) == 1


@pytest.mark.parametrize(
    "cell",
    [
        "from EndTxn sent to readable",
        pytest.param("fetch, 1 KiB a transaction, 50 % aborted", marks=pytest.mark.slow),
    ],
)
def test_readers_are_measured(tmp_path, capsys, monkeypatch, cell):
    monkeypatch.setattr(transactions, "BARE_COUNT", 3)
    monkeypatch.setattr(transactions, "READING_COUNT", 20)
    options = ["--side", "Barnabas", "--only", cell, "--seconds", "0.02", "--rounds", "1"]
    options += ["--warm-seconds", "0", "--directory", str(tmp_path)]
    assert transactions.main(options) == 0
    assert f"| {cell} |" in capsys.readouterr().out
