"""Kills and power cuts of a real broker under transactional clients: each transaction is whole.

As `test_crashes`, with `tests.faults.transactional_life`.
"""

from subprocess import CompletedProcess

import pytest

from tests.faults.test_crashes import CRASHES, SEED, figure


@pytest.mark.faults
@pytest.mark.parametrize(
    "campaign", [("kill", str(CRASHES), "--transactions", *SEED)], ids=["kill"]
)
def test_kills_at_failpoints_and_at_random(ended: CompletedProcess[str]) -> None:
    assert figure(ended, "kills") >= CRASHES - 1
    assert figure(ended, "at a failpoint") > CRASHES / 6
    assert figure(ended, "transactions ended") > CRASHES
    assert figure(ended, "checks") > CRASHES / 6


@pytest.mark.faults
@pytest.mark.parametrize(
    "campaign", [("power", str(CRASHES), "--transactions", *SEED)], ids=["power"]
)
def test_power_cuts_in_three_shapes(ended: CompletedProcess[str]) -> None:
    assert figure(ended, "power cuts") >= CRASHES - 1
    assert figure(ended, "transactions ended") > CRASHES
    assert figure(ended, "checks") > CRASHES / 6
    lives = ended.stdout.splitlines()[:-1]
    assert {line.split()[2] for line in lives} == {"lost:", "zeros:", "kept:"}
