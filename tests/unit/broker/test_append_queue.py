"""Appends go through while the disk keeps up, and keep their order when it does not."""

from types import SimpleNamespace
from typing import Any

import pytest

from broker.append_queue import AppendQueue
from broker.clock import ManualClock
from broker.metrics import Metrics
from broker.partition import Partition
from protocol.record_errors import CorruptBatch, InvalidRecord
from storage.errors import AppendTimedOut, LogFailed, UnknownPartition
from storage.log import Appended
from tests.support.fake_log import FakeLog

STALL_MS = 100


class Rig:
    """An append queue over fake logs, with a group commit that only listens."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.clock.advance(1_000)
        self.metrics = Metrics()
        self.logs = SimpleNamespace(unflushed_bytes=0)
        self.flushed: list[Partition] = []
        self.calls: list[tuple[Any, Any]] = []  # (call, done), which a thread would take
        self.pool: Any = SimpleNamespace(submit=lambda call, done: self.calls.append((call, done)))
        commit: Any = SimpleNamespace(appended=self.flushed.append)
        self.queue = AppendQueue(
            self.logs, commit, self.pool, 1_000, STALL_MS, self.metrics, self.clock
        )  # type: ignore[arg-type]
        self.outcomes: list[tuple[str, Any]] = []

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


def test_what_waits_longer_than_its_request_allows_is_refused_and_not_appended() -> None:
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


def test_a_batch_that_must_be_made_first_keeps_its_place() -> None:
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
    assert names(partition) == [], "the one before it is still being made"
    call()
    ended(None)
    assert names(partition) == [b"SLOW", b"fast", b"SLOWER"]
    assert [outcome.base_offset for outcome in done] == [0, 1, 2]
    assert rig.metrics.appends_queued_now == 0
    assert rig.queue.has_turn(partition)


def test_a_batch_that_cannot_be_made_is_refused_in_its_turn(
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
