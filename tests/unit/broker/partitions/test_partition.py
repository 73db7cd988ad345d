"""The registry of partitions."""

import pytest

from broker.partitions.partition import Partitions
from broker.runtime.metrics import Metrics
from storage.errors import LogFailed, UnknownPartition
from tests.support.fake_log import FakeLog


def test_add_get_remove() -> None:
    partitions = Partitions(Metrics())
    added = partitions.add(FakeLog())  # type: ignore[arg-type]
    assert partitions.get("t", 0) is added
    assert partitions.all() == [added]
    with pytest.raises(UnknownPartition) as caught:
        partitions.get("t", 1)
    assert (caught.value.topic, caught.value.partition) == ("t", 1)
    with pytest.raises(AssertionError):
        partitions.add(FakeLog())  # type: ignore[arg-type]
    assert partitions.remove("t", 0) is added
    assert partitions.remove("t", 0) is None
    assert len(partitions) == 0


def test_a_partition_whose_log_cannot_be_opened_is_offline() -> None:
    metrics = Metrics()
    partitions = Partitions(metrics)
    assert partitions.set_offline("t", 0, LogFailed("t-0", "no room"))
    assert not partitions.set_offline("t", 0, LogFailed("t-0", "still no room"))
    assert partitions.offline() == [("t", 0)]
    assert (partitions.is_offline("t", 0), metrics.partitions_offline_now) == (True, 1)
    with pytest.raises(LogFailed, match="still no room"):
        partitions.get("t", 0)
    partitions.add(FakeLog())  # type: ignore[arg-type]
    assert partitions.offline() == []
    partitions.get("t", 0)
    partitions.set_offline("u", 1, LogFailed("u-1", "no room"))
    assert partitions.remove("u", 1) is None
    assert partitions.offline() == []
    assert metrics.partitions_offline_now == 0
