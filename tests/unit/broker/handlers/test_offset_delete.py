"""OffsetDelete: which offsets are deleted, and which are refused."""

import pytest

from protocol.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from protocol.messages.join_group import JoinGroupRequestProtocol
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.support.group_rig import commit, committed, member
from tests.support.rig_client import ask, create


@pytest.fixture
async def rig(group_rig):
    for name in ("t", "u"):
        await create(group_rig, name, 2)
    return group_rig


async def forget(rig, group, *wanted):
    topics = [
        OffsetDeleteRequestTopic(
            name=name,
            partitions=[OffsetDeleteRequestPartition(partition_index=one) for one in partitions],
        )
        for name, partitions in wanted
    ]
    answer = await ask(rig, OffsetDeleteRequest(group_id=group, topics=topics), 0)
    return answer.error_code, [
        (topic.name, one.partition_index, one.error_code)
        for topic in answer.topics
        for one in topic.partitions
    ]


@pytest.mark.parametrize(("group", "code"), [("no", 69), ("", 24)])
async def test_a_missing_group(rig, group, code):
    assert await forget(rig, group, ("t", [0])) == (code, [])


async def test_offsets_are_deleted_and_unknown_partitions_come_first_in_the_answer(rig):
    await commit(rig, ("t", 0, 1), ("t", 1, 2), ("u", 0, 3))
    assert await forget(rig, "g", ("t", [0, 9]), ("no", [0]), ("u", [1])) == (
        0,
        [("t", 9, 3), ("t", 0, 0), ("no", 0, 3), ("u", 1, 0)],
    )
    assert await committed(rig) == {("t", 1): 2, ("u", 0): 3}


async def test_unknown_partitions_of_a_topic_that_is_named_again_are_all_answered(rig):
    await commit(rig, ("t", 0, 1))
    assert await forget(rig, "g", ("t", [0, 8]), ("t", [9]), ("no", [0]), ("no", [1])) == (
        0,
        [("t", 8, 3), ("t", 9, 3), ("t", 0, 0), ("no", 0, 3), ("no", 1, 3)],
    )


async def test_offsets_of_subscribed_topics_are_kept(rig):
    await commit(rig, ("t", 0, 1), ("u", 0, 3))
    await member(rig)
    assert await forget(rig, "g", ("t", [0]), ("u", [0])) == (0, [("t", 0, 86), ("u", 0, 0)])
    assert await committed(rig) == {("t", 0): 1}


async def test_only_the_beginning_of_a_subscription_is_read(rig):
    """Topics and user data, as in version 0; the later fields of version 1 may be missing."""
    await commit(rig, ("t", 0, 1), ("u", 0, 3))
    said = b"\0\x01" + encode_subscription(ConsumerProtocolSubscription(topics=["t"]), 0)[2:]
    await member(rig, protocols=[JoinGroupRequestProtocol(name="range", metadata=said)])
    assert await forget(rig, "g", ("t", [0]), ("u", [0])) == (0, [("t", 0, 86), ("u", 0, 0)])


async def test_offsets_are_kept_if_subscriptions_cannot_be_read(rig):
    await commit(rig, ("u", 0, 3))
    await member(rig, protocols=[JoinGroupRequestProtocol(name="range", metadata=b"?")])
    assert await forget(rig, "g", ("u", [0])) == (0, [("u", 0, 86)])


async def test_a_non_consumer_group_with_members_deletes_nothing(rig):
    await member(rig, protocol_type="connect")
    assert await forget(rig, "g", ("t", [0])) == (68, [])


async def test_an_offset_named_many_times_is_deleted_once(rig):
    await commit(rig, ("t", 0, 1), ("t", 1, 2))
    log = rig.services.partitions.get("__consumer_offsets", 0).log
    before = log.end_offset
    code, partitions = await forget(rig, "g", ("t", [0] * 1000), ("t", [0]))
    assert (code, set(partitions)) == (0, {("t", 0, 0)})
    assert log.end_offset == before + 1
    assert await committed(rig) == {("t", 1): 2}
