"""Who may commit in a transaction of a consumer group (KIP-447, KIP-848)."""

import pytest

from broker.groups.consumer.consumer_group import ConsumerGroup
from broker.groups.errors import GroupError
from broker.groups.group import Caller
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.support.fake_topics import FakeTopics, topic_id
from tests.support.group_host import FakeHost

UNKNOWN, ILLEGAL = 25, 22


def code_of(group, member_id, generation, *partitions, instance_id=None):
    body = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=9,
        producer_epoch=3,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance_id,
    )
    try:
        group.check_txn_commit(body, [("a", number) for number in partitions])
    except GroupError as error:
        return error.code
    return 0


def beat(group, member_id, epoch, **said):
    if not epoch:
        said = {"subscribed_topic_names": ["a"], "rebalance_timeout_ms": 60_000, **said}
        said["topic_partitions"] = []
    body = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch, **said
    )
    group.consumer_group_heartbeat(body, Caller("c", "/h", 1), lambda _: None)


@pytest.fixture
def consumers():
    """A consumer group whose member `m` has the partitions 0 to 3 of `a` since epoch 2."""
    host = FakeHost()
    host.topics = FakeTopics(a=4)
    group = ConsumerGroup("g", host)
    beat(group, "m", 0)
    assert group.state.members["m"].member_epoch == 2
    return group


@pytest.mark.parametrize(
    ("member_id", "generation", "instance_id", "code"),
    [
        ("m", 2, None, 0),
        ("m", 1, None, ILLEGAL),
        ("m", 3, None, ILLEGAL),
        ("m", -1, None, ILLEGAL),
        ("x", 2, None, UNKNOWN),
        ("", 2, None, UNKNOWN),
        ("", -1, None, 0),
        ("", -1, "s", UNKNOWN),
        ("", -2, None, UNKNOWN),
    ],
)
def test_which_members_of_a_consumer_group_may_commit(
    consumers, member_id, generation, instance_id, code
):
    assert code_of(consumers, member_id, generation, 0, instance_id=instance_id) == code


def test_an_older_epoch_is_accepted_for_partitions_that_the_member_has_had_since(consumers):
    """KIP-1251, as for plain commits."""
    said = {"topic_partitions": [TopicPartitions(topic_id=topic_id("a"), partitions=[0, 1])]}
    beat(consumers, "n", 0)
    beat(consumers, "m", 2)
    beat(consumers, "m", 2, **said)
    assert consumers.state.members["m"].member_epoch == 3
    assert code_of(consumers, "m", 2, 0, 1) == 0
    assert code_of(consumers, "m", 2, 0, 2) == ILLEGAL, "it has not got 2 any more"
    assert code_of(consumers, "m", 1, 0) == ILLEGAL, "it got 0 later"


def test_an_empty_consumer_group_takes_commits_without_a_generation():
    host = FakeHost()
    group = ConsumerGroup("g", host)
    assert code_of(group, "", -1, 0) == 0
    assert code_of(group, "m", -5, 0) == 0
    assert code_of(group, "m", 1, 0) == UNKNOWN
