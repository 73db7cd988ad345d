"""Kills and power cuts of a real broker under load: nothing is lost, duplicated or changed.

The campaigns run in parallel, each in its own process (`tests/faults/conftest.py`); the power cuts
run in a mount namespace. `make faults` runs these; `.venv/bin/python -m tests.faults` runs longer
ones.
"""

import re
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.faults.campaign import Campaign
from tests.faults.failpoints import (
    RECOVERING,
    SERVING,
    TRANSACTIONAL_RECOVERING,
    TRANSACTIONAL_SERVING,
)
from tests.faults.faulty_filesystem import Fault
from tests.support.broker_process import ROOT

CRASHES = 51
SEED = ("--seed", "20261121")


def figure(ended: CompletedProcess[str], what: str) -> int:
    """Return the last number before `what` in the output of a campaign without findings."""
    assert ended.returncode == 0, ended.stdout + ended.stderr[-4000:]
    found = re.findall(rf"(\d+) {what}", ended.stdout)
    assert found, ended.stdout
    return int(found[-1])


@pytest.mark.faults
@pytest.mark.parametrize("campaign", [("kill", str(CRASHES), *SEED)], ids=["kill"])
def test_kills_at_failpoints_and_at_random(ended: CompletedProcess[str]) -> None:
    assert figure(ended, "kills") >= CRASHES - 1
    assert figure(ended, "at a failpoint") > CRASHES / 6
    assert figure(ended, "offsets committed") > CRASHES


@pytest.mark.faults
@pytest.mark.parametrize("campaign", [("power", str(CRASHES), *SEED)], ids=["power"])
def test_power_cuts_in_three_shapes(ended: CompletedProcess[str]) -> None:
    assert figure(ended, "power cuts") >= CRASHES - 1
    assert figure(ended, "offsets committed") > CRASHES
    lives = ended.stdout.splitlines()[:-1]
    assert {line.split()[2] for line in lives} == {"lost:", "zeros:", "kept:"}


@pytest.mark.faults
@pytest.mark.parametrize("campaign", [("flip", "3")], ids=["flip"])
def test_a_flipped_bit_in_an_old_batch_costs_that_batch_alone(
    ended: CompletedProcess[str],
) -> None:
    assert figure(ended, "kills") >= 3


# -- the harness itself ----------------------------------------------------------------------------


PLACES = [*SERVING, *RECOVERING, *TRANSACTIONAL_SERVING, *TRANSACTIONAL_RECOVERING]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_every_failpoint_is_a_valid_fault(place) -> None:
    fault = Fault.parse(place.fault("kill", 3))
    assert (fault.action, fault.moment, fault.operation) == ("kill", place.moment, place.operation)
    assert (fault.nth, fault.forever, place.nth_max >= 1) == (3, False, True)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("kill before", "expected ACTION"),
        ("maim before pwrite *.log", "no action"),
        ("kill during pwrite *.log", "no moment"),
        ("kill half fdatasync *.log", "no moment"),
        ("kill before write *.log", "no operation"),
        ("kill before pwrite *.log often", "invalid literal"),
    ],
)
def test_a_malformed_fault_line_is_refused_with_a_reason(line: str, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        Fault.parse(line)


@pytest.mark.parametrize(
    ("line", "hits"),
    [
        ("kill before pwrite *.log", [1]),
        ("kill before pwrite *.log 3", [3]),
        ("kill before pwrite *.log 2+", [2, 3, 4]),
        ("kill after pwrite *.log", []),
        ("kill before pwrite *.index", []),
        ("kill before fdatasync *.log", []),
    ],
)
def test_a_fault_hits_only_its_call(line: str, hits: list[int]) -> None:
    fault = Fault.parse(line)
    assert [n for n in range(1, 5) if fault.hits("before", "pwrite", "/d/t-0/0.log")] == hits


@pytest.mark.parametrize(
    ("transactional", "serving", "recovering"),
    [(False, SERVING, RECOVERING), (True, TRANSACTIONAL_SERVING, TRANSACTIONAL_RECOVERING)],
)
def test_a_long_campaign_reaches_every_failpoint(transactional, serving, recovering) -> None:
    crashes = Campaign(Path("nowhere"), "kill", 1, transactional=transactional).crashes()
    met = {next(crashes).name.rpartition(" (")[0] for _ in range(2 * len([*serving, *recovering]))}
    wanted = {f"serving: kill {place.name}" for place in serving}
    wanted |= {f"recovering: kill {place.name}" for place in recovering}
    assert wanted <= met


def run_command(*arguments: str) -> CompletedProcess[str]:
    """Run the harness as docs/durability.md says, with the documented arguments."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_documented_command_runs(tmp_path: Path) -> None:
    done = run_command("-m", "tests.faults", "kill", "1", "--directory", str(tmp_path / "work"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 cycles: 1 kills" in done.stdout


def test_a_python_without_the_dependencies_gets_instructions() -> None:
    done = run_command("-S", "-m", "tests.faults", "kill", "1")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert "`make faults` sets an environment up" in done.stderr
