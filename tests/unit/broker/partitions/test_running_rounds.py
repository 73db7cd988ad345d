"""What runs in the threads of group commit: how many, and what becomes of those that are stuck."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker.partitions.flush_round import FlushRound
from broker.partitions.running_rounds import (
    FLUSH_THREADS,
    FLUSHES_PER_ROUND_MIN,
    LANES_MAX,
    ROUNDS_MAX,
    ROUNDS_TOGETHER_MAX,
    STUCK_NS,
    STUCK_ROUNDS_MAX,
    RunningRounds,
)
from broker.runtime.blocking_pool import BlockingPool, thread_executor


class Flush:
    """A flush that ends when it is released."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.release = threading.Event()

    def run(self) -> None:
        self.begun.set()
        assert self.release.wait(120)


class Rig:
    """Rounds of fake flushes, and which of these have ended."""

    def __init__(self) -> None:
        self.pool = BlockingPool(thread_executor(FLUSH_THREADS, "test"), asyncio.get_running_loop())
        self.ended: list[Any] = []
        self.rounds = RunningRounds(self.pool, self._finish, self._count)
        self.count = 0
        self.flushes: list[Flush] = []

    def _finish(self, round_: FlushRound) -> None:
        self.ended += [flush for _, flush, _ in round_.take_ended()]

    def _count(self) -> None:
        self.count += 1

    def jobs(self, count: int) -> list[Any]:
        made = [Flush() for _ in range(count)]
        self.flushes += made
        return [(None, flush) for flush in made]

    async def until_begun(self, count: int) -> None:
        async with asyncio.timeout(10):
            while sum(flush.begun.is_set() for flush in self.flushes) != count:
                await asyncio.sleep(0.001)

    async def until_ended(self) -> None:
        for flush in self.flushes:
            flush.release.set()
        async with asyncio.timeout(10):
            while self.rounds.is_any:
                await asyncio.sleep(0.001)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    yield made
    await made.until_ended()
    made.pool.close()


async def test_a_round_runs_one_flush_at_a_time_and_lanes_all(rig: Rig) -> None:
    rig.rounds.run(rig.jobs(3), 0)
    await rig.until_begun(1)
    rig.rounds.run_in_lanes(rig.jobs(3), 0)
    await rig.until_begun(4)
    assert rig.rounds.may_start
    assert rig.rounds.free_lanes == LANES_MAX - 3
    await rig.until_ended()
    assert len(rig.ended) == 6
    assert rig.count == 4
    assert rig.rounds.free_lanes == LANES_MAX


async def test_rounds_and_lanes_have_bounds_of_their_own(rig: Rig) -> None:
    for _ in range(ROUNDS_MAX):
        rig.rounds.run(rig.jobs(1), 0)
    assert not rig.rounds.may_start
    rig.rounds.run_in_lanes(rig.jobs(LANES_MAX + 5), 0)
    assert rig.rounds.free_lanes == 0
    await rig.until_begun(ROUNDS_MAX + LANES_MAX)
    await rig.until_ended()
    assert len(rig.ended) == ROUNDS_MAX + LANES_MAX + 5


async def test_a_stuck_one_is_put_aside_and_what_it_has_not_begun_is_taken_over(rig: Rig) -> None:
    rig.rounds.run_in_lanes(rig.jobs(LANES_MAX + 1), 0)
    await rig.until_begun(LANES_MAX)
    rig.rounds.pass_stuck(STUCK_NS)
    assert rig.rounds.stuck_count == 0
    rig.rounds.pass_stuck(STUCK_NS + 1)
    assert rig.rounds.stuck_count == STUCK_ROUNDS_MAX
    assert rig.rounds.free_lanes == STUCK_ROUNDS_MAX - 1
    await rig.until_begun(LANES_MAX + 1)
    rig.flushes[-1].release.set()
    async with asyncio.timeout(10):
        while not rig.ended:
            await asyncio.sleep(0.001)
    assert rig.ended == [rig.flushes[-1]]
    await rig.until_ended()
    assert len(rig.ended) == LANES_MAX + 1
    assert rig.rounds.stuck_count == rig.rounds.untold_count == 0


async def test_many_logs_that_are_due_together_are_shared_by_a_few_rounds(rig: Rig) -> None:
    many = FLUSHES_PER_ROUND_MIN * (ROUNDS_TOGETHER_MAX + 1)
    rig.rounds.run(rig.jobs(many), 0)
    await rig.until_begun(ROUNDS_TOGETHER_MAX)
    assert not rig.rounds.may_start
    await rig.until_ended()
    assert len(rig.ended) == many
    assert rig.count == ROUNDS_TOGETHER_MAX
    assert rig.rounds.may_start


async def test_a_few_logs_are_one_round(rig: Rig) -> None:
    rig.rounds.run(rig.jobs(2 * FLUSHES_PER_ROUND_MIN - 1), 0)
    await rig.until_begun(1)
    assert rig.rounds.may_start
    await rig.until_ended()
    assert rig.count == 1
