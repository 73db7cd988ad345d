"""DescribeQuorum: one voter and its progress. Compared with Kafka."""

import pytest

from protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    Listener,
    Node,
    PartitionToDescribe,
    ReplicaState,
    TopicToDescribe,
)
from tests.support.broker_rig import Rig
from tests.support.metadata_node import create_topic
from tests.support.rig_client import ask, create

METADATA = "__cluster_metadata"


def request(*topics: tuple[str, list[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            TopicToDescribe(
                topic_name=name,
                partitions=[PartitionToDescribe(partition_index=number) for number in numbers],
            )
            for name, numbers in topics
        ]
    )


@pytest.mark.parametrize("version", range(3))
async def test_every_version_names_the_one_voter(rig: Rig, version: int) -> None:
    await create(rig)
    log = rig.services.controller.metadata_log.log
    before_ms = rig.clock.now_ms()
    answer = await ask(rig, request((METADATA, [0])), version)
    assert (answer.error_code, answer.error_message) == (0, "")
    ((partition,),) = (topic.partitions for topic in answer.topics)
    assert (partition.error_code, partition.error_message) == (0, "")
    assert (partition.leader_id, partition.leader_epoch) == (1, log.leader_epoch)
    assert partition.high_watermark == log.end_offset > 9
    (voter,) = partition.current_voters
    caught_up_ms = voter.last_caught_up_timestamp
    assert voter == ReplicaState(
        replica_id=1,
        log_end_offset=log.end_offset,
        last_fetch_timestamp=caught_up_ms,
        last_caught_up_timestamp=caught_up_ms,
    )
    if version >= 1:
        assert before_ms <= caught_up_ms <= rig.clock.now_ms()
    else:
        assert caught_up_ms == -1
    assert partition.observers == []
    endpoint = Listener(name="PLAINTEXT", host="127.0.0.1", port=9092)
    assert answer.nodes == ([Node(node_id=1, listeners=[endpoint])] if version >= 2 else [])


async def test_the_high_watermark_is_the_durable_end(rig: Rig) -> None:
    metadata_log = rig.services.controller.metadata_log
    durable_offset = metadata_log.end_offset
    create_topic(rig.services.controller, "t", rig.clock.now_ms())
    answer = await ask(rig, request((METADATA, [0])), 2)
    (partition,) = answer.topics[0].partitions
    assert partition.high_watermark == durable_offset
    assert partition.current_voters[0].log_end_offset == metadata_log.end_offset > durable_offset


@pytest.mark.parametrize(
    "wanted",
    [
        [("t", [0])],
        [("nope", [0])],
        [(METADATA, [1])],
        [(METADATA, [0, 1])],
        [(METADATA, [0, 0])],
        [(METADATA, [0]), ("t", [0])],
        [(METADATA, [0]), (METADATA, [0])],
        [(METADATA, [])],
        [],
    ],
    ids=repr,
)
async def test_anything_else_is_unknown(rig: Rig, wanted: list[tuple[str, list[int]]]) -> None:
    await create(rig)
    answer = await ask(rig, request(*wanted), 2)
    assert (answer.error_code, answer.nodes) == (0, [])
    assert [
        (
            topic.topic_name,
            [(one.partition_index, one.error_code, bool(one.error_message)) for one in parts],
        )
        for topic in answer.topics
        for parts in (topic.partitions,)
    ] == [(name, [(number, 3, True) for number in numbers]) for name, numbers in wanted]
