"""Faults: none comes when the machine of a history is healed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.metadata.topic_rules import TRANSACTION_TOPIC
from tests.simulation import faults
from tests.simulation.context import Context
from tests.simulation.disk_content import entries, fill
from tests.simulation.end_faults import while_it_is_marked
from tests.simulation.faults import run_fault
from tests.simulation.plan import WISH, FaultPlan, Plan
from tests.simulation.record import Record
from tests.simulation.wishes import WISHES, put_anothers
from tests.simulation.world import MS, World
from tests.support.memory_inodes import Directory


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
        await while_it_is_marked(stage, world.chance("fault"))
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


class Wishes:
    """A history in which a fault waits for the wish of a story."""

    def __init__(self) -> None:
        self.world = World("w")
        self.ended: list[bool] = []
        self.renames: Any = None
        context = Context(
            plan=Plan("w"),
            world=self.world,
            disk=cast("Any", None),
            network=cast("Any", None),
            clock=cast("Any", None),
            record=Record(),
            loaded=cast("Any", None),
        )
        self.context = context
        self.disk = SimpleNamespace(renames=None)
        self.stage: Any = SimpleNamespace(
            world=self.world,
            context=context,
            disk=self.disk,
            end_life=lambda **how: self.ended.append(how["cuts_power"]),
        )

    def run(self, *then: Callable[[], None]) -> list[bool]:
        """Do these things, one after the other; return how the lives ended."""
        actor = self.world.spawn("fault", run_fault(self.stage, FaultPlan("w", WISH, 0)))
        for number, step in enumerate(then, 1):
            self.world.after(number * 10 * MS, step)
        self.world.run_until(lambda: actor.ended.is_set)
        assert not self.world.defects
        return self.ended


@pytest.mark.parametrize(("what", "cuts"), [("kill", [False]), ("power cut", [True]), ("", [])])
def test_a_life_ends_when_a_story_wishes_it(what: str, cuts: list[bool]) -> None:
    wishes = Wishes()
    assert wishes.run(lambda: wishes.context.wish(what)) == cuts
    assert wishes.context.wishes == []


def test_no_life_ends_without_a_wish_or_in_the_finale() -> None:
    wishes = Wishes()
    assert wishes.run() == []
    assert wishes.context.wishes == []
    wishes = Wishes()
    wishes.context.is_finale = True
    assert wishes.run(lambda: wishes.context.wish("kill")) == []


def test_a_kill_in_a_swap_comes_when_a_source_has_lost_its_name() -> None:
    wishes = Wishes()

    def renames(old: str, new: str) -> Callable[[], None]:
        return lambda: wishes.disk.renames(old, new)

    ended = wishes.run(
        lambda: wishes.context.wish("kill in a swap"),
        renames("/d/t-0/1.log", "/d/t-0/1.log.deleted"),  # by retention
        renames("/d/t-0/2.log.cleaned", "/d/t-0/2.log.swap"),
        renames("/d/u-0/2.log", "/d/u-0/2.log.deleted"),
        renames("/d/t-0/2.log", "/d/t-0/2.log.deleted"),
    )
    assert ended == [False]
    assert wishes.world.now_ns == 50 * MS


def test_each_wish_of_a_story_can_be_fulfilled() -> None:
    source = (Path(faults.__file__).parent / "clients").glob("*_stories.py")
    wished = {
        what
        for path in source
        for call in re.findall(r"teller\.wish\((.*)\)", path.read_text())
        for what in re.findall(r'"([^"]+)"', call)
    }
    assert wished == set(WISHES)


def test_another_log_is_put_in_place_of_a_storys_empty_one_alone() -> None:
    log = "00000000000000000000.log"
    directory = Directory()
    fill(
        directory,
        {
            "__consumer_offsets-0": {log: b"groups"},
            "kept-0": {log: b"records", "partition.metadata": b"id"},
            "story-0": {log: b"", "partition.metadata": b"own"},
            "story-full-0": {log: b"own"},
            "void-0": {log: b""},
        },
    )
    before = dict(entries(directory))
    said = put_anothers(directory, random.Random(1))
    assert said.endswith(" as story-0")
    changed = {path: data for path, data in entries(directory) if before.get(path) != data}
    assert changed[f"story-0/{log}"] in (b"records", b"own")
    assert {path.partition("/")[0] for path in changed} == {"story-0"}
    assert put_anothers(directory, random.Random(1)) == "restores nothing"
