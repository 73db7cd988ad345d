"""Jobs of the pool overlap at their pauses only, in an order of the seed."""

import asyncio
from collections.abc import Callable

import pytest

import storage.trash
from tests.simulation.conftest import MakeLoop
from tests.simulation.loop import SimLoop
from tests.simulation.pool import (
    Baton,
    BatonEvent,
    BatonExecutor,
    BatonLock,
    Job,
    Killed,
    threading_of,
)
from tests.simulation.world import MS, SECOND

PartyOf = Callable[..., "Party"]


class Party:
    """A loop, a baton, and an executor of three threads."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.world = loop.world
        self.baton = Baton(self.world)
        self.executor = BatonExecutor(self.baton, 3, "test")
        self.told: list[str] = []

    def work(self, name: str, pauses: int = 2) -> str:
        for number in range(pauses):
            self.told.append(f"{name}{number}")
            self.baton.pause(MS)
        self.told.append(f"{name} ends")
        return name

    def run(self, name: str, pauses: int = 2) -> "asyncio.Future[str]":
        return self.loop.run_in_executor(self.executor, self.work, name, pauses)


@pytest.fixture
def party_of(loop_of: MakeLoop) -> PartyOf:
    """Return what makes a party of a seed."""
    return lambda seed="1": Party(loop_of(seed))


def test_jobs_overlap_where_they_pause(party_of: PartyOf) -> None:
    orders = set()
    for seed in range(5):
        party = party_of(str(seed))
        futures = [party.run("a"), party.run("b")]
        for future in futures:
            party.loop.run_until_complete(future)
        assert sorted(party.told) == ["a ends", "a0", "a1", "b ends", "b0", "b1"]
        orders.add(tuple(party.told))
    assert len(orders) > 1


def test_a_pause_in_which_nothing_happens_needs_no_hand_over(party_of: PartyOf) -> None:
    party = party_of()
    party.baton.is_alone_until = party.loop.rests_until
    handed_over = []
    party.world.at(50 * MS, lambda: handed_over.append(party.world.now_ns))

    def work() -> list[int]:
        seen = []
        for _ in range(9):
            party.baton.pause(10 * MS)
            seen.append(len(handed_over))
        return seen

    future = party.loop.run_in_executor(party.executor, work)
    timer = party.loop.call_later(0.08, lambda: handed_over.append(party.world.now_ns))
    steps = 0
    step = Job.step

    def counted(job: Job) -> None:
        nonlocal steps
        steps += 1
        step(job)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Job, "step", counted)
        seen = party.loop.run_until_complete(future)
    timer.cancel()
    assert len(handed_over) == 2
    assert seen[0] == 0
    assert seen[-1] == 2
    assert steps == 2  # after the event, and after the timer; the first was bound before


def test_no_more_jobs_begin_than_there_are_threads(party_of: PartyOf) -> None:
    party = party_of()
    futures = [party.run(name) for name in "abcd"]
    party.loop.run_until_complete(futures[3])
    begun = party.told.index("d0")
    assert any(line.endswith("ends") for line in party.told[:begun])


def test_a_job_may_be_stuck_for_minutes_while_the_loop_goes_on(party_of: PartyOf) -> None:
    party = party_of()
    stuck = party.loop.run_in_executor(party.executor, party.baton.pause, 300 * SECOND)
    party.loop.run_until_complete(asyncio.sleep(60))
    assert not stuck.done()
    party.loop.run_until_complete(stuck)
    assert party.world.now_ns >= 300 * SECOND


def test_a_pause_on_the_loop_only_takes_time(party_of: PartyOf) -> None:
    party = party_of()
    assert party.baton.on_loop
    party.baton.pause(7 * MS)
    assert party.world.now_ns == 7 * MS


def test_a_lock_held_over_a_pause_keeps_others_out(party_of: PartyOf) -> None:
    party = party_of()
    lock = BatonLock(party.baton)

    def locked(name: str) -> None:
        with lock:
            party.work(name)

    futures = [party.loop.run_in_executor(party.executor, locked, name) for name in "ab"]
    for future in futures:
        party.loop.run_until_complete(future)
    first = party.told[0][0]
    assert [line[0] for line in party.told] == sorted("aaabbb", reverse=first == "b")


def test_the_loop_that_waits_for_a_lock_is_blocked(party_of: PartyOf) -> None:
    party = party_of()
    lock = BatonLock(party.baton)

    def locked() -> None:
        with lock:
            party.baton.pause(50 * MS)

    job = party.loop.run_in_executor(party.executor, locked)
    party.loop.run_until_complete(asyncio.sleep(0.01))
    with lock:
        assert party.baton.blocked_ns > 30 * MS
    party.loop.run_until_complete(job)


def test_an_event_wakes_the_job_that_waits_or_its_time_ends(party_of: PartyOf) -> None:
    party = party_of()
    event = BatonEvent(party.baton)
    late = party.loop.run_in_executor(party.executor, event.wait, 1.0)
    assert party.loop.run_until_complete(late) is False
    woken = party.loop.run_in_executor(party.executor, event.wait, 1000.0)
    party.world.after(SECOND, event.set)
    assert party.loop.run_until_complete(woken) is True
    assert party.world.now_ns < 10 * SECOND


def test_a_kill_ends_jobs_where_they_wait(party_of: PartyOf) -> None:
    party = party_of()
    job = party.run("a", pauses=9)
    party.loop.run_until_complete(asyncio.sleep(0.003))
    party.baton.kill()
    party.loop.bury()
    assert not job.done()
    assert party.told[-1] != "a ends"
    assert not party.baton.jobs
    with pytest.raises(OSError, match="has ended"):
        party.baton.check()


def test_a_lock_that_a_killed_job_gives_back_wakes_no_job_that_is_over(party_of: PartyOf) -> None:
    party = party_of()
    lock = BatonLock(party.baton)

    def locked(before_ms: int) -> None:
        party.baton.pause(before_ms * MS)
        with lock:
            party.baton.pause(50 * MS)

    for before_ms in (5, 1):  # the first to begin waits for the second
        party.loop.run_in_executor(party.executor, locked, before_ms)
    party.loop.run_until_complete(asyncio.sleep(0.02))
    party.baton.kill()
    party.loop.bury()
    assert not party.baton.jobs
    party.world.after(SECOND, lambda: None)
    party.world.run_until(lambda: party.world.now_ns >= SECOND)


def test_a_kill_may_come_while_the_loop_is_in_a_file_call(party_of: PartyOf) -> None:
    party = party_of()
    party.baton.killed_at_ns = 10 * MS
    party.baton.pause(9 * MS)
    with pytest.raises(Killed):
        party.baton.pause(2 * MS)


def test_an_error_of_a_job_is_its_futures(party_of: PartyOf) -> None:
    party = party_of()
    with pytest.raises(ZeroDivisionError):
        party.loop.run_until_complete(party.loop.run_in_executor(party.executor, lambda: 1 // 0))


def test_shutdown_waits_for_the_jobs_that_run(party_of: PartyOf) -> None:
    party = party_of()
    party.run("a")
    party.loop.run_until_complete(asyncio.sleep(0))
    party.executor.shutdown(wait=True)
    assert party.told[-1] == "a ends"
    with pytest.raises(RuntimeError):
        party.executor.submit(print)


def test_modules_get_locks_that_know_the_baton(party_of: PartyOf) -> None:
    party = party_of()
    module = storage.trash
    real = module.__dict__["threading"]
    with threading_of(lambda: party.baton, [module]):
        assert isinstance(module.__dict__["threading"].Lock(), BatonLock)
    assert module.__dict__["threading"] is real
