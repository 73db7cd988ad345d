"""Error codes in answers are found at any depth."""

from broker.error_counts import ErrorCounts, search_of
from broker.handlers import HANDLERS
from broker.runtime.traffic import Traffic
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def test_codes_are_found_at_every_depth_and_none_is_not_counted() -> None:
    traffic = Traffic()
    counts = ErrorCounts(traffic)
    partitions = [
        MetadataResponsePartition(error_code=code, partition_index=code, leader_id=1)
        for code in (0, 5, 5)
    ]
    topics = [
        MetadataResponseTopic(error_code=3, name="a"),
        MetadataResponseTopic(error_code=0, name="b", partitions=partitions),
    ]
    counts.count(3, MetadataResponse(topics=topics))
    counts.count(3, MetadataResponse(topics=topics[:1]))
    where = Coordinator(error_code=16, key="g", node_id=1, host="h", port=1)
    found = FindCoordinatorResponse(error_code=15, coordinators=[where])
    counts.count(10, found)
    assert traffic.errors == {(3, 3): 2, (3, 5): 2, (10, 15): 1, (10, 16): 1}


def test_every_answer_of_every_api_can_be_searched() -> None:
    without = [row.name for row in HANDLERS if search_of(row.response) is None]
    assert without == []
