"""New partitions: Kafka's codes and texts for each reason to refuse them (from Kafka 4.3)."""

import pytest

from broker.metadata.growth import MorePartitions, added_replicas
from broker.metadata.image import PartitionInfo, TopicInfo
from broker.metadata.topic_rules import Placement, TopicError
from protocol.errors import ErrorCode
from tests.support.metadata_node import NOW_MS, OUR_DIRECTORY, Node, create_partitions

PLACEMENT = Placement(1, 1, 1, clamp=False)


def topic(count: int = 2, replicas: tuple[int, ...] = (1,)) -> TopicInfo:
    partitions = [
        PartitionInfo(number, list(replicas), [1], 1, 0, 0, [OUR_DIRECTORY] * len(replicas))
        for number in range(count)
    ]
    return TopicInfo("pa", bytes([1]) * 16, partitions)


@pytest.mark.parametrize(
    ("count", "assignments", "code", "message"),
    [
        (2, None, "INVALID_PARTITIONS", "Topic already has 2 partition(s)."),
        (2, [], "INVALID_PARTITIONS", "Topic already has 2 partition(s)."),
        (
            1,
            None,
            "INVALID_PARTITIONS",
            "The topic pa currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            0,
            [[1]],
            "INVALID_PARTITIONS",
            "The topic pa currently has 2 partition(s); 0 would not be an increase.",
        ),
        (
            -1,
            None,
            "INVALID_PARTITIONS",
            "The topic pa currently has 2 partition(s); -1 would not be an increase.",
        ),
        (
            5,
            [[1]],
            "INVALID_REPLICA_ASSIGNMENT",
            "Attempted to add 3 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            3,
            [[1], [1], [1]],
            "INVALID_REPLICA_ASSIGNMENT",
            "Attempted to add 1 additional partition(s), but only 3 assignment(s) were specified.",
        ),
        (
            3,
            [[]],
            "INVALID_REPLICA_ASSIGNMENT",
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            4,
            [[1], [2]],
            "INVALID_REPLICA_ASSIGNMENT",
            "The manual partition assignment includes broker 2, but no such broker is registered.",
        ),
        (
            3,
            [[1, 1]],
            "INVALID_REPLICA_ASSIGNMENT",
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            10_003,
            None,
            "UNKNOWN_SERVER_ERROR",
            "A request can add 10000 partitions at most; send several.",
        ),
        (
            2**31 - 1,
            None,
            "UNKNOWN_SERVER_ERROR",
            "A request can add 10000 partitions at most; send several.",
        ),
    ],
)
def test_refusals(count: int, assignments: list[list[int]] | None, code: str, message: str) -> None:
    asked = MorePartitions(name="pa", count=count, assignments=assignments)
    with pytest.raises(TopicError) as caught:
        added_replicas(topic(), asked, PLACEMENT, record_count=0)
    assert (caught.value.code.name, caught.value.message) == (code, message)


def test_the_records_of_one_request_count_together() -> None:
    asked = MorePartitions(name="pa", count=3)
    assert added_replicas(topic(), asked, PLACEMENT, record_count=9_999) == [[1]]
    with pytest.raises(TopicError):
        added_replicas(topic(), asked, PLACEMENT, record_count=10_000)


@pytest.mark.parametrize("assignments", [None, [[1], [1]]])
def test_new_partitions_are_on_this_broker(assignments: list[list[int]] | None) -> None:
    asked = MorePartitions(name="pa", count=4, assignments=assignments)
    assert added_replicas(topic(), asked, PLACEMENT, record_count=0) == [[1], [1]]


def test_a_topic_of_a_larger_cluster_grows_only_with_replication_factor_1() -> None:
    asked = MorePartitions(name="pa", count=3)
    with pytest.raises(TopicError) as caught:
        added_replicas(topic(replicas=(1, 2, 3)), asked, PLACEMENT, record_count=0)
    assert caught.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
    clamped = Placement(1, 1, 1, clamp=True)
    assert added_replicas(topic(replicas=(1, 2, 3)), asked, clamped, record_count=0) == [[1]]


# -- The controller's part -------------------------------------------------------------------------


def grow(node, *asked):
    return create_partitions(node.controller, more(*asked), NOW_MS)


def more(*asked):
    return [MorePartitions(name=name, count=count) for name, count in asked]


def test_growth_survives_a_power_cut_once_the_log_is_durable_and_not_before():
    node = Node()
    node.create("orders", 2)
    grown = grow(node, ("orders", 3))
    assert grown.end_offset == node.controller.metadata_log.end_offset
    lost = node.restart(unclean=True)
    assert len(lost.image.topics["orders"].partitions) == 2
    grow(lost, ("orders", 4))
    lost.controller.metadata_log.flush()
    kept = lost.restart(unclean=True)
    partitions = kept.image.topics["orders"].partitions
    assert [(p.partition, p.replicas, p.directories) for p in partitions] == [
        (number, [1], [OUR_DIRECTORY]) for number in range(4)
    ]
    assert [log.partition for log in kept.open_all()] == [0, 1, 2, 3]


def test_validation_and_refusal_write_nothing():
    node = Node()
    node.create("orders", 2)
    end_offset = node.controller.metadata_log.end_offset
    results = node.controller.planner.plan_partitions(more(("orders", 3))).results
    assert results == {"orders": node.image.topics["orders"]}
    results = grow(node, ("orders", 3), ("orders", 4), ("nope", 1)).results
    assert {name: (error.code.name, error.message) for name, error in results.items()} == {
        "orders": ("INVALID_REQUEST", "Duplicate topic name."),
        "nope": ("UNKNOWN_TOPIC_OR_PARTITION", results["nope"].message),
    }
    assert node.controller.metadata_log.end_offset == end_offset
    assert len(node.image.topics["orders"].partitions) == 2
