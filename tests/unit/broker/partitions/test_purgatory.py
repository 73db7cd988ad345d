"""Parked fetches leave once: satisfied, at their deadline, or with their connection."""

import asyncio

from broker.partitions.partition import ParkedFetch, Partition
from broker.partitions.purgatory import COUNTED_PER_TURN, Purgatory
from broker.runtime.metrics import Metrics
from tests.support.fake_connection import FakeConnection
from tests.support.fake_log import FakeLog


class Rig:
    """A purgatory, two partitions, and fetches that are satisfied when the test says so."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.purgatory = Purgatory(self.metrics)
        self.one, self.two = (Partition(FakeLog()) for _ in range(2))  # type: ignore[arg-type]
        self.answered: list[str] = []
        self.enough: set[str] = set()
        self.connection = FakeConnection()

    def park(self, name: str, partitions: list[Partition], wait_ms: int = 60_000) -> ParkedFetch:
        fetch = ParkedFetch(
            self.connection.request(None),
            partitions,
            lambda: name in self.enough,
            lambda: self.answered.append(name),
        )
        self.purgatory.park(fetch, wait_ms)
        return fetch

    @property
    def watchers(self) -> int:
        return len(self.one.watchers) + len(self.two.watchers)


async def test_notified_fetches_leave_only_when_satisfied() -> None:
    rig = Rig()
    rig.park("a", [rig.one, rig.two])
    rig.park("b", [rig.one])
    rig.purgatory.notify(rig.one)
    assert rig.answered == []
    rig.enough.add("a")
    rig.purgatory.notify(rig.two)
    assert rig.answered == ["a"]
    rig.purgatory.notify(rig.one)
    assert rig.answered == ["a"]
    assert rig.watchers == 1
    rig.purgatory.release_all(rig.one)
    assert rig.answered == ["a", "b"]
    assert rig.watchers == 0
    assert rig.metrics.fetches_parked_now == 0


async def test_the_fetches_of_one_connection_are_answered_early() -> None:
    rig = Rig()
    rig.park("a", [rig.one])
    leaving, rig.connection = rig.connection, FakeConnection()
    rig.park("b", [rig.one])
    rig.purgatory.release_of(leaving)
    assert rig.answered == ["a"]
    assert rig.watchers == 1


async def test_the_deadline_returns_the_available_records() -> None:
    rig = Rig()
    rig.park("a", [rig.one], wait_ms=1)
    async with asyncio.timeout(10):
        while not rig.answered:
            await asyncio.sleep(0.001)
    assert rig.answered == ["a"]
    assert rig.watchers == 0


async def test_a_closed_connection_removes_its_fetch() -> None:
    rig = Rig()
    fetch = rig.park("a", [rig.one, rig.two], wait_ms=1)
    fetch.request.abandon()
    fetch.request.abandon()
    assert rig.watchers == 0
    await asyncio.sleep(0.01)
    rig.purgatory.release_all(rig.one)
    assert rig.answered == []
    assert rig.metrics.fetches_parked_now == 0


async def test_a_queued_fetch_of_a_closed_connection_is_not_parked() -> None:
    rig = Rig()
    request = rig.connection.request(None)
    request.abandon()
    fetch = ParkedFetch(request, [rig.one], lambda: False, lambda: rig.answered.append("a"))
    rig.purgatory.park(fetch, 2**31)
    assert (rig.watchers, rig.metrics.fetches_parked_now) == (0, 0)
    assert rig.connection.sent == [()], "its slot and its bytes are released"


async def test_a_stop_answers_parked_fetches_in_order_and_parks_no_more() -> None:
    rig = Rig()
    rig.park("a", [rig.one])
    rig.park("of no partition", [])
    rig.purgatory.stop()
    rig.park("late", [rig.two])
    assert rig.answered == ["a", "of no partition", "late"]
    assert (rig.watchers, rig.metrics.fetches_parked_now) == (0, 0)


async def test_a_fetch_released_within_a_notification_is_answered_once() -> None:
    rig = Rig()
    first = rig.park("a", [rig.one])
    rig.park("b", [rig.one])
    rig.enough |= {"a", "b"}
    first.complete = lambda: (rig.answered.append("a"), rig.purgatory.notify(rig.one))  # type: ignore[assignment,func-returns-value]
    rig.purgatory.notify(rig.one)
    assert sorted(rig.answered) == ["a", "b"]


async def test_a_fetch_that_fails_affects_no_other() -> None:
    """When counting or answering fails, that fetch alone loses its connection."""

    def fail() -> None:
        raise ZeroDivisionError

    for broken in ("is_satisfied", "complete"):
        rig = Rig()
        first = rig.park("a", [rig.one])
        rig.park("b", [rig.one])
        rig.enough |= {"a", "b"}
        setattr(first, broken, fail)
        rig.purgatory.notify(rig.one)
        assert rig.answered == (["a", "b"] if broken == "is_satisfied" else ["b"])
        assert bool(rig.connection.aborted) == (broken == "complete")
        assert rig.watchers == 0
        assert rig.metrics.fetches_parked_now == 0


async def test_large_fetches_that_have_left_are_not_looked_at() -> None:
    rig = Rig()
    for number in range(20):
        fetch = rig.park(f"{number}", [rig.one])
        fetch.is_large = True
        rig.purgatory.notify(rig.one)
        fetch.request.abandon()
        assert rig.purgatory.looks_due == 0
    last = rig.park("last", [rig.one])
    last.is_large = True
    rig.enough.add("last")
    rig.purgatory.notify(rig.one)
    rig.purgatory.notify(rig.one)
    assert rig.purgatory.looks_due == 1
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert rig.answered == ["last"]


async def test_each_large_fetch_is_looked_at_although_others_leave() -> None:
    rig = Rig()
    fetches = [rig.park(name, [rig.one]) for name in "abc"]
    for fetch in fetches:
        fetch.is_large = True
    rig.enough.update("abc")
    rig.purgatory.notify(rig.one)
    fetches[0].request.abandon()
    async with asyncio.timeout(10):
        while len(rig.answered) < 2:
            await asyncio.sleep(0)
    assert rig.answered == ["b", "c"]


async def test_a_fetch_of_some_partitions_counts_once_although_all_of_them_have_news() -> None:
    """After the end of a transaction, for example: each look is at all partitions of the fetch."""
    rig = Rig()
    looks: list[str] = []
    partitions = [Partition(FakeLog()) for _ in range(10)]  # type: ignore[arg-type]
    for count, name in ((4, "few"), (10, "some")):
        fetch = rig.park(name, partitions[:count])
        fetch.is_satisfied = lambda name=name: bool(looks.append(name))
    for _ in range(3):
        for partition in partitions:
            rig.purgatory.notify(partition)
    assert looks == ["few"] * 12
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert looks == ["few"] * 12 + ["some"]
    rig.purgatory.release_all(partitions[0])


async def test_several_fetches_of_some_partitions_count_in_one_turn() -> None:
    rig = Rig()
    partitions = [Partition(FakeLog()) for _ in range(10)]  # type: ignore[arg-type]
    names = [f"{number}" for number in range(COUNTED_PER_TURN // 10 + 1)]
    for name in names:
        rig.park(name, partitions)
    rig.enough.update(names)
    rig.purgatory.notify(partitions[0])
    await asyncio.sleep(0)
    assert rig.answered == names[:-1]
    await asyncio.sleep(0)
    assert rig.answered == names
