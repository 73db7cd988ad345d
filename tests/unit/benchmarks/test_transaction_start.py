"""The benchmark of starts with many transactions: a broker takes the files that it writes."""

import pytest

from benchmarks import transaction_start


@pytest.mark.slow  # six starts of a process
def test_a_broker_starts_on_what_is_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(transaction_start, "CHECKPOINT_SECONDS", 0)
    options = ["--without-kafka", "--ids", "30", "--aborts", "250", "--directory", str(tmp_path)]
    assert transaction_start.main(options) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split(" | ")[1:3] for row in rows if row.startswith("| Barnabas")] == [
        [what, how]
        for what in ("30 ids", "250 aborted transactions")
        for how in ("recovered", "SIGTERM", "SIGKILL")
    ]
