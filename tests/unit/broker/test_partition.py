"""The registry of partitions."""

import pytest

from broker.partition import Partitions
from storage.errors import UnknownPartition
from tests.support.fake_log import FakeLog


def test_add_get_remove() -> None:
    partitions = Partitions()
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
