"""Few walks run at a time, clients take turns, and withdrawn walks do not run."""

import asyncio
import weakref
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from broker.runtime.metrics import Metrics
from broker.runtime.owners import Owner
from broker.runtime.record_work import AT_ONCE, RecordWork, WalkAbandoned
from protocol.record_errors import DecompressedTooLarge, InvalidRecord, TooManyRecords


class Rig:
    """Record work over a pool whose threads are the test."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.running: list[tuple[Any, Any]] = []
        pool: Any = SimpleNamespace(
            submit=lambda owner, call, done: self.running.append((call, done))
        )
        self.work = RecordWork(pool, self.metrics)
        self.called: list[str] = []
        self.ended: list[tuple[str, Any]] = []

    def submit(self, client: str, name: str) -> Any:
        return self.work.submit(
            Owner.REQUEST,
            client,
            lambda: self.called.append(name),
            lambda error: self.ended.append((name, error)),
        )

    def end_one(self, error: BaseException | None = None) -> None:
        call, done = self.running.pop(0)
        call()
        done(error)


class Frame:
    """Memory that a walk holds."""


def test_few_run_at_a_time_and_leave_threads_to_others() -> None:
    rig = Rig()
    for number in range(AT_ONCE + 3):
        rig.submit("a", str(number))
    assert len(rig.running) == AT_ONCE
    assert rig.metrics.record_walks_waiting_now == 3
    for _ in range(AT_ONCE + 3):
        assert len(rig.running) <= AT_ONCE
        rig.end_one()
    assert rig.called == [name for name, _ in rig.ended] == ["0", "1", "2", "3", "4"]
    assert (rig.running, rig.work._waiting) == ([], {})
    assert (rig.metrics.record_walks, rig.metrics.record_walks_waiting_now) == (5, 0)


def test_a_client_with_many_waits_for_its_own() -> None:
    rig = Rig()
    for number in range(AT_ONCE + 3):
        rig.submit("many", f"many {number}")
    rig.submit("few", "few")
    rig.submit("other", "other")
    while rig.running:
        rig.end_one()
    assert rig.called[AT_ONCE:] == ["many 2", "few", "other", "many 3", "many 4"]


def test_a_walk_withdrawn_in_time_never_runs() -> None:
    rig = Rig()
    walks = [rig.submit("a", str(number)) for number in range(AT_ONCE + 3)]
    assert not walks[0].withdraw(), "it runs"
    assert walks[AT_ONCE].withdraw()
    assert walks[AT_ONCE + 1].withdraw()
    while rig.running:
        rig.end_one()
    assert rig.called == ["0", "1", "4"]
    assert [name for name, _ in rig.ended] == ["0", "1", "4"]
    assert rig.metrics.record_walks_waiting_now == 0


def test_a_withdrawn_walk_releases_its_memory() -> None:
    rig = Rig()
    for number in range(AT_ONCE):
        rig.submit("a", str(number))
    frame = Frame()
    held = weakref.ref(frame)
    walk = rig.work.submit(Owner.REQUEST, "b", partial(id, frame), partial(id, frame))
    del frame
    assert held() is not None
    assert walk.withdraw()
    assert held() is None


@pytest.mark.parametrize(
    ("error", "count"),
    [(TooManyRecords("records", 9, 5), 1), (DecompressedTooLarge(4, 1, 2), 1),
     (InvalidRecord("no"), 0), (None, 0)],
)  # fmt: skip
def test_walks_that_hit_a_bound_are_counted(error: Any, count: int) -> None:
    rig = Rig()
    rig.submit("a", "walk")
    rig.end_one(error)
    assert rig.ended == [("walk", error)]
    assert rig.metrics.record_walks_refused == count


async def test_a_stop_waits_only_for_running_walks() -> None:
    rig = Rig()
    walks = [rig.submit("a", str(number)) for number in range(AT_ONCE + 3)]
    assert walks[-1].withdraw()
    rig.work.stop()
    rig.submit("b", "too late")
    assert rig.ended == [], "callbacks come later, not within the stop"
    await asyncio.sleep(0)
    assert [(name, type(error)) for name, error in rig.ended] == [
        (name, WalkAbandoned) for name in ("2", "3", "too late")
    ]
    assert not walks[AT_ONCE].withdraw(), "it has ended"
    while rig.running:
        rig.end_one()
    assert rig.called == ["0", "1"]
    assert rig.metrics.record_walks_waiting_now == 0
