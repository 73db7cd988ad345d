"""The runner of new seeds tells its totals however it ends."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.seeds import Told, Totals, run_many

ROOT = Path(__file__).parents[2]
TOTALS = re.compile(r"(\d+) histories of seeds t-0\.\., 0 failed, (\d+) requests, ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_all_its_processes_ends_it_with_its_totals(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "tests.simulation", "--first", "t-", "--jobs", "2"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert "new seeds t-0.." in process.stdout.readline()
        os.killpg(process.pid, number)
        rest = process.stdout.read()
    assert TOTALS.match(rest), rest
    assert process.returncode == 0


def test_it_ends_after_its_seconds_with_what_was_told() -> None:
    totals = run_many("t-", 1, 0.0, 0, lambda told: pytest.fail(str(told)))
    assert totals.histories == 0


def test_it_tells_as_many_histories_as_are_asked_for() -> None:
    totals = run_many("t-", 1, float("inf"), 2, lambda told: pytest.fail(str(told)))
    assert totals.histories == 2
    assert totals.requests > 0


def test_totals_count_histories_failures_requests_and_the_time_of_the_processor() -> None:
    totals = Totals("n-")
    totals.add(Told("n-0", [], 200, 0.2))
    totals.add(Told("n-1", ["history: lost"], 100, 0.2))
    assert totals.failed == ["n-1"]
    assert totals.line(3.2) == (
        "2 histories of seeds n-0.., 1 failed, 300 requests, 3 s; 5.0 histories a second on a core"
    )
