"""Error codes in answers are found at any depth."""

from broker.error_counts import SEARCHED_PER_STEP, ErrorCounts, search_of
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


def test_a_long_answer_is_searched_in_steps() -> None:
    counts = ErrorCounts(Traffic())
    many = 10 * SEARCHED_PER_STEP
    partitions = [MetadataResponsePartition(error_code=5, partition_index=0, leader_id=1)] * many
    long_list = MetadataResponse(topics=[MetadataResponseTopic(name="a", partitions=partitions)])
    assert sum(1 for _ in counts.count_in_steps(3, long_list)) >= 10
    topics = [MetadataResponseTopic(error_code=3, name="a")] * many
    assert sum(1 for _ in counts.count_in_steps(3, MetadataResponse(topics=topics))) >= many
    assert counts._traffic.errors == {(3, 5): many, (3, 3): many}


def test_every_answer_of_every_api_can_be_searched() -> None:
    without = [row.name for row in HANDLERS if search_of(row.response) is None]
    assert without == []
