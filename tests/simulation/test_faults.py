"""Faults: none comes when the machine of a history is healed."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.metadata.topic_rules import TRANSACTION_TOPIC
from tests.simulation import faults
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
    ended = _ends(lambda record: record.ending(True) if is_asked else None)
    assert ended == [True] * is_asked


def test_a_life_often_ends_with_a_transaction_in_several_partitions_only() -> None:
    narrow = [len(_ends(lambda record: record.ending(False), f"w{n}")) for n in range(40)]
    assert 0 < sum(narrow) < len(narrow) / 2


@pytest.mark.parametrize("grows", [False, True])
def test_the_power_is_cut_in_a_transaction_only_if_one_grows(grows: bool) -> None:
    kind = "power cut in a transaction"
    assert (
        _ends(lambda record: record.growing(True) if grows else None, kind=kind) == [True] * grows
    )


@pytest.mark.parametrize("is_asked", [False, True])
def test_one_log_is_slow_at_an_end_only_if_one_is_asked_for(is_asked: bool) -> None:
    world, record, slowed = World("w"), Record(), []
    stage: Any = SimpleNamespace(
        world=world,
        context=SimpleNamespace(is_finale=False, record=record, injected=set()),
        disk=SimpleNamespace(
            shape=Plan("w").shape, slow=lambda factor, **how: slowed.append(how["path_part"])
        ),
    )
    kind = "slow log at an end"
    actor = world.spawn("fault", run_fault(stage, FaultPlan(f"{kind} 1", kind, 5)))
    world.after(20 * MS, lambda: record.ending(True) if is_asked else None)
    world.run_until(lambda: actor.ended.is_set)
    assert not world.defects
    assert len(slowed) == len(stage.context.injected) == is_asked
    assert set(slowed) <= {TRANSACTION_TOPIC, "ledger"}


@pytest.mark.parametrize("is_asked", [False, True])
def test_the_disk_fails_at_an_end_only_if_one_is_asked_for(is_asked: bool) -> None:
    world, record, failing, paths = World("w"), Record(), [], set()
    for number in range(10):
        stage: Any = SimpleNamespace(
            world=world,
            context=SimpleNamespace(is_finale=False, record=record, injected=set()),
            disk=SimpleNamespace(fail=lambda op, **how: failing.append((op, how))),
        )
        name = "disk error at an end"
        actor = world.spawn("fault", run_fault(stage, FaultPlan(f"{name} {number}", name, 5)))
        world.after(20 * MS, lambda: record.ending(True) if is_asked else None)
        world.run_until(lambda actor=actor: actor.ended.is_set)  # type: ignore[misc]
        assert bool(stage.context.injected) is is_asked
    assert not world.defects
    assert len(failing) == 10 * is_asked
    for op, how in failing:
        assert op in ("pwrite", "fdatasync")
        paths.add(how["path_part"])
    assert len(paths) >= 3 * is_asked


def test_a_marker_is_synced_after_the_decision() -> None:
    world, ended = World("w"), []
    stage: Any = SimpleNamespace(
        world=world,
        context=SimpleNamespace(plan=Plan("w")),
        disk=SimpleNamespace(),
    )

    async def wait() -> None:
        await faults._while_it_is_marked(stage, world.chance("fault"))
        ended.append(world.now_ns)

    actor = world.spawn("fault", wait())
    decision, data = f"/data/{TRANSACTION_TOPIC}-0/0.log", "/data/ledger-0/0.log"
    for ms, path in ((10, data), (20, decision), (30, decision), (40, data)):
        world.after(ms * MS, lambda path=path: stage.disk.syncs(path))  # type: ignore[misc]
    world.run_until(lambda: actor.ended.is_set)
    assert not world.defects
    assert ended[0] >= 40 * MS
    assert ended[0] < 40 * MS + Plan("w").shape.fsync_ns


def _ends(
    act: Callable[[Record], None], seed: str = "w", kind: str = "power cut at an end"
) -> list[bool]:
    world, record, ended = World(seed), Record(), []
    stage: Any = SimpleNamespace(
        world=world,
        context=SimpleNamespace(is_finale=False, record=record, plan=Plan(seed)),
        end_life=lambda **how: ended.append(how["cuts_power"]),
        disk=SimpleNamespace(has_synced=None),
    )
    plan = FaultPlan(f"{kind} 0", kind, 5)
    actor = world.spawn("fault", run_fault(stage, plan))
    world.after(20 * MS, lambda: act(record))
    for ms in (30, 31, 32):
        world.after(ms * MS, lambda: stage.disk.has_synced and stage.disk.has_synced())
    world.run_until(lambda: actor.ended.is_set)
    assert not world.defects
    return ended
