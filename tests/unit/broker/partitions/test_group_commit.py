"""Group commit: when waiters are answered, and how, while flushes run, fail and hang."""

import asyncio
import errno
from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker.metadata.topic_rules import TRANSACTION_TOPIC
from broker.partitions import group_commit
from broker.partitions.group_commit import GroupCommit
from broker.partitions.partition import Partition
from broker.partitions.running_rounds import (
    FLUSH_THREADS,
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


class Rig:
    """A group commit over one fake log."""

    def __init__(self, *, write_caching: bool = False) -> None:
        self.clock = ManualClock()
        self.metrics = Metrics()
        self.pool = BlockingPool(thread_executor(2, "test"), asyncio.get_running_loop())
        self.advanced: list[Partition] = []
        self.commit = GroupCommit(self.pool, self.advanced.append, self.metrics, self.clock)
        self.log = FakeLog(write_caching=write_caching)
        self.partition = Partition(self.log)  # type: ignore[arg-type]
        self.answers: list[tuple[str, ErrorCode]] = []

    def append(self, count: int = 1) -> int:
        for _ in range(count):
            self.log.append(memoryview(b"x"), 0)
        self.commit.appended(self.partition)
        return self.log.end_offset

    def wait(self, name: str, end_offset: int, timeout_ms: int = 1_000) -> None:
        self.commit.wait(
            self.partition,
            end_offset,
            timeout_ms,
            lambda code: self.answers.append((name, code)),
        )

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.001)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    yield made
    for flush in made.log.flushes:
        flush.release.set()
    made.pool.close()


async def test_one_flush_answers_every_request_that_waited_when_it_began(rig: Rig) -> None:
    rig.wait("a", rig.append())
    rig.wait("b", rig.append())
    await rig.until(lambda: rig.log.flushes)
    rig.wait("late", rig.append())
    assert rig.answers == []
    rig.log.flushes[0].release.set()
    await rig.until(lambda: len(rig.log.flushes) == 2)
    assert rig.answers == [("a", ErrorCode.NONE), ("b", ErrorCode.NONE)]
    rig.log.flushes[1].release.set()
    await rig.until(lambda: len(rig.answers) == 3)
    assert rig.answers[2] == ("late", ErrorCode.NONE)
    assert rig.metrics.flushes == 2


async def test_a_waiter_for_durable_records_is_answered_at_once(rig: Rig) -> None:
    rig.log.end_offset = rig.log.durable_offset = rig.log.high_watermark = 5
    rig.wait("duplicate", 3)
    assert rig.answers == [("duplicate", ErrorCode.NONE)]


async def test_a_failed_flush_fails_all_waiters_and_is_not_retried(rig: Rig) -> None:
    rig.wait("a", rig.append())
    await rig.until(lambda: rig.log.flushes)
    rig.wait("later", rig.append())
    rig.log.flushes[0].error = OSError(5, "Input/output error")
    rig.log.flushes[0].release.set()
    await rig.until(lambda: len(rig.answers) == 2)
    assert {code for _, code in rig.answers} == {ErrorCode.KAFKA_STORAGE_ERROR}
    rig.wait("after", 99)
    assert rig.answers[-1] == ("after", ErrorCode.KAFKA_STORAGE_ERROR)
    await asyncio.sleep(0.01)
    assert len(rig.log.flushes) == 1
    assert rig.metrics.flush_failures == 1


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
async def test_a_flush_without_a_descriptor_is_tried_again(rig: Rig, number: int) -> None:
    """Nothing was synced, and nothing lost. The log went offline until a restart."""
    rig.wait("a", rig.append())
    await rig.until(lambda: rig.log.flushes)
    rig.log.flushes[0].error = OSError(number, "Too many open files")
    rig.log.flushes[0].release.set()
    await rig.until(lambda: len(rig.log.flushes) == 2)
    assert rig.answers == []
    assert rig.metrics.flush_failures == 1
    rig.log.flushes[1].release.set()
    await rig.until(lambda: rig.answers)
    assert rig.answers == [("a", ErrorCode.NONE)]


async def test_who_waits_for_a_flush_that_is_not_tried_again_is_told_at_the_stop(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "RETRY_SECONDS", 60)
    rig.log.append(memoryview(b"x"), 0)
    rig.wait("a", rig.log.end_offset)
    await rig.until(lambda: rig.log.flushes)
    rig.log.flushes[0].error = OSError(errno.EMFILE, "Too many open files")
    rig.log.flushes[0].release.set()
    await rig.until(lambda: rig.metrics.flush_failures)
    await rig.commit.drained()
    assert rig.answers == [("a", ErrorCode.KAFKA_STORAGE_ERROR)]
    assert not rig.partition.waiters
    assert len(rig.log.flushes) == 1


async def test_a_stuck_flush_lets_deadlines_pass_and_still_ends_well(rig: Rig) -> None:
    rig.wait("short", rig.append(), timeout_ms=100)
    rig.wait("long", rig.append(), timeout_ms=10_000)
    await rig.until(lambda: rig.log.flushes)
    rig.commit.sweep()
    assert rig.answers == []
    rig.clock.advance(101)
    rig.commit.sweep()
    assert rig.answers == [("short", ErrorCode.REQUEST_TIMED_OUT)]
    rig.log.flushes[0].release.set()
    await rig.until(lambda: len(rig.answers) == 2)
    assert rig.answers[1] == ("long", ErrorCode.NONE)
    assert rig.metrics.commits_timed_out == 1


async def test_without_waiters_the_flush_starts_by_itself(rig: Rig) -> None:
    rig.append()
    assert rig.log.flushes == []
    await rig.until(lambda: rig.log.flushes)
    rig.log.flushes[0].release.set()
    await rig.until(lambda: rig.advanced)
    assert rig.log.durable_offset == 1


async def test_a_removed_partition_answers_its_waiters(rig: Rig) -> None:
    rig.wait("a", rig.append())
    rig.commit.drop(rig.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert rig.answers == [("a", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


async def test_a_log_that_is_closed_with_its_topic_is_unknown(rig: Rig) -> None:
    rig.append()
    rig.log.failed = LogFailed("/data/t-0", "closed")
    rig.log.is_closed = True
    rig.wait("later", 1)
    assert rig.answers == [("later", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


async def test_drained_waits_for_the_running_flush(rig: Rig) -> None:
    rig.wait("a", rig.append())
    await rig.until(lambda: rig.log.flushes)
    drained = asyncio.create_task(rig.commit.drained())
    await asyncio.sleep(0.005)
    assert not drained.done()
    rig.log.flushes[0].release.set()
    await asyncio.wait_for(drained, 10)


async def test_no_flush_begins_after_drained(rig: Rig) -> None:
    rig.append()  # its flush lingers, and would still run when the stop flushes the log
    await asyncio.wait_for(rig.commit.drained(), 10)
    await rig.until(lambda: not rig.partition.flush_scheduled)
    assert rig.log.flushes == []
    assert not rig.commit.is_flushing


async def test_drained_passes_a_stuck_flush(rig: Rig) -> None:
    """Nobody sweeps at the stop, and a disk that is slow for one file is so for others."""
    logs = [FakeLog() for _ in range(3)]
    for log in logs:
        log.append(memoryview(b"x"), 0)
        rig.commit.flush_now(Partition(log))  # type: ignore[arg-type]
    await rig.until(lambda: logs[2].flushes)
    drained = asyncio.create_task(rig.commit.drained())
    logs[1].flushes[0].release.set()
    logs[2].flushes[0].release.set()
    assert rig.commit.ended_count == 0
    for _ in range(3):
        rig.clock.advance(int(STUCK_SECONDS * 1_000) + 1)
        await asyncio.sleep(STUCK_SECONDS)
    assert logs[1].durable_offset == logs[2].durable_offset == 1
    assert rig.commit.ended_count == 2
    assert not drained.done()
    logs[0].flushes[0].release.set()
    await asyncio.wait_for(drained, 10)
    assert rig.commit.ended_count == rig.metrics.flushes == 3


async def test_flushes_of_a_round_that_goes_on_have_ended_too(rig: Rig) -> None:
    logs = [FakeLog() for _ in range(2)]
    for log in logs:
        log.append(memoryview(b"x"), 0)
        rig.commit.flush_now(Partition(log))  # type: ignore[arg-type]
    await rig.until(lambda: logs[1].flushes)
    logs[0].flushes[0].release.set()
    await rig.until(lambda: rig.commit.ended_count == 1)
    assert rig.metrics.flushes == 0
    logs[1].flushes[0].release.set()
    await rig.commit.drained()


async def test_write_caching_notifies_readers_at_once_and_starts_no_flush() -> None:
    rig = Rig(write_caching=True)
    end_offset = rig.append()
    assert rig.advanced == [rig.partition]
    rig.wait("a", end_offset)
    assert rig.answers == [("a", ErrorCode.NONE)]
    await asyncio.sleep(0.01)
    assert rig.log.flushes == []
    durable = asyncio.create_task(rig.commit.durable(rig.partition, end_offset, 1_000))
    await rig.until(lambda: rig.log.flushes)
    assert not durable.done()
    rig.log.flushes[0].release.set()
    assert await durable == ErrorCode.NONE
    rig.pool.close()


async def test_partitions_that_are_due_together_are_flushed_in_one_round(rig: Rig) -> None:
    others = []
    for _ in range(3):
        log = FakeLog()
        partition = Partition(log)  # type: ignore[arg-type]
        log.append(memoryview(b"x"), 0)
        others.append((log, partition))
        rig.commit.wait(partition, 1, 1_000, lambda code: rig.answers.append(("other", code)))
    await rig.until(lambda: others[2][0].flushes)
    others[1][0].flushes[0].error = OSError(5, "Input/output error")
    for log, _ in others:
        log.flushes[0].release.set()
    await rig.until(lambda: len(rig.answers) == 3)
    assert [code for _, code in rig.answers] == [
        ErrorCode.NONE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NONE,
    ], "one log's failure is its own"


async def test_records_appended_while_all_rounds_run_are_flushed_by_the_next(rig: Rig) -> None:
    logs = []
    for _ in range(ROUNDS_MAX + 1):
        log = FakeLog()
        partition = Partition(log)  # type: ignore[arg-type]
        log.append(memoryview(b"x"), 0)
        rig.commit.wait(partition, 1, 1_000, lambda code: rig.answers.append(("x", code)))
        await asyncio.sleep(0.005)
        logs.append(log)
    assert [len(log.flushes) for log in logs] == [1] * ROUNDS_MAX + [0]
    logs[0].flushes[0].release.set()
    await rig.until(lambda: logs[-1].flushes)
    for log in logs:
        log.flushes[0].release.set()
    await rig.until(lambda: len(rig.answers) == len(logs))


async def test_other_logs_and_later_appends_overtake_a_stuck_round(rig: Rig) -> None:
    rig.pool.close()
    rig.pool = BlockingPool(thread_executor(FLUSH_THREADS, "test"), asyncio.get_running_loop())
    rig.commit = GroupCommit(rig.pool, rig.advanced.append, rig.metrics, rig.clock)
    logs = [FakeLog() for _ in range(5)]
    answers = []
    for number, log in enumerate(logs[:4]):
        partition = Partition(log)  # type: ignore[arg-type]
        log.append(memoryview(b"x"), 0)
        rig.commit.wait(partition, 1, 60_000, lambda code, n=number: answers.append((n, code)))
    await rig.until(lambda: logs[3].flushes)
    # The four are one round; the second of them is stuck.
    for number in (0, 2, 3):
        logs[number].flushes[0].release.set()
    await asyncio.sleep(0.01)
    rig.commit.sweep()
    assert answers == [], "no answer before the round has ended or is stuck"
    rig.clock.advance(int(STUCK_SECONDS * 1_000) + 1)
    rig.commit.sweep()
    rig.clock.advance(int(STUCK_SECONDS * 1_000) + 1)
    rig.commit.sweep()
    await rig.until(lambda: len(answers) == 3)
    assert sorted(answers) == [(n, ErrorCode.NONE) for n in (0, 2, 3)]
    assert rig.metrics.flushes_stuck_now == 1
    assert rig.commit.is_flushing
    late = Partition(logs[4])  # type: ignore[arg-type]
    logs[4].append(memoryview(b"x"), 0)
    rig.commit.wait(late, 1, 60_000, lambda code: answers.append((4, code)))
    await rig.until(lambda: logs[4].flushes)
    logs[4].flushes[0].release.set()
    await rig.until(lambda: len(answers) == 4)
    logs[1].flushes[0].release.set()
    await rig.until(lambda: len(answers) == 5)
    await rig.until(lambda: not rig.commit.is_flushing)
    rig.commit.sweep()
    assert rig.metrics.flushes_stuck_now == 0


async def test_as_many_logs_as_there_are_threads_may_be_stuck(rig: Rig) -> None:
    rig.pool.close()
    rig.pool = BlockingPool(thread_executor(FLUSH_THREADS, "test"), asyncio.get_running_loop())
    rig.commit = GroupCommit(rig.pool, rig.advanced.append, rig.metrics, rig.clock)
    logs = [FakeLog() for _ in range(FLUSH_THREADS + 1)]
    answers = []
    for number, log in enumerate(logs):
        log.append(memoryview(b"x"), 0)
        rig.commit.wait(
            Partition(log),  # type: ignore[arg-type]
            1,
            60_000,
            lambda code, n=number: answers.append((n, code)),
        )
    logs[-1].append(memoryview(b"y"), 0)
    for _ in range(2 * FLUSH_THREADS):
        await asyncio.sleep(0.002)
        rig.clock.advance(int(STUCK_SECONDS * 1_000) + 1)
        rig.commit.sweep()
    assert rig.metrics.flushes_stuck_now == STUCK_ROUNDS_MAX
    assert answers == []
    for log in logs:
        for flush in log.flushes:
            flush.release.set()
    await rig.until(lambda: len(answers) == len(logs))


def fail(*_: Any) -> None:
    raise ZeroDivisionError


async def test_a_waiter_that_cannot_be_answered_affects_no_other(rig: Rig) -> None:
    """If a callback raises when a flush ends, the rest of the round is still answered."""
    rig.commit.wait(rig.partition, rig.append(), 1_000, fail)
    rig.wait("behind it", rig.log.end_offset)
    other = Partition(FakeLog())  # type: ignore[arg-type]
    other.log.append(memoryview(b"x"), 0)
    rig.commit.wait(other, 1, 1_000, lambda code: rig.answers.append(("beside it", code)))
    rig.commit._advanced = fail
    await rig.until(lambda: rig.log.flushes and other.log.flushes)  # type: ignore[attr-defined]
    for log in (rig.log, other.log):
        log.flushes[0].release.set()  # type: ignore[union-attr]
    await rig.until(lambda: len(rig.answers) == 2)
    assert sorted(rig.answers) == [("behind it", ErrorCode.NONE), ("beside it", ErrorCode.NONE)]
    async with asyncio.timeout(10):
        await rig.commit.drained()
    assert not rig.partition.flush_started_ns
    assert not other.flush_started_ns


async def test_an_expired_waiter_that_cannot_be_answered_affects_no_other(rig: Rig) -> None:
    rig.commit.wait(rig.partition, rig.append(), 1, fail)
    rig.wait("late", rig.log.end_offset, timeout_ms=1)
    rig.clock.advance(2)
    rig.commit.sweep()
    assert rig.answers == [("late", ErrorCode.REQUEST_TIMED_OUT)]
    rig.commit.wait(rig.partition, rig.log.end_offset, 1_000, fail)
    rig.wait("dropped", rig.log.end_offset)
    rig.commit.drop(rig.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert rig.answers[1:] == [("dropped", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


async def test_a_flush_that_cannot_be_finished_affects_no_other(rig: Rig) -> None:
    rig.log.finish_flush = fail  # type: ignore[method-assign]
    rig.append()
    rig.commit.flush_now(rig.partition)
    other = Partition(FakeLog())  # type: ignore[arg-type]
    other.log.append(memoryview(b"x"), 0)
    rig.commit.wait(other, 1, 1_000, lambda code: rig.answers.append(("beside it", code)))
    await rig.until(lambda: rig.log.flushes and other.log.flushes)  # type: ignore[attr-defined]
    for log in (rig.log, other.log):
        log.flushes[0].release.set()  # type: ignore[union-attr]
    await rig.until(lambda: rig.answers)
    assert rig.answers == [("beside it", ErrorCode.NONE)]


async def test_a_waiter_for_an_earlier_offset_is_answered_before_earlier_waiters(
    rig: Rig,
) -> None:
    """A retried batch waits for its original, which the current flush makes durable."""
    original = rig.append()
    rig.wait("original", original)
    await rig.until(lambda: rig.log.flushes)
    newer = rig.append()
    rig.wait("newer", newer)
    rig.wait("newer still", rig.append())
    rig.wait("duplicate", original)
    rig.wait("duplicate of the newer", newer)
    rig.log.flushes[0].release.set()
    await rig.until(lambda: len(rig.answers) >= 2)
    assert rig.answers == [("original", ErrorCode.NONE), ("duplicate", ErrorCode.NONE)]
    await rig.until(lambda: len(rig.log.flushes) == 2)
    rig.log.flushes[1].release.set()
    await rig.until(lambda: len(rig.answers) == 5)
    assert [name for name, _ in rig.answers[2:]] == [
        "newer", "duplicate of the newer", "newer still"
    ]  # fmt: skip


async def test_records_of_transactions_linger_for_longer_and_are_flushed(rig: Rig) -> None:
    other = FakeLog()
    other.topic = TRANSACTION_TOPIC
    patient = Partition(other)  # type: ignore[arg-type]
    other.append(memoryview(b"x"), 0)
    rig.commit.appended(patient)
    rig.append()
    await rig.until(lambda: rig.log.open_flush)
    assert other.open_flush is None
    rig.log.flushes[0].release.set()
    await rig.until(lambda: other.open_flush)
    other.flushes[0].release.set()
    await rig.until(lambda: other.durable_offset == 1)


async def test_a_request_does_not_wait_for_the_pause_of_a_patient_log(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "STATE_LINGER_SECONDS", 60)
    rig.partition.is_patient = True
    end_offset = rig.append()
    rig.wait("end", end_offset)
    await rig.until(lambda: rig.log.open_flush)
    rig.log.flushes[0].release.set()
    await rig.until(lambda: rig.answers)
    assert rig.answers == [("end", ErrorCode.NONE)]
