"""The rules for the place of replicas; the tests of the handler show their effect."""

import pytest

from broker.metadata.image import PartitionInfo, TopicInfo
from broker.metadata.reassignment import (
    change,
    check_target,
    find_partition,
    is_moving,
    kept_replicas,
)
from broker.metadata.topic_rules import TopicError
from protocol.errors import ErrorCode

OURS, THEIRS = b"o" * 16, b"t" * 16


def partition(replicas=(1,), adding=(), removing=()) -> PartitionInfo:
    return PartitionInfo(
        partition=0,
        replicas=list(replicas),
        isr=[1],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[OURS if node == 1 else THEIRS for node in replicas],
        adding_replicas=list(adding),
        removing_replicas=list(removing),
    )


@pytest.mark.parametrize(
    ("adding", "removing", "moving"), [([], [], False), ([2], [], True), ([], [2], True)]
)
def test_is_moving(adding, removing, moving):
    assert is_moving(partition([1, 2], adding, removing)) is moving


@pytest.mark.parametrize("number", [-1, 1])
def test_find_partition(number):
    topic = TopicInfo("t", bytes(16), [partition()])
    assert find_partition(topic, "t", 0) is topic.partitions[0]
    for found in (topic, None):
        with pytest.raises(TopicError) as raised:
            find_partition(found, "t", number)
        assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_factor_counts_replicas_that_stay():
    moving = partition([1, 2, 3], removing=[2])
    with pytest.raises(TopicError, match="changed from 2 to 1"):
        check_target(moving, [1], 1, is_led=True, may_change_factor=False)
    check_target(moving, [1], 1, is_led=True, may_change_factor=True)


def test_a_partition_without_a_local_leader_is_refused_last():
    with pytest.raises(TopicError, match="no such broker"):
        check_target(partition(), [2], 1, is_led=False, may_change_factor=True)
    with pytest.raises(TopicError, match="not on broker 1"):
        check_target(partition(), [1], 1, is_led=False, may_change_factor=True)


def test_kept_replicas():
    with pytest.raises(TopicError) as raised:
        kept_replicas(partition(), 1)
    assert raised.value.code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert kept_replicas(partition([2, 1, 3], adding=[3]), 1) == [2, 1]
    with pytest.raises(TopicError) as raised:
        kept_replicas(partition([2, 1], adding=[1]), 1)
    assert raised.value.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_change():
    topic = TopicInfo("t", b"i" * 16, [])
    assert change(topic, partition(), [1]) is None
    record = change(topic, partition([1, 2], adding=[2]), [1])
    assert record is not None
    assert (record.topic_id, record.partition_id) == (topic.topic_id, 0)
    assert (record.replicas, record.adding_replicas, record.removing_replicas) == ([1], [], [])
    assert record.directories == [OURS]
    kept = change(topic, partition([2, 1], removing=[2]), [2, 1])
    assert kept is not None
    assert kept.directories == [THEIRS, OURS]
