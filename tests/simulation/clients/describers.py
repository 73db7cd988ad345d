"""Clients that read what can be described, and strangers that ask for anything at all.

describer   sensible questions in all versions, and whether the answers go with each other
stranger    requests of every API whose values are drawn from its layout; its names are its
            own, so that it changes nothing that another client knows of
"""

from __future__ import annotations

import random
from typing import Any, Final

from protocol.kafka.schema import Array, Fixed, Sized, Struct, read_layout
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from protocol.messages.describe_acls import DescribeAclsRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionToDescribe,
    TopicToDescribe,
)
from protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
)
from protocol.messages.describe_topic_partitions import TopicRequest as PageTopic
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.unregister_broker import UnregisterBrokerRequest
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.simulation.clients.caller import Caller
from tests.simulation.clients.wire import HANDLER_OF
from tests.simulation.context import Context
from tests.simulation.plan import ClientPlan

BY_ID: Final = 12  # the first version of Metadata that names topics by id
PAGES_MAX: Final = 20
FORGED: Final = "strange\n2026-01-01 00:00:00.000+00:00 ERROR   forged"
STRANGE_NAMES: Final = (
    "stranger",
    "strange.0",
    "s" * 249,
    "str\N{SNOWMAN}nge",
    "strange 1",
    FORGED,
)
NUMBERS: Final = (0, 1, -1, 2, 5, 100, 127)
EMPTY_CHANCE: Final = 0.1


async def step(caller: Caller) -> None:
    """Ask one question."""
    ask = caller.rng.choice((_topics_by_id, _pages, _dirs, _configs, _simple, _simple, _simple))
    await ask(caller)


async def run(context: Context, plan: ClientPlan) -> None:
    """Ask questions."""
    caller = Caller(context, plan)
    for _ in caller.steps:
        await step(caller)
        await caller.pause()
    caller.wire.close()


async def _topics_by_id(caller: Caller) -> None:
    topics = await caller.topics()
    if not topics:
        return
    chosen = caller.rng.sample(topics, min(len(topics), 2))
    asked = [MetadataRequestTopic(topic_id=topic.topic_id, name=None) for topic in chosen]
    asked.append(MetadataRequestTopic(topic_id=caller.rng.randbytes(16), name=None))
    version = caller.version_of(MetadataRequest, BY_ID)
    answer = await caller.ask(
        MetadataRequest(topics=asked, allow_auto_topic_creation=False), version
    )
    if answer is None:
        return
    names = {topic.topic_id: topic.name for topic in chosen}
    counts = {topic.topic_id: topic.count for topic in chosen}
    for topic in answer.topics:
        if topic.error_code == 0 and topic.name != names.get(topic.topic_id):
            caller.record.fail(caller.name, f"the id of another topic: {topic.name}")
        elif topic.error_code == 0 and len(topic.partitions) < counts[topic.topic_id]:
            caller.record.fail(caller.name, f"{topic.name} has lost partitions")


async def _pages(caller: Caller) -> None:
    """Read all topics page by page: what is there all the time is on exactly one page."""
    before = {topic.name: topic.topic_id for topic in await caller.look()}
    names = [] if caller.chance(0.5) else sorted(before)
    seen: list[tuple[str, int]] = []
    cursor = None
    for _ in range(PAGES_MAX):
        body = DescribeTopicPartitionsRequest(
            topics=[PageTopic(name=name) for name in names],
            response_partition_limit=caller.rng.choice((1, 2, 5)),
            cursor=cursor,
        )
        answer = await caller.ask(body)
        if answer is None:
            return
        seen += [
            (topic.name, one.partition_index) for topic in answer.topics for one in topic.partitions
        ]
        if answer.next_cursor is None:
            break
        cursor = Cursor(
            topic_name=answer.next_cursor.topic_name,
            partition_index=answer.next_cursor.partition_index,
        )
    else:
        return
    after = {topic.name: topic.topic_id for topic in await caller.look_now() or ()}
    stayed = {name for name in before if after.get(name) == before[name]}
    if len(set(seen)) != len(seen):
        caller.record.fail(caller.name, f"a partition is on two pages: {seen}")
    missing = stayed - {name for name, _ in seen}
    if missing:
        caller.record.fail(caller.name, f"on no page: {sorted(missing)}")


async def _dirs(caller: Caller) -> None:
    topics = await caller.topics()
    asked = None
    if caller.chance(0.5):
        asked = [DescribableLogDirTopic(topic=one.name, partitions=[0, 7]) for one in topics]
    answer = await caller.ask(DescribeLogDirsRequest(topics=asked))
    for found in answer.results if answer is not None else ():
        for topic in found.topics:
            for one in topic.partitions:
                if one.partition_size < 0 or one.is_future_key:
                    caller.record.fail(caller.name, f"{topic.name}: {one}")


async def _configs(caller: Caller) -> None:
    topics = await caller.topics()
    kinds = [(2, topic.name) for topic in topics[:2]] + [(4, ""), (4, "1"), (4, "9"), (8, "")]
    resources = [
        DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=caller.rng.choice((None, []))
        )
        for kind, name in caller.rng.sample(kinds, 2)
    ]
    body = DescribeConfigsRequest(
        resources=[*resources, resources[0]],
        include_synonyms=caller.chance(0.5),
        include_documentation=False,
    )
    answer = await caller.ask(body)
    if answer is not None and len(answer.results) != len(resources):
        caller.record.fail(caller.name, f"{len(answer.results)} answers for {resources}")
    for result in answer.results if answer is not None else ():
        names = [config.name for config in result.configs]
        if len(set(names)) != len(names):
            caller.record.fail(caller.name, f"a config twice: {result.resource_name}")


async def _simple(caller: Caller) -> None:
    """Ask what has few ways to be asked."""
    rng = caller.rng
    topics = await caller.topics()
    names = [topic.name for topic in topics[:2]] or ["nothing"]
    acl = {"operation": rng.randint(0, 5), "permission_type": rng.randint(0, 4)}
    body: Any = rng.choice(
        (
            ApiVersionsRequest(client_software_name="simulation", client_software_version="1"),
            DescribeClusterRequest(endpoint_type=rng.choice((1, 2, 7))),
            DescribeQuorumRequest(
                topics=[
                    TopicToDescribe(
                        topic_name=rng.choice(("__cluster_metadata", names[0])),
                        partitions=[PartitionToDescribe(partition_index=rng.choice((0, 0, 3)))],
                    )
                ]
            ),
            DescribeProducersRequest(
                topics=[TopicRequest(name=name, partition_indexes=[0, 1]) for name in names]
            ),
            ElectLeadersRequest(
                election_type=rng.choice((0, 1)),
                topic_partitions=rng.choice(
                    (None, [TopicPartitions(topic=name, partitions=[0, 9]) for name in names])
                ),
                timeout_ms=rng.choice((0, 5_000)),
            ),
            AlterPartitionReassignmentsRequest(
                topics=[
                    ReassignableTopic(
                        name=names[0],
                        partitions=[
                            ReassignablePartition(
                                partition_index=0, replicas=rng.choice((None, [1], [2], [1, 1], []))
                            )
                        ],
                    )
                ]
            ),
            ListPartitionReassignmentsRequest(),
            ListConfigResourcesRequest(resource_types=rng.choice(([], [2], [4], [16], [99]))),
            UpdateFeaturesRequest(
                feature_updates=[
                    FeatureUpdateKey(
                        feature=rng.choice(("metadata.version", "group.version", "no.feature")),
                        max_version_level=rng.choice((0, 1, 999)),
                    )
                ],
                validate_only=True,
            ),
            UnregisterBrokerRequest(broker_id=rng.choice((2, 9))),
            CreateAclsRequest(
                creations=[
                    # Of no topic that others use: an ACL for one user refuses the others.
                    AclCreation(
                        resource_type=2, resource_name="secret", principal="User:a", host="*", **acl
                    )
                ]
            ),
            DeleteAclsRequest(filters=[DeleteAclsFilter(resource_type_filter=2, **acl)]),
            DescribeAclsRequest(resource_type_filter=2, **acl),
        )
    )
    lowest = 1 if isinstance(body, UpdateFeaturesRequest) else 0  # 0 cannot only check
    await caller.ask(body, caller.version_of(type(body), lowest))


# -- Strangers -------------------------------------------------------------------------------------


async def run_stranger(context: Context, plan: ClientPlan) -> None:
    """Send requests of every API, with values that usually make little sense."""
    caller = Caller(context, plan)
    handlers = [HANDLER_OF[key] for key in sorted(HANDLER_OF)]
    for _ in caller.steps:
        handler = caller.rng.choice(handlers)
        version = caller.version_of(handler.request)
        body = drawn(read_layout(handler.request, version), caller.rng)
        await caller.ask(body, version, timeout_ms=30_000)
        await caller.pause()
    caller.wire.close()


def drawn(wire_type: Any, rng: random.Random) -> Any:
    """Return a value of a wire type, which the codec can write."""
    if getattr(wire_type, "nullable", False) and rng.random() < EMPTY_CHANCE:
        return None
    match wire_type:
        case Fixed("?"):
            return rng.random() < 0.5
        case Fixed("16s"):
            return rng.choice((bytes(16), rng.randbytes(16)))
        case Fixed("d"):
            return 0.5
        case Fixed():
            is_signed = wire_type.format.islower()
            return rng.choice([number for number in NUMBERS if is_signed or number >= 0])
        case Sized("string"):
            return rng.choice(STRANGE_NAMES)
        case Sized():
            return rng.randbytes(rng.choice((0, 3, 61, 70)))
        case Array():
            count = rng.choice((0, 1, 1, 2))
            return [drawn(wire_type.element, rng) for _ in range(count)]
        case Struct():
            fields = (*wire_type.fields, *wire_type.tagged)
            return wire_type.cls(**{one.name: drawn(one.type, rng) for one in fields})
    raise AssertionError(wire_type)
