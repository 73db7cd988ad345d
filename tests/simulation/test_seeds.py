"""The runner of new seeds tells its totals however it ends."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.seeds import Told, Totals
from tests.support.thorough import some_of

ROOT = Path(__file__).parents[2]
TOTALS = re.compile(r"(\d+) histories of seeds t-0\.\., 0 failed, (\d+) requests, ")


@pytest.mark.parametrize("number", some_of([signal.SIGTERM, signal.SIGINT]))
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


@pytest.mark.parametrize(("option", "told"), some_of([("--count=2", 2), ("--seconds=0", 0)]))
def test_it_ends_after_its_seconds_or_its_histories(option: str, told: int) -> None:
    """In a process of its own: it forks, which one that has run other tests must not."""
    command = [sys.executable, "-m", "tests.simulation", "--first", "t-", "--jobs", "1", option]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    totals = TOTALS.search(done.stdout)
    assert totals is not None, done.stdout
    assert int(totals[1]) == told
    assert (int(totals[2]) > 0) is bool(told)


def test_totals_count_histories_failures_requests_and_the_time_of_the_processor() -> None:
    totals = Totals("n-")
    totals.add(Told("n-0", [], 200, 0.2))
    totals.add(Told("n-1", ["history: lost"], 100, 0.2))
    assert totals.failed == ["n-1"]
    assert totals.line(3.2) == (
        "2 histories of seeds n-0.., 1 failed, 300 requests, 3 s; 5.0 histories a second on a core"
    )
