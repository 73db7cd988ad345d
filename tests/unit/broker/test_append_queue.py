"""Appends go through while the disk keeps up, and keep their order when it does not."""

from types import SimpleNamespace
from typing import Any

import pytest

from broker.append_queue import AppendQueue
from broker.clock import ManualClock
from broker.metrics import Metrics
from broker.partition import Partition
from storage.errors import LogFailed, UnknownPartition
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
        commit: Any = SimpleNamespace(appended=self.flushed.append)
        self.queue = AppendQueue(self.logs, commit, 1_000, STALL_MS, self.metrics, self.clock)  # type: ignore[arg-type]
        self.outcomes: list[tuple[str, Any]] = []

    def partition(self, **options: bool) -> Partition:
        return Partition(FakeLog(**options))  # type: ignore[arg-type]

    def append(self, partition: Partition, name: str) -> Appended | None:
        return self.queue.append(
            partition,
            memoryview(name.encode()),
            0,
            lambda outcome: self.outcomes.append((name, outcome)),
        )


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
