"""Appends run at once while the disk keeps up, and queue in order when it does not."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.partitions import append_queue
from broker.partitions.append_queue import AppendQueue
from broker.partitions.partition import Partition
from broker.runtime import owners
from broker.runtime.clock import ManualClock
from broker.runtime.metrics import Metrics
from broker.runtime.record_work import AT_ONCE, RecordWork, WalkAbandoned
from protocol.record_errors import CorruptBatch, InvalidRecord
from storage.errors import AppendTimedOut, LogFailed, UnknownPartition
from storage.log import Appended
from storage.segments.cold import Cold, Pulled
from tests.support.fake_log import FakeLog

STALL_MS = 100


class Rig:
    """An append queue over fake logs, with a group commit that only records its calls."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.clock.advance(1_000)
        self.metrics = Metrics()
        self.logs = SimpleNamespace(unflushed_bytes=0)
        self.flushed: list[Partition] = []
        self.calls: list[tuple[Any, Any]] = []  # (call, done), which a thread would take
        self.pool: Any = SimpleNamespace(
            submit=lambda _, call, done: self.calls.append((call, done))
        )
        commit: Any = SimpleNamespace(appended=self.appended)
        self.record_work = work = RecordWork(self.pool, self.metrics)
        logs: Any = self.logs
        self.queue = AppendQueue(
            logs, commit, work, 1_000, STALL_MS, self.metrics, self.clock, self.pool
        )
        self.outcomes: list[tuple[str, Any]] = []

    def appended(self, partition: Partition) -> None:
        self.flushed.append(partition)
        if partition.log.write_caching:
            self.queue.drain()  # as group commit does: such a log advances at once

    def prepared(self, partition: Partition, name: str) -> None:
        """Queue an append that a thread must prepare first."""
        self.queue.queue(
            partition,
            memoryview(b""),
            30_000,
            lambda outcome: self.outcomes.append((name, outcome)),
            lambda: memoryview(name.encode()),
        )

    def end_preparation(self, index: int = 0) -> None:
        call, ended = self.calls.pop(index)
        call()
        ended(None)

    def partition(self, **options: bool) -> Partition:
        return Partition(FakeLog(**options))  # type: ignore[arg-type]

    def append(self, partition: Partition, name: str, timeout_ms: int = 30_000) -> Appended | None:
        batch = memoryview(name.encode())
        if self.queue.has_turn(partition):
            return self.queue.append(partition, batch, 0)
        self.queue.queue(
            partition, batch, timeout_ms, lambda outcome: self.outcomes.append((name, outcome))
        )
        return None


def names(partition: Partition) -> list[bytes]:
    log: Any = partition.log
    return log.appended


def test_a_disk_that_keeps_up_appends_inline() -> None:
    rig = Rig()
    partition = rig.partition()
    appended = rig.append(partition, "a")
    assert appended is not None
    assert appended.base_offset == 0
    assert rig.flushed == [partition]
    assert rig.metrics.appends_queued == 0


class _LoadedLog(FakeLog):
    """A log whose end is not in memory."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__()
        self.is_end_loaded = False
        self.is_cold = True
        self.error = error

    def load_end(self) -> None:
        if self.is_cold:
            raise _Missing(self)
        if self.error is not None:
            raise self.error
        self.is_end_loaded = True


class _Missing(Cold):
    def __init__(self, log: _LoadedLog) -> None:
        super().__init__("the end of the log")
        self.log = log

    def pull(self) -> None:
        self.log.is_cold = False

    def keep(self, pulled: Pulled) -> None:
        pass


@pytest.mark.parametrize("error", [None, LogFailed("/log", "cannot be read")])
async def test_the_first_append_waits_in_line_for_a_thread_to_read_the_end(
    error: Exception | None,
) -> None:
    rig = Rig()
    partition = Partition(_LoadedLog(error))  # type: ignore[arg-type]
    assert rig.append(partition, "a") is None
    assert rig.append(partition, "b") is None
    ((pull, ended),) = rig.calls  # one for both
    pull()
    ended(None)
    await asyncio.sleep(0)
    if error is None:
        assert names(partition) == [b"a", b"b"]
        assert rig.append(partition, "c") is not None
    else:
        assert rig.outcomes == [("a", error), ("b", error)]
    assert rig.metrics.appends_queued_now == 0
    assert len(partition.queue) == 0


@pytest.mark.parametrize("why", ["bytes", "slow flush"])
def test_a_disk_that_does_not_queues_in_order_and_drains(why: str) -> None:
    rig = Rig()
    partition = rig.partition()
    if why == "bytes":
        rig.logs.unflushed_bytes = 1_001
    else:
        partition.flush_started_ns = rig.clock.monotonic_ns()
        rig.clock.advance(STALL_MS + 1)
    assert rig.append(partition, "a") is None
    rig.logs.unflushed_bytes = 0
    partition.flush_started_ns = 0
    assert rig.append(partition, "b") is None, "b must not overtake a"
    assert names(partition) == []
    assert rig.metrics.appends_queued_now == 2
    rig.queue.drain()
    assert names(partition) == [b"a", b"b"]
    assert [(name, outcome.base_offset) for name, outcome in rig.outcomes] == [("a", 0), ("b", 1)]
    assert rig.metrics.appends_queued_now == 0
    assert rig.append(partition, "c") is not None


def test_a_drain_stops_where_the_disk_falls_behind_again() -> None:
    rig = Rig()
    partition = rig.partition()
    rig.logs.unflushed_bytes = 1_001
    rig.append(partition, "a")
    rig.queue.drain()
    assert names(partition) == []
    assert rig.metrics.appends_queued_now == 1


def test_write_caching_is_not_gated() -> None:
    rig = Rig()
    rig.logs.unflushed_bytes = 10**9
    assert rig.append(rig.partition(write_caching=True), "a") is not None


def test_a_queued_append_to_a_log_that_fails_meanwhile_is_refused() -> None:
    rig = Rig()
    partition = rig.partition()
    rig.logs.unflushed_bytes = 1_001
    rig.append(partition, "a")
    failure = LogFailed("t-0", "fsync failed")
    partition.log.failed = failure
    rig.queue.drain()
    assert rig.outcomes == [("a", failure)]


def test_a_partition_that_goes_away_refuses_its_queue() -> None:
    rig = Rig()
    partition = rig.partition()
    rig.logs.unflushed_bytes = 1_001
    rig.append(partition, "a")
    gone = UnknownPartition("t", 0)
    rig.queue.drop(partition, gone)
    assert rig.outcomes == [("a", gone)]
    rig.queue.drain()
    assert names(partition) == []


def test_an_append_that_expires_before_its_thread_starts_is_refused_at_once() -> None:
    rig = Rig()
    partition = rig.partition()
    for number in range(AT_ONCE + 1):
        rig.prepared(partition, str(number))
    rig.clock.advance(30_000)
    rig.queue.sweep()
    assert [name for name, _ in rig.outcomes] == [str(AT_ONCE)]
    for _ in range(AT_ONCE):
        rig.end_preparation()
    assert (len(rig.outcomes), rig.calls, names(partition)) == (AT_ONCE + 1, [], [])


def test_an_append_that_waits_longer_than_its_timeout_is_refused() -> None:
    rig = Rig()
    partition = rig.partition()
    rig.logs.unflushed_bytes = 1_001
    for name, timeout_ms in (("a", 50), ("b", 5_000), ("c", 50)):
        assert rig.append(partition, name, timeout_ms) is None
    rig.clock.advance(49)
    rig.queue.sweep()
    assert rig.outcomes == []
    rig.clock.advance(1)
    rig.queue.sweep()
    assert [(name, type(outcome)) for name, outcome in rig.outcomes] == [
        ("a", AppendTimedOut),
        ("c", AppendTimedOut),
    ]
    assert (rig.metrics.appends_timed_out, rig.metrics.appends_queued_now) == (2, 1)
    rig.logs.unflushed_bytes = 0
    rig.queue.sweep()
    assert names(partition) == [b"b"]


def test_a_batch_that_must_be_prepared_keeps_its_place() -> None:
    rig = Rig()
    partition = rig.partition()
    done: list[Any] = []

    def queue(name: str, prepare: Any = None) -> None:
        rig.queue.queue(partition, memoryview(name.encode()), 1_000, done.append, prepare)

    queue("slow", lambda: memoryview(b"SLOW"))
    assert not rig.queue.has_turn(partition)
    queue("fast")
    queue("slower", lambda: memoryview(b"SLOWER"))
    rig.queue.drain()
    assert names(partition) == []
    (call, ended), (second_call, second_ended) = rig.calls
    second_call()
    second_ended(None)
    assert names(partition) == [], "the previous batch is still being prepared"
    call()
    ended(None)
    assert names(partition) == [b"SLOW", b"fast", b"SLOWER"]
    assert [outcome.base_offset for outcome in done] == [0, 1, 2]
    assert rig.metrics.appends_queued_now == 0
    assert rig.queue.has_turn(partition)


def test_a_batch_that_cannot_be_prepared_is_refused_in_its_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig()
    partition = rig.partition()
    done: list[Any] = []
    refusal = CorruptBatch(0, "the records are garbage")
    for error in (refusal, MemoryError("none left")):
        rig.queue.queue(partition, memoryview(b"x"), 1_000, done.append, lambda: 1 / 0)
        rig.calls.pop()[1](error)
    assert done[0] is refusal
    assert isinstance(done[1], InvalidRecord)
    assert [record.exc_info is not None for record in caplog.records] == [True]
    assert names(partition) == []


def test_an_append_that_asks_for_a_drain_does_not_drain_within_the_drain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A `write.caching` log advances within the append, and each advance asks for a drain."""
    monkeypatch.setattr(append_queue, "STEP_BYTES_MAX", 1 << 30)
    rig = Rig()
    partition = rig.partition(write_caching=True)
    count = 3_000  # far beyond the interpreter's recursion limit
    for number in range(count):
        rig.prepared(partition, str(number))
    for _ in range(count - 1):
        rig.end_preparation(-1)
    assert names(partition) == [], "the first batch is still being prepared"
    rig.end_preparation()
    assert names(partition) == [b"%d" % number for number in range(count)]
    assert [name for name, _ in rig.outcomes] == [str(number) for number in range(count)]
    assert rig.metrics.appends_queued_now == 0
    assert rig.queue.has_turn(partition)


def test_a_drain_takes_one_append_of_each_partition_in_turn() -> None:
    rig = Rig()
    partitions = [rig.partition() for _ in range(3)]
    rig.logs.unflushed_bytes = 1_001
    for number, partition in enumerate(partitions):
        for turn in range(3):
            rig.append(partition, f"{number}{turn}")
    rig.logs.unflushed_bytes = 0
    rig.queue.drain()
    assert [name for name, _ in rig.outcomes] == [
        "00", "10", "20", "01", "11", "21", "02", "12", "22"
    ]  # fmt: skip


async def test_a_long_drain_yields_to_the_loop_and_continues_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(append_queue, "STEP_BYTES_MAX", 10 * append_queue.APPEND_BYTES_MIN)
    rig = Rig()
    partition = rig.partition()
    rig.logs.unflushed_bytes = 1_001
    for number in range(25):
        rig.append(partition, str(number))
    rig.logs.unflushed_bytes = 0
    lengths = []
    rig.queue.drain()
    while partition.queue:
        lengths.append(len(names(partition)))
        rig.queue.drain()  # a flush that ends meanwhile does not stretch the step
        assert len(names(partition)) == lengths[-1]
        await asyncio.sleep(0)
    assert lengths == [10, 20]
    assert names(partition) == [b"%d" % number for number in range(25)]


@pytest.mark.parametrize("why", ["late", "deleted"])
def test_an_append_in_a_thread_is_answered_once_the_thread_has_ended(why: str) -> None:
    """The answer gives the request's memory to the next frame."""
    rig = Rig()
    partition = rig.partition()
    rig.prepared(partition, "slow")
    if why == "late":
        rig.clock.advance(30_000)
        rig.queue.sweep()
    else:
        rig.queue.drop(partition, UnknownPartition("t", 0))
    assert (rig.outcomes, list(partition.queue)) == ([], [])
    assert rig.queue.has_turn(partition)
    rig.end_preparation()
    ((name, outcome),) = rig.outcomes
    assert (name, type(outcome)) == (
        "slow", AppendTimedOut if why == "late" else UnknownPartition
    )  # fmt: skip
    assert names(partition) == []
    assert rig.metrics.appends_queued_now == 0


async def test_a_stop_refuses_appends_that_wait_for_preparation() -> None:
    rig = Rig()
    partition = rig.partition()
    for number in range(AT_ONCE + 2):
        rig.prepared(partition, str(number))
    rig.record_work.stop()
    await asyncio.sleep(0)
    for _ in range(AT_ONCE):
        rig.end_preparation()
    refused = [name for name, outcome in rig.outcomes if isinstance(outcome, WalkAbandoned)]
    assert refused == [str(AT_ONCE), str(AT_ONCE + 1)]
    assert names(partition) == [b"0", b"1"]


async def test_an_unexpected_error_of_one_append_affects_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported: list[BaseException] = []
    monkeypatch.setattr(owners, "failed", lambda owner, error: reported.append(error))
    rig = Rig()
    first, second = rig.partition(), rig.partition()
    rig.logs.unflushed_bytes = 1_001
    for name in ("a", "b"):
        rig.append(first, name)
    rig.queue.queue(second, memoryview(b"c"), 1_000, lambda outcome: 1 / 0)
    rig.append(second, "d")
    log: Any = first.log
    append, unexpected = log.append, ZeroDivisionError("in the log")

    def fails_once(*arguments: Any) -> Any:
        log.append = append
        raise unexpected

    log.append = fails_once
    rig.logs.unflushed_bytes = 0
    rig.queue.drain()
    assert rig.outcomes[0] == ("a", unexpected), "it still gets an answer"
    assert [name for name, _ in rig.outcomes[1:]] == ["b", "d"]
    assert (names(first), names(second)) == ([b"b"], [b"c", b"d"])
    assert [type(error) for error in reported] == [ZeroDivisionError] * 2
    assert (rig.metrics.appends_queued_now, rig.queue.queued) == (0, {})
