"""Counters are plain numbers with names."""

from broker.runtime.metrics import Metrics


def test_snapshot_has_every_counter_by_name() -> None:
    metrics = Metrics()
    metrics.flushes += 2
    snapshot = metrics.snapshot()
    assert snapshot["flushes"] == 2
    assert set(snapshot) == set(Metrics.__slots__) - {"traffic"}
