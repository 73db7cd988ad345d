"""Prepared batches that wait for their turn: what they hold, and which are prepared again."""

import pytest

from storage.errors import UnknownPartition
from tests.unit.broker.partitions.test_append_queue import Rig, names


@pytest.mark.parametrize("ending", ["in turn", "gone", "late"])
def test_prepared_batches_that_wait_take_bounded_memory(
    monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr("broker.partitions.prepared_batches.PREPARED_BYTES_MAX", 5)
    rig = Rig()
    partition = rig.partition()
    for name in ("slow", "aaaa", "bbbb", "cc"):
        rig.prepared(partition, name)
    for held_bytes in (4, 4, 4):  # the last two find no room, and are dropped
        rig.end_preparation(1 if len(rig.calls) > 1 else 0)
        assert rig.queue.prepared_bytes == held_bytes
    assert len(rig.calls) == 1
    if ending == "in turn":
        while rig.calls:
            rig.end_preparation()
        assert names(partition) == [b"slow", b"aaaa", b"bbbb", b"cc"]
    elif ending == "gone":
        rig.queue.drop(partition, UnknownPartition("t", 0))
    else:
        rig.clock.advance(30_001)
        rig.queue.sweep()
    assert rig.queue.prepared_bytes == 0
    assert (rig.metrics.appends_queued_now, rig.queue.queued) == (0, {})


def test_a_batch_that_stays_as_it_was_sent_is_memory_of_its_request() -> None:
    rig = Rig()
    partition = rig.partition()
    rig.prepared(partition, "slow")
    sent = memoryview(b"sent")
    rig.queue.queue(partition, sent, 30_000, lambda _: None, lambda: sent)
    rig.end_preparation(1)
    assert rig.queue.prepared_bytes == 0
    rig.end_preparation()
    assert names(partition) == [b"slow", b"sent"]
