"""Requests that name very much: other tasks have turns of the loop meanwhile (design.md, I13).

Not the time is measured, but how often another task runs while the request is handled, or in how
many steps its answer is made.
"""

import pytest

from broker import topics
from broker.configs.changes import duplicates
from broker.configs.outcomes import read
from broker.handlers import (
    alter_configs,
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    describe_producers,
    describe_quorum,
    elect_leaders,
    fetch,
    incremental_alter_configs,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    txn_offset_commit,
)
from broker.runtime.steps import finished
from broker.runtime.turns import in_turns
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from protocol.messages.describe_quorum import DescribeQuorumRequest
from protocol.messages.describe_quorum import TopicData as QuorumTopic
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from protocol.messages.fetch import FetchRequest, FetchTopic
from protocol.messages.incremental_alter_configs import AlterableConfig as IncrementalConfig
from protocol.messages.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderTopic,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.many_named import MANY, NAMES, TURNS_MIN, asked, turns_during
from tests.support.rig_client import create

TWICE = [DeleteTopicState(name="n", topic_id=bytes(16))] * MANY


def partitions(*numbers):
    return [OffsetDeleteRequestPartition(partition_index=number) for number in numbers]


@pytest.mark.parametrize(
    "topics",
    [
        [OffsetDeleteRequestTopic(name=name, partitions=partitions(0)) for name in NAMES],
        [OffsetDeleteRequestTopic(name="t", partitions=partitions(*range(1, MANY + 1)))],
    ],
    ids=["topics", "partitions"],
)
async def test_offset_delete_of_many_unknown_places(group_rig, topics):
    await create(group_rig)
    await group_rig.services.groups.ensure_log()
    body = OffsetDeleteRequest(group_id="g", topics=topics)
    response, turns = await turns_during(offset_delete.handle(*asked(group_rig, body, 0)))
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert turns >= TURNS_MIN


@pytest.mark.parametrize(
    ("body", "version"),
    [
        (DeleteTopicsRequest(topic_names=NAMES, timeout_ms=0), 5),
        (DeleteTopicsRequest(topics=TWICE, timeout_ms=0), 6),
    ],
    ids=["names", "one name"],
)
async def test_delete_topics_of_many_names(rig, body, version):
    request, services = asked(rig, body, version)
    judged, turns = await turns_during(delete_topics._judged(services, request))
    assert len(judged) == len({topic.name for topic in body.topics} or NAMES)
    assert turns >= 2 * TURNS_MIN


async def test_metadata_of_more_missing_topics_than_one_request_may_create(rig, monkeypatch):
    async def create_none(*_):
        raise AssertionError("nothing is planned for what must be refused")

    monkeypatch.setattr(rig.services.topics, "create", create_none)
    body = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in NAMES])
    steps, turns = await turns_during(metadata.handle(*asked(rig, body, 9)))
    response = finished(steps)
    assert {one.error_code for one in response.topics} == {ErrorCode.POLICY_VIOLATION}
    assert [one.name for one in response.topics] == NAMES
    assert turns >= TURNS_MIN


@pytest.mark.parametrize(
    ("body", "version"),
    [
        (
            OffsetFetchRequest(
                group_id="g",
                topics=[OffsetFetchRequestTopic(name=n, partition_indexes=[0]) for n in NAMES],
            ),
            1,
        ),
        (
            OffsetFetchRequest(
                groups=[
                    OffsetFetchRequestGroup(
                        group_id="g",
                        topics=[
                            OffsetFetchRequestTopics(
                                topic_id=number.to_bytes(16, "big"), partition_indexes=[0]
                            )
                            for number in range(1, MANY + 1)
                        ],
                    )
                ]
            ),
            10,
        ),
    ],
    ids=["refused", "unknown ids"],
)
async def test_offset_fetch_of_many_topics(rig, body, version):
    """The first has no coordinator: version 1 repeats the error for each partition."""
    steps = offset_fetch.handle(*asked(rig, body, version))
    assert sum(1 for _ in steps) >= 2 * MANY


@pytest.mark.parametrize(
    "topics",
    [
        [OffsetCommitRequestTopic(name=name) for name in NAMES],
        [
            OffsetCommitRequestTopic(
                name="t",
                partitions=[
                    OffsetCommitRequestPartition(partition_index=number, committed_offset=0)
                    for number in range(MANY, 2 * MANY)
                ],
            )
        ],
    ],
    ids=["topics", "partitions"],
)
async def test_offset_commit_of_many_unknown_places(group_rig, topics):
    await create(group_rig)
    body = OffsetCommitRequest(group_id="g", topics=topics)
    response, turns = await turns_during(offset_commit.handle(*asked(group_rig, body, 9)))
    assert [one.name for one in response.topics] == [one.name for one in topics]
    assert [len(one.partitions) for one in response.topics] == [len(o.partitions) for o in topics]
    assert turns >= TURNS_MIN


@pytest.mark.parametrize(
    ("handler", "body", "version"),
    [
        (
            fetch,
            FetchRequest(
                replica_id=1,
                max_wait_ms=0,
                min_bytes=0,
                topics=[FetchTopic(topic=n, partitions=[]) for n in NAMES],
            ),
            11,
        ),
        (
            elect_leaders,
            ElectLeadersRequest(
                topic_partitions=[TopicPartitions(topic=name) for name in NAMES], timeout_ms=1
            ),
            2,
        ),
        (
            offset_for_leader_epoch,
            OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=n) for n in NAMES]),
            4,
        ),
        (
            list_partition_reassignments,
            ListPartitionReassignmentsRequest(
                topics=[ListPartitionReassignmentsTopics(name=name) for name in NAMES]
            ),
            0,
        ),
        (
            describe_quorum,
            DescribeQuorumRequest(topics=[QuorumTopic(topic_name=name) for name in NAMES]),
            2,
        ),
        (
            describe_producers,
            DescribeProducersRequest(topics=[TopicRequest(name=name) for name in NAMES]),
            0,
        ),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
async def test_answers_that_name_many_topics_without_partitions(rig, handler, body, version):
    """A step for each topic, though it has nothing to say of any partition."""
    first = sum(1 for _ in handler.handle(*asked(rig, body, version)))
    assert first >= MANY


async def test_describe_producers_of_many_partitions_of_an_unknown_topic(rig):
    topic = TopicRequest(name="unknown", partition_indexes=list(range(MANY)))
    steps = describe_producers.handle(*asked(rig, DescribeProducersRequest(topics=[topic]), 0))
    assert sum(1 for _ in steps) > MANY // describe_producers.REFUSED_PER_STEP


def growth(*, validate_only):
    topics = [CreatePartitionsTopic(name=name, count=2) for name in NAMES]
    return CreatePartitionsRequest(topics=topics, timeout_ms=1, validate_only=validate_only)


def creation(*, validate_only):
    topics = [
        CreatableTopic(name=name, num_partitions=0, replication_factor=1, assignments=[])
        for name in NAMES
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=1, validate_only=validate_only)


@pytest.mark.parametrize(
    ("read", "body"),
    [
        (create_partitions._asked_of, growth(validate_only=False)),
        (create_topics._wanted, creation(validate_only=False)),
    ],
    ids=["growth", "creation"],
)
async def test_reading_of_many_topics_to_change(read, body):
    """Apart from the plan, which a thread makes while the loop turns."""
    topics, turns = await turns_during(read(body))
    assert [topic.name for topic in topics] == NAMES
    assert turns >= TURNS_MIN


@pytest.mark.parametrize("validate_only", [True, False])
@pytest.mark.parametrize(
    ("handler", "body_of", "code", "version"),
    [
        (create_partitions, growth, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 3),
        (create_topics, creation, ErrorCode.INVALID_PARTITIONS, 7),
    ],
    ids=["growth", "creation"],
)
async def test_changes_of_many_topics_that_are_refused(
    rig, handler, body_of, code, version, validate_only
):
    request, services = asked(rig, body_of(validate_only=validate_only), version)
    steps = await handler.handle(request, services)
    assert sum(1 for _ in steps) >= MANY
    response = finished(await handler.handle(request, services))
    results = response.results if handler is create_partitions else response.topics
    assert [one.name for one in results] == NAMES
    assert {one.error_code for one in results} == {code}


async def test_a_thread_plans_many_topics_that_are_only_validated(rig, monkeypatch):
    run, planned = rig.services.pool.run, []

    async def counted(work, *rest):
        planned.append(work)
        return await run(work, *rest)

    monkeypatch.setattr(rig.services.topics._pool, "run", counted)
    for handler, body, version in (
        (create_partitions, growth(validate_only=True), 3),
        (create_topics, creation(validate_only=True), 7),
    ):
        await handler.handle(*asked(rig, body, version))
    assert len(planned) == 2


async def test_changes_under_way_of_many_names(rig):
    lives = rig.services.controller.lives
    found, turns = await turns_during(topics._undecided_of(lives, NAMES))
    assert not found
    assert turns >= TURNS_MIN - 1


@pytest.mark.parametrize(
    ("handler", "topic", "config"),
    [
        (alter_configs, AlterConfigsResource, AlterableConfig),
        (incremental_alter_configs, IncrementalResource, IncrementalConfig),
    ],
)
async def test_reading_of_many_resources_and_of_many_keys(handler, topic, config):
    many = [topic(resource_type=2, resource_name=name) for name in NAMES]
    configs = [config(name=name, value="1") for name in NAMES]
    one = topic(resource_type=2, resource_name="t", configs=configs)
    for given in (many, [one]):
        resources, turns = await turns_during(
            read(given, handler._operation, replaces=handler is alter_configs)
        )
        assert [resource.name for resource in resources] == [one.resource_name for one in given]
        assert turns >= TURNS_MIN
    assert [operation.name for operation in resources[0].operations] == NAMES


@pytest.mark.parametrize(
    ("handler", "body"),
    [
        (
            alter_configs,
            AlterConfigsRequest(
                resources=[AlterConfigsResource(resource_type=2, resource_name=n) for n in NAMES]
            ),
        ),
        (
            incremental_alter_configs,
            IncrementalAlterConfigsRequest(
                resources=[IncrementalResource(resource_type=2, resource_name=n) for n in NAMES]
            ),
        ),
    ],
    ids=["whole", "incremental"],
)
async def test_configs_of_many_unknown_topics(rig, handler, body):
    request, services = asked(rig, body, 1)
    steps = await handler.handle(request, services)
    assert sum(1 for _ in steps) == MANY
    response = finished(await handler.handle(request, services))
    assert [one.resource_name for one in response.responses] == NAMES


async def test_duplicates_among_many_resources():
    resources = await read(
        [IncrementalResource(resource_type=2, resource_name=name) for name in NAMES],
        incremental_alter_configs._operation,
        replaces=False,
    )
    found, turns = await turns_during(duplicates(resources))
    assert not found
    assert turns >= TURNS_MIN - 1


def reassigned(name, *numbers):
    moves = [ReassignablePartition(partition_index=number, replicas=[1]) for number in numbers]
    return ReassignableTopic(name=name, partitions=moves)


@pytest.mark.parametrize(
    "topics",
    [
        [reassigned(name, 0) for name in NAMES],
        [reassigned(name) for name in NAMES],
        [reassigned("t", *range(MANY))],
    ],
    ids=["topics", "topics without partitions", "partitions"],
)
async def test_reassignments_of_many_unknown_places(rig, topics):
    body = AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=1)
    response, turns = await turns_during(alter_partition_reassignments.handle(*asked(rig, body, 1)))
    assert [one.name for one in response.responses] == [one.name for one in topics]
    assert [len(one.partitions) for one in response.responses] == [
        len(one.partitions) for one in topics
    ]
    assert turns >= TURNS_MIN


async def test_reassignments_of_many_places_that_are_late(rig):
    body = AlterPartitionReassignmentsRequest(
        topics=[reassigned(name, 0) for name in NAMES], timeout_ms=0
    )
    steps = await alter_partition_reassignments.handle(*asked(rig, body, 1))
    assert sum(1 for _ in steps) == 2 * MANY


def in_transaction(name, *numbers):
    return TxnOffsetCommitRequestTopic(
        name=name,
        partitions=[
            TxnOffsetCommitRequestPartition(partition_index=number, committed_offset=0)
            for number in numbers
        ],
    )


@pytest.mark.parametrize(
    "topics",
    [
        [in_transaction(name, 0) for name in NAMES],
        [in_transaction("t", *range(MANY, 2 * MANY))],
        [in_transaction(name) for name in NAMES],
    ],
    ids=["topics", "partitions", "topics without partitions"],
)
async def test_txn_offset_commit_of_many_unknown_places(group_rig, topics):
    await create(group_rig)
    body = TxnOffsetCommitRequest(
        transactional_id="x", group_id="g", producer_id=1, producer_epoch=0, topics=topics
    )
    request, services = asked(group_rig, body, 3)
    found, turns = await turns_during(in_turns(txn_offset_commit._sorted(body, services)))
    assert [one.name for one in found.refused] == [one.name for one in topics]
    assert turns >= TURNS_MIN
    response = await txn_offset_commit.handle(request, services)
    assert response.topics == found.refused


async def test_txn_offset_commit_is_answered_in_steps(group_rig):
    """The producer is unknown: the error is repeated for each of the partitions, which exist."""
    await create(group_rig)
    body = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=1,
        producer_epoch=0,
        topics=[in_transaction("t", 0)] * MANY,
    )
    pending = await txn_offset_commit.handle(*asked(group_rig, body, 3))
    answers = []
    pending.then(answers.append, answers.append)
    assert sum(1 for _ in answers[0]) >= MANY
