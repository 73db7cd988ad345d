"""A request that names one thing many thousand times: its answer, and the steps it is made in.

`WORK` is every API that answers for each thing named, or with all that the broker has. The clock
goes on by a millisecond whenever the broker looks at it, so a slice of the loop is a few steps
whatever the machine: an API that would do its work in one go is seen at once.
"""

from typing import Any

import pytest

from broker.runtime import steps
from broker.runtime.clock import MS_NS
from protocol.kafka.codec import encode_message
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
)
from protocol.messages.describe_topic_partitions import (
    TopicRequest as TopicToDescribe,
)
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.broker_rig import Rig
from tests.support.group_rig import commit, find, member
from tests.support.rig_client import ask, create

TIMES = 20_000
PARTITIONS = 40
TOPIC, GROUPS = 2, 32
INVALID_REQUEST = 42
METADATA = "m" * 4000


class TickingClock:
    """A millisecond passes with each look at it."""

    def __init__(self) -> None:
        self.looks = 0

    def monotonic_ns(self) -> int:
        self.looks += 1
        return self.looks * MS_NS


@pytest.fixture
async def rig(tmp_path):
    made = Rig(tmp_path, offsets_topic_num_partitions="1")
    await create(made, "t", PARTITIONS)
    await find(made)
    everything = [("t", number, number) for number in range(PARTITIONS)]
    await commit(made, *everything, metadata=METADATA)
    await member(made, "classic")
    made.dispatcher._stepper._clock = TickingClock()
    yield made
    assert await made.close()


def all_of(group: str) -> OffsetFetchRequestGroup:
    return OffsetFetchRequestGroup(group_id=group, topics=None)


def of_partition(group: str, number: int, times: int) -> OffsetFetchRequestGroup:
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[number] * times)]
    return OffsetFetchRequestGroup(group_id=group, topics=topics)


def configs_of(kind: int, *names: str) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name) for name in names
        ],
        include_synonyms=True,
        include_documentation=True,
    )


EPOCH = OffsetForLeaderPartition(partition=0, leader_epoch=0)
EARLIEST = ListOffsetsPartition(partition_index=0, timestamp=-2)
ALL_OFFSETS_BYTES = PARTITIONS * (len(METADATA) + 30)

# Name, request, version, how many bytes the answer may have, whether it takes more than a slice.
WORK: list[tuple[str, Any, int, int, bool]] = [
    ("a group's offsets", OffsetFetchRequest(groups=[all_of("g")]), 9, ALL_OFFSETS_BYTES, True),
    (
        "one group",
        OffsetFetchRequest(groups=[all_of("g")] * TIMES),
        9,
        ALL_OFFSETS_BYTES,
        True,
    ),
    (
        "one partition of a group",
        OffsetFetchRequest(groups=[of_partition("g", 0, TIMES)]),
        9,
        len(METADATA) + 100,
        True,
    ),
    ("a topic's configs", configs_of(TOPIC, *["t"] * TIMES), 4, 20_000, True),
    ("a classic group", DescribeGroupsRequest(groups=["classic"] * TIMES), 6, 300, False),
    ("no group", ConsumerGroupDescribeRequest(group_ids=["no"] * TIMES), 1, 100, False),
    (
        "producers of a partition",
        DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0] * TIMES)]),
        0,
        100,
        True,
    ),
    (
        "a partition's start",
        ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[EARLIEST] * TIMES)]
        ),
        11,
        100,
        True,
    ),
    (
        "an epoch",
        OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic="t", partitions=[EPOCH] * TIMES)]
        ),
        4,
        TIMES * 25,
        True,
    ),
    ("a coordinator", FindCoordinatorRequest(coordinator_keys=["k"] * TIMES), 6, TIMES * 30, True),
    (
        "an election",
        ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0] * TIMES)]),
        2,
        TIMES * 100,
        True,
    ),
    (
        "what moves",
        ListPartitionReassignmentsRequest(
            topics=[ListPartitionReassignmentsTopics(name="t", partition_indexes=[0])] * TIMES
        ),
        0,
        100,
        True,
    ),
    (
        "a topic",
        MetadataRequest(topics=[MetadataRequestTopic(name="t")] * TIMES),
        12,
        PARTITIONS * 40,
        False,
    ),
    ("every topic", MetadataRequest(topics=None), 12, 60 * 100, True),
    (
        "a topic's pages",
        DescribeTopicPartitionsRequest(topics=[TopicToDescribe(name="t")] * TIMES),
        0,
        PARTITIONS * 60,
        True,
    ),
    ("the directory", DescribeLogDirsRequest(topics=None), 5, 60 * 100, True),
    ("every group", ListGroupsRequest(), 5, 200, True),
    ("every resource", ListConfigResourcesRequest(), 1, 300, True),
    (
        "a new topic",
        CreateTopicsRequest(
            topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)] * TIMES
        ),
        7,
        200,
        False,
    ),
]


@pytest.mark.parametrize(
    ("body", "version", "bytes_max", "in_steps"),
    [case[1:] for case in WORK],
    ids=[case[0] for case in WORK],
)
async def test_one_thing_named_many_times(rig, body, version, bytes_max, in_steps):
    answer = await ask(rig, body, version)
    assert len(encode_message(answer, version)) <= bytes_max
    assert bool(rig.services.metrics.answers_in_steps) == in_steps


async def test_different_names_that_all_have_large_answers(rig, monkeypatch):
    monkeypatch.setattr(steps, "ANSWER_BYTES_MAX", 100_000)
    answer = await ask(rig, configs_of(GROUPS, *map(str, range(TIMES))), 4)
    assert {(one.error_code, len(one.configs)) for one in answer.results} == {(INVALID_REQUEST, 0)}
    assert rig.services.metrics.request_errors == 1
