"""Waiting for several logs at once: side by side, bounded, and one answer for each place."""

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from broker.partitions.group_commit import FLUSHES_PER_LANE_MAX, GroupCommit
from broker.partitions.partition import Partition
from broker.partitions.running_rounds import (
    FLUSH_THREADS,
    LANES_MAX,
    ROUNDS_MAX,
    STUCK_ROUNDS_MAX,
    STUCK_SECONDS,
)
from broker.runtime.blocking_pool import BlockingPool, thread_executor
from broker.runtime.clock import ManualClock
from broker.runtime.metrics import Metrics
from protocol.errors import ErrorCode
from storage.errors import LogFailed
from tests.support.fake_log import FakeLog

NONE = ErrorCode.NONE
FAILED = ErrorCode.KAFKA_STORAGE_ERROR
STOPPED = ErrorCode.COORDINATOR_NOT_AVAILABLE
DELETED = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Rig:
    """A group commit over as many fake logs as a test asks for."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.metrics = Metrics()
        self.pool = BlockingPool(thread_executor(FLUSH_THREADS, "test"), asyncio.get_running_loop())
        self.commit = GroupCommit(self.pool, lambda _: None, self.metrics, self.clock)
        self.logs: list[FakeLog] = []
        self.answers: list[tuple[str, list[ErrorCode]]] = []

    def partitions(self, count: int, *, write_caching: bool = False) -> list[Any]:
        made = [Partition(FakeLog(write_caching=write_caching)) for _ in range(count)]  # type: ignore[arg-type]
        self.logs += [partition.log for partition in made]  # type: ignore[misc]
        return made

    def append(self, *partitions: Any) -> None:
        for partition in partitions:
            partition.log.append(memoryview(b"x"), 0)

    def together(self, name: str, partitions: list[Any]) -> None:
        places = [(partition, partition.log.end_offset) for partition in partitions]
        self.commit.durable_together(places, lambda codes: self.answers.append((name, codes)))

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.001)

    def pass_time(self) -> None:
        self.clock.advance(int(STUCK_SECONDS * 1_000) + 1)
        self.commit.sweep()


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    yield made
    for log in made.logs:
        for flush in log.flushes:
            flush.release.set()
    made.pool.close()


def release(*partitions: Any) -> None:
    for partition in partitions:
        partition.log.open_flush.release.set()


def flush_counts(partitions: list[Any]) -> list[int]:
    return [len(partition.log.flushes) for partition in partitions]


async def test_all_logs_wait_for_the_disk_at_the_same_time(rig: Rig) -> None:
    """Each flush blocks until it is released: the last one first."""
    logs = rig.partitions(4)
    rig.append(*logs)
    rig.together("t", logs)
    await rig.until(lambda: flush_counts(logs) == [1, 1, 1, 1])
    for partition in reversed(logs):
        assert rig.answers == []
        release(partition)
        await rig.until(lambda p=partition: p.log.durable_offset == 1)
    await rig.until(lambda: rig.answers)
    assert rig.answers == [("t", [NONE] * 4)]
    assert [partition.lane_waiters for partition in logs] == [0] * 4
    assert rig.metrics.flushes == 4


async def test_what_is_durable_needs_no_flush(rig: Rig) -> None:
    logs = rig.partitions(2)
    rig.together("empty", [])
    rig.together("durable", logs)
    assert rig.answers == [("empty", []), ("durable", [NONE, NONE])]
    rig.append(logs[1])
    rig.together("one of two", logs)
    await rig.until(lambda: logs[1].log.flushes)
    assert logs[0].log.flushes == []
    release(logs[1])
    await rig.until(lambda: len(rig.answers) == 3)


async def test_write_caching_logs_are_flushed_too(rig: Rig) -> None:
    """Their high watermark is at the end at once: it says nothing about the disk."""
    logs = rig.partitions(2, write_caching=True)
    rig.append(*logs)
    rig.together("t", logs)
    await rig.until(lambda: flush_counts(logs) == [1, 1])
    assert rig.answers == []
    release(*logs)
    await rig.until(lambda: rig.answers)
    assert rig.answers == [("t", [NONE, NONE])]


async def test_transactions_over_the_same_logs_share_flushes(rig: Rig) -> None:
    logs = rig.partitions(2)
    rig.append(*logs)
    rig.together("a", logs)
    rig.append(*logs)
    rig.together("b", logs)
    await rig.until(lambda: flush_counts(logs) == [1, 1])
    for name in ("c", "d", "e"):
        rig.append(*logs)
        rig.together(name, logs)
    release(*logs)
    await rig.until(lambda: flush_counts(logs) == [2, 2])
    assert rig.answers == [("a", [NONE, NONE]), ("b", [NONE, NONE])]
    release(*logs)
    await rig.until(lambda: len(rig.answers) == 5)
    assert [name for name, _ in rig.answers] == ["a", "b", "c", "d", "e"]
    assert flush_counts(logs) == [2, 2]


async def test_a_place_that_fails_says_so_and_the_others_go_on(rig: Rig) -> None:
    logs = rig.partitions(4)
    rig.append(*logs)
    logs[0].log.failed = LogFailed("/data/t-0", "an earlier write failed")
    rig.together("t", logs)
    await rig.until(lambda: flush_counts(logs) == [0, 1, 1, 1])
    logs[2].log.open_flush.error = OSError(errno.EIO, "Input/output error")
    release(*logs[1:])
    await rig.until(lambda: rig.answers)
    assert rig.answers == [("t", [FAILED, NONE, FAILED, NONE])]
    rig.together("again", logs)
    assert rig.answers[1:] == [("again", [FAILED, NONE, FAILED, NONE])]


async def test_a_log_deleted_meanwhile_answers_for_itself(rig: Rig) -> None:
    logs = rig.partitions(2)
    rig.append(*logs)
    rig.together("t", logs)
    await rig.until(lambda: flush_counts(logs) == [1, 1])
    logs[0].log.failed = LogFailed("/data/t-0", "closed")
    logs[0].log.is_closed = True
    rig.commit.drop(logs[0], DELETED)
    assert rig.answers == []
    rig.append(logs[1])
    rig.together("later", logs)
    release(logs[1])
    await rig.until(lambda: flush_counts(logs) == [1, 2])
    release(logs[1], logs[0])
    await rig.until(lambda: len(rig.answers) == 2)
    assert rig.answers == [("t", [DELETED, NONE]), ("later", [DELETED, NONE])]
    await rig.until(lambda: not rig.commit.is_flushing)


async def test_a_log_deleted_before_its_flush_begins_begins_none(rig: Rig) -> None:
    logs = rig.partitions(2)
    rig.append(*logs)
    rig.together("t", logs)
    logs[0].log.failed = LogFailed("/data/t-0", "closed")
    logs[0].log.is_closed = True
    rig.commit.drop(logs[0], DELETED)
    await rig.until(lambda: logs[1].log.flushes)
    release(logs[1])
    await rig.until(lambda: rig.answers)
    assert rig.answers == [("t", [DELETED, NONE])]
    assert logs[0].log.flushes == []


async def test_a_flush_of_a_round_is_waited_for_and_followed_by_a_lane(rig: Rig) -> None:
    """Two logs are in a round, one behind the other; then a transaction ends in both."""
    logs = rig.partitions(2)
    rig.append(*logs)
    plain: list[ErrorCode] = []
    for partition in logs:
        rig.commit.wait(partition, 1, 60_000, plain.append)
    await rig.until(lambda: flush_counts(logs) == [1, 1])
    rig.append(*logs)
    rig.together("t", logs)
    release(*logs)
    await rig.until(lambda: flush_counts(logs) == [2, 2])
    assert plain == [NONE, NONE]
    assert rig.answers == []
    release(logs[1])
    await rig.until(lambda: logs[1].log.durable_offset == 2)
    release(logs[0])
    await rig.until(lambda: rig.answers)


async def test_rounds_go_on_beside_as_many_lanes_as_there_are(rig: Rig) -> None:
    """Neither waits for the other, and a partition due for both is flushed once."""
    logs = rig.partitions(LANES_MAX)
    others = rig.partitions(ROUNDS_MAX)
    rig.append(*logs, *others)
    plain: list[ErrorCode] = []
    rig.commit.wait(logs[0], 1, 60_000, plain.append)
    rig.together("t", logs)
    await rig.until(lambda: flush_counts(logs) == [1] * LANES_MAX)
    for partition in others:
        rig.commit.wait(partition, 1, 60_000, plain.append)
        await rig.until(lambda p=partition: p.log.flushes)
    release(*others)
    await rig.until(lambda: len(plain) == ROUNDS_MAX)
    release(*logs)
    await rig.until(lambda: rig.answers)
    assert len(plain) == ROUNDS_MAX + 1
    assert flush_counts(logs) == [1] * LANES_MAX


async def test_more_logs_than_lanes_share_the_lanes(rig: Rig) -> None:
    logs = rig.partitions(LANES_MAX * FLUSHES_PER_LANE_MAX + 3)
    rig.append(*logs)
    rig.together("t", logs)
    await rig.until(lambda: sum(flush_counts(logs)) == LANES_MAX * FLUSHES_PER_LANE_MAX)
    await asyncio.sleep(0.01)
    assert sum(flush_counts(logs)) == LANES_MAX * FLUSHES_PER_LANE_MAX, "bounded"
    while not rig.answers:
        for partition in logs:
            if partition.log.open_flush is not None:
                release(partition)
        await asyncio.sleep(0.001)
    assert rig.answers == [("t", [NONE] * len(logs))]
    assert flush_counts(logs) == [1] * len(logs)


async def test_a_stuck_log_holds_back_its_own_transactions_only(rig: Rig) -> None:
    """Stuck lanes do not count against the lanes; there is no deadline."""
    stuck = rig.partitions(STUCK_ROUNDS_MAX)
    rig.append(*stuck)
    rig.together("stuck", stuck)
    await rig.until(lambda: sum(flush_counts(stuck)) == STUCK_ROUNDS_MAX)
    rig.pass_time()
    assert rig.metrics.flushes_stuck_now == STUCK_ROUNDS_MAX
    logs = rig.partitions(LANES_MAX)
    rig.append(*logs)
    rig.together("t", logs)
    await rig.until(lambda: flush_counts(logs) == [1] * LANES_MAX)
    release(*logs)
    await rig.until(lambda: rig.answers)
    for _ in range(100):
        rig.pass_time()
    assert rig.answers == [("t", [NONE] * LANES_MAX)]
    release(*stuck)
    await rig.until(lambda: len(rig.answers) == 2)
    await rig.until(lambda: not rig.commit.is_flushing)
    rig.commit.sweep()
    assert rig.metrics.flushes_stuck_now == 0


async def test_what_a_stuck_lane_has_not_begun_goes_to_another(rig: Rig) -> None:
    logs = rig.partitions(2 * LANES_MAX)
    rig.append(*logs)
    rig.together("t", logs)
    await rig.until(lambda: sum(flush_counts(logs)) == 2 * LANES_MAX)
    release(*logs[1:])  # the first of its lane is stuck; the other one in it has not begun
    rig.pass_time()
    await rig.until(lambda: logs[LANES_MAX].log.durable_offset == 1)
    assert rig.answers == []
    release(logs[0])
    await rig.until(lambda: rig.answers)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
async def test_a_flush_without_a_descriptor_is_tried_again(rig: Rig, number: int) -> None:
    logs = rig.partitions(2)
    rig.append(*logs)
    rig.together("t", logs)
    await rig.until(lambda: flush_counts(logs) == [1, 1])
    logs[1].log.open_flush.error = OSError(number, "Too many open files")
    release(*logs)
    await rig.until(lambda: flush_counts(logs) == [1, 2])
    assert rig.answers == []
    release(logs[1])
    await rig.until(lambda: rig.answers)
    assert rig.answers == [("t", [NONE, NONE])]


async def test_a_stop_answers_what_the_disk_does_not(rig: Rig) -> None:
    logs = rig.partitions(2)
    rig.append(*logs)
    rig.together("stuck", logs)
    await rig.until(lambda: flush_counts(logs) == [1, 1])
    release(logs[1])
    await rig.until(lambda: logs[1].log.durable_offset == 1)
    rig.commit.stop()
    rig.append(logs[1])
    rig.together("in time", logs[1:])
    await rig.until(lambda: flush_counts(logs) == [1, 2])
    release(logs[1])
    await rig.until(lambda: rig.answers)
    assert rig.answers == [("in time", [NONE])]
    await rig.until(lambda: len(rig.answers) == 2)
    assert rig.answers[1] == ("stuck", [STOPPED, NONE])
    rig.append(*logs)
    rig.together("late", logs)
    assert rig.answers[2] == ("late", [STOPPED, STOPPED])
    drained = asyncio.create_task(rig.commit.drained())
    while not drained.done():
        for partition in logs:
            if partition.log.open_flush is not None:
                release(partition)
        await asyncio.sleep(0.001)
    assert len(rig.answers) == 3
    assert [partition.lane_waiters for partition in logs] == [0, 0]


async def test_an_orderly_stop_answers_when_all_is_durable(rig: Rig) -> None:
    logs = rig.partitions(2)
    rig.append(*logs)
    rig.together("t", logs)
    rig.commit.stop()
    drained = asyncio.create_task(rig.commit.drained())
    await rig.until(lambda: flush_counts(logs) == [1, 1])
    release(*logs)
    await asyncio.wait_for(drained, 10)
    assert rig.answers == [("t", [NONE, NONE])]


def fail(*_: Any) -> None:
    raise ZeroDivisionError


async def test_a_request_that_cannot_be_answered_affects_no_other(rig: Rig) -> None:
    logs = rig.partitions(2)
    rig.append(*logs)
    rig.commit.durable_together([(logs[0], 1), (logs[1], 1)], fail)
    rig.together("t", logs)
    await rig.until(lambda: flush_counts(logs) == [1, 1])
    release(*logs)
    await rig.until(lambda: rig.answers)
    assert rig.answers == [("t", [NONE, NONE])]
