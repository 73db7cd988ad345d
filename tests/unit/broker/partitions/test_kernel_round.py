"""Rounds in the kernel: told flush by flush, stuck as others, and what is more goes to threads."""

import asyncio
import errno
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from broker.partitions.flush_pool import FlushPool, SyncDone
from broker.partitions.flush_round import FlushRound
from broker.partitions.kernel_round import KERNEL_BYTES_MAX
from broker.partitions.running_rounds import LANES_MAX, STUCK_NS, RunningRounds
from broker.runtime.blocking_pool import thread_executor


class Pool(FlushPool):
    """Begins syncs of files, which are their names here, that end when a test says so."""

    def __init__(self) -> None:
        super().__init__(thread_executor(2, "test"), asyncio.get_running_loop())
        self.begun: dict[Any, SyncDone] = {}
        self.refused: set[Any] = set()

    def begin_syncs(self, wanted: Sequence[tuple[Any, SyncDone]]) -> int:
        for count, (file, done) in enumerate(wanted):
            if file in self.refused:
                return count
            self.begun[file] = done
        return len(wanted)


class File(str):
    __slots__ = ()

    @property
    def sync_descriptor(self) -> int:
        return -1 if self == "watched" else 3


class Flush:
    def __init__(self, only_file: str | None, size_bytes: int = 100) -> None:
        self.only_file = None if only_file is None else File(only_file)
        self.size_bytes = size_bytes
        self.ran = False
        self.elapsed_ns = 0

    def run(self) -> None:
        self.ran = True


class Partition:
    flush_started_ns = 5


class Rig:
    def __init__(self) -> None:
        self.pool = Pool()
        self.finished: list[Any] = []
        self.ended_rounds = 0
        self.rounds = RunningRounds(self.pool, self._finish, self._ended, lambda: 12)

    def _finish(self, round_: FlushRound) -> None:
        self.finished += [(flush, error) for _, flush, error in round_.take_ended()]

    def _ended(self) -> None:
        self.ended_rounds += 1

    def run(self, *flushes: Flush, in_lanes: bool = False) -> None:
        jobs: list[Any] = [(Partition(), flush) for flush in flushes]
        (self.rounds.run_in_lanes if in_lanes else self.rounds.run)(jobs, 0)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    yield made
    made.pool.close()


async def test_a_flush_is_told_when_it_ends_and_does_not_wait_for_its_round(rig: Rig) -> None:
    one, two = Flush("one"), Flush("two")
    rig.run(one, two)
    assert list(rig.pool.begun) == ["one", "two"]
    assert rig.rounds.is_any
    rig.pool.begun["two"](None)
    assert rig.finished == [(two, None)]
    assert two.elapsed_ns == 7
    assert rig.ended_rounds == 0
    error = OSError(errno.EIO, "broken")
    rig.pool.begun["one"](error)
    assert rig.finished == [(two, None), (one, error)]
    assert rig.ended_rounds == 1
    assert not rig.rounds.is_any


@pytest.mark.parametrize("in_lanes", [False, True])
async def test_what_the_kernel_does_not_take_runs_in_a_thread(rig: Rig, in_lanes: bool) -> None:
    more, watched = Flush(None), Flush("watched")
    taken, refused, behind = Flush("taken"), Flush("refused"), Flush("behind it")
    rig.pool.refused.add("refused")
    rig.run(more, watched, taken, refused, behind, in_lanes=in_lanes)
    async with asyncio.timeout(10):
        while len(rig.finished) < 4:
            await asyncio.sleep(0.001)
    assert all(flush.ran for flush in (more, watched, refused, behind))
    assert not taken.ran
    assert rig.rounds.is_any
    rig.pool.begun["taken"](None)
    assert not rig.rounds.is_any


async def test_a_flush_that_is_alone_or_large_runs_in_a_thread(rig: Rig) -> None:
    one, two, large = Flush("one"), Flush("two"), Flush("large", KERNEL_BYTES_MAX + 1)
    rig.run(one)
    assert rig.rounds.is_any
    async with asyncio.timeout(10):
        while rig.rounds.is_any:
            await asyncio.sleep(0.001)
    assert one.ran
    rig.run(two, large)
    assert list(rig.pool.begun) == ["two"]
    rig.pool.begun["two"](None)
    async with asyncio.timeout(10):
        while rig.rounds.is_any:
            await asyncio.sleep(0.001)
    assert large.ran


async def test_lanes_begin_in_the_kernel_at_once_and_count_as_one(rig: Rig) -> None:
    flushes = [Flush(str(number)) for number in range(LANES_MAX + 3)]
    rig.run(*flushes, in_lanes=True)
    assert len(rig.pool.begun) == LANES_MAX + 3
    assert rig.rounds.free_lanes == LANES_MAX - 1
    for done in rig.pool.begun.values():
        done(None)
    assert rig.rounds.free_lanes == LANES_MAX


async def test_a_stuck_round_lets_others_start_and_is_finished_late(rig: Rig) -> None:
    one, two, three, four, five, six = map(Flush, ("one", "two", "three", "four", "five", "six"))
    rig.run(one, two)
    rig.run(three, four)
    assert not rig.rounds.may_start
    rig.rounds.pass_stuck(STUCK_NS + 1)
    assert rig.rounds.stuck_count == 2
    assert rig.rounds.may_start
    rig.run(five, six)
    names = ["one", "two", "three", "four", "five", "six"]
    assert list(rig.pool.begun) == names, "none was begun twice"
    rig.pool.begun["one"](None)
    rig.pool.begun["two"](None)
    assert rig.finished == [(one, None), (two, None)]
    assert rig.rounds.stuck_count == 1
    for name in names[2:]:
        rig.pool.begun[name](None)
    assert not rig.rounds.is_any
