"""Faults: none comes when the machine of a history is healed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulation.faults import run_fault
from tests.simulation.plan import FaultPlan, Plan
from tests.simulation.record import Record
from tests.simulation.world import MS, World


@pytest.mark.parametrize("is_finale", [False, True])
def test_a_fault_whose_time_comes_late_does_nothing(is_finale: bool) -> None:
    world, jumps = World("w"), []
    stage: Any = SimpleNamespace(
        world=world,
        context=SimpleNamespace(is_finale=False, clock_leaps=0),
        clock=SimpleNamespace(jump=jumps.append),
    )
    actor = world.spawn("fault", run_fault(stage, FaultPlan("clock jump 1", "clock jump", 5)))
    stage.context.is_finale = is_finale
    world.run_until(lambda: actor.ended.is_set)
    assert not world.defects
    assert len(jumps) == (0 if is_finale else 1)


@pytest.mark.parametrize("is_asked", [False, True])
def test_a_life_ends_with_a_transaction_only_if_one_is_ended(is_asked: bool) -> None:
    world, record, ended = World("w"), Record(), []
    stage: Any = SimpleNamespace(
        world=world,
        context=SimpleNamespace(is_finale=False, record=record, plan=Plan("w")),
        end_life=lambda **how: ended.append(how["cuts_power"]),
    )
    plan = FaultPlan("power cut at an end 0", "power cut at an end", 5)
    actor = world.spawn("fault", run_fault(stage, plan))
    world.after(20 * MS, lambda: record.ending() if is_asked else None)
    world.run_until(lambda: actor.ended.is_set)
    assert not world.defects
    assert ended == [True] * is_asked
