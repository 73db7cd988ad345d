"""Metadata: which topics, which of them are created, and the answers for missing ones.

Compared with Kafka; the handler's docstring names the differences.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.handlers.metadata import error_response
from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.wire import ZERO_UUID
from storage.errors import LogFailed
from tests.support.broker_rig import Rig
from tests.support.rig_client import ask, create

STRANGE_ID = b"x" * 16
NO_OPERATIONS = -(2**31)  # Kafka's default: not asked for
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
INVALID = ErrorCode.INVALID_TOPIC_EXCEPTION


def named(*names: str | None, create: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=create,
    )


def of_ids(*pairs: tuple[str | None, bytes], create: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name, topic_id=topic_id) for name, topic_id in pairs],
        allow_auto_topic_creation=create,
    )


def codes(response: Any) -> Sequence[tuple[str | None, int]]:
    return [(topic.name, topic.error_code) for topic in response.topics]


@pytest.mark.parametrize("version", range(14))
async def test_every_version_returns_its_fields(rig: Rig, version: int) -> None:
    topic_id = await create(rig, "t", 2)
    response = await ask(rig, named("t"), version)
    (broker,) = response.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, "127.0.0.1", 9092)
    assert response.controller_id == (1 if version >= 1 else -1)
    assert response.cluster_id == (rig.services.cluster_id if version >= 2 else None)
    assert response.error_code == 0
    (topic,) = response.topics
    assert (topic.name, topic.error_code, topic.is_internal) == ("t", 0, False)
    assert topic.topic_id == (topic_id if version >= 10 else ZERO_UUID)
    assert [partition.partition_index for partition in topic.partitions] == [0, 1]
    for partition in topic.partitions:
        assert (partition.error_code, partition.leader_id) == (0, 1)
        assert partition.leader_epoch == (0 if version >= 7 else -1)
        assert partition.replica_nodes == partition.isr_nodes == [1]
        assert partition.offline_replicas == []
    assert response.cluster_authorized_operations == NO_OPERATIONS
    assert topic.topic_authorized_operations == NO_OPERATIONS


@pytest.mark.parametrize(
    ("version", "topics", "expected"),
    [
        (0, [], ["a", "b"]),
        (1, None, ["a", "b"]),
        (9, None, ["a", "b"]),
        (13, None, ["a", "b"]),
        (1, [], []),
        (4, [], []),
        (13, [], []),
    ],
)
async def test_all_topics_or_none(
    rig: Rig, version: int, topics: list[MetadataRequestTopic] | None, expected: list[str]
) -> None:
    await create(rig, "a")
    await create(rig, "b")
    response = await ask(rig, MetadataRequest(topics=topics), version)
    assert sorted(topic.name for topic in response.topics) == expected
    assert len(response.brokers) == 1


@pytest.mark.parametrize(
    ("name", "code", "is_internal"),
    [
        ("missing", UNKNOWN, False),
        ("co_ll", UNKNOWN, False),
        ("__consumer_offsets", UNKNOWN, True),
        ("__transaction_state", UNKNOWN, True),
        ("__share_group_state", UNKNOWN, True),
        ("__cluster_metadata", UNKNOWN, False),
        ("", INVALID, False),
        ("..", INVALID, False),
        ("a b", INVALID, False),
        ("a/b", INVALID, False),
        ("x" * 250, INVALID, False),
    ],
)
async def test_missing_topics(rig: Rig, name: str, code: ErrorCode, is_internal: bool) -> None:
    await create(rig, "co.ll")
    for version in (4, 9, 13):
        (topic,) = (await ask(rig, named(name), version)).topics
        assert (topic.name, topic.error_code, topic.partitions) == (name, code, [])
        assert topic.is_internal == is_internal
    assert set(rig.services.controller.image.topics) == {"co.ll"}


@pytest.mark.parametrize(
    ("version", "allow", "is_made"),
    [(0, False, True), (3, False, True), (4, False, False), (4, True, True), (13, True, True)],
)
@pytest.mark.parametrize("enabled", [True, False])
async def test_auto_creation(
    tmp_path: Path, version: int, allow: bool, is_made: bool, enabled: bool
) -> None:
    rig = Rig(tmp_path / "data", auto_create_topics_enable=str(enabled).lower(), num_partitions="3")
    (topic,) = (await ask(rig, named("new", create=allow), version)).topics
    if is_made and enabled:
        assert (topic.error_code, len(topic.partitions)) == (0, 3)
        assert [partition.error_code for partition in topic.partitions] == [0] * 3
        assert len(rig.services.partitions) == 3
    else:
        assert (topic.error_code, topic.partitions) == (UNKNOWN, [])
        assert not rig.services.controller.image.topics
    assert await rig.close()


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("..", INVALID),
        ("", INVALID),
        ("co_ll", INVALID),  # Kafka always answers 3: it does not report the failed creation
        ("__cluster_metadata", UNKNOWN),
        ("__consumer_offsets", UNKNOWN),
        ("__transaction_state", UNKNOWN),
        ("__share_group_state", UNKNOWN),
    ],
)
async def test_topics_that_auto_creation_does_not_create(
    rig: Rig, name: str, code: ErrorCode
) -> None:
    await create(rig, "co.ll")
    response = await ask(rig, named(name, "good", create=True), 9)
    assert codes(response) == [(name, code), ("good", 0)]
    assert set(rig.services.controller.image.topics) == {"co.ll", "good"}


async def test_an_impossible_default_is_reported(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data", default_replication_factor="3")
    response = await ask(rig, named("new", create=True), 9)
    assert codes(response) == [("new", ErrorCode.INVALID_REPLICATION_FACTOR)]
    assert await rig.close()


async def test_two_clients_create_the_same_topic(rig: Rig) -> None:
    both = [asyncio.create_task(ask(rig, named("new", create=True), 9)) for _ in range(2)]
    found = [codes(await one) for one in both]
    # The second client may see a topic whose partitions are not open yet, but never a failure.
    assert found == [[("new", 0)]] * 2
    assert codes(await ask(rig, named("new"), 9)) == [("new", 0)]


async def test_each_name_is_answered_once(rig: Rig) -> None:
    await create(rig, "t")
    response = await ask(rig, named("t", "no", "t", "no", "new", "new"), 9)
    assert codes(response) == [("t", 0), ("no", UNKNOWN), ("new", UNKNOWN)]
    response = await ask(rig, named("new", "new", create=True), 9)
    assert codes(response) == [("new", 0)]


@pytest.mark.parametrize("version", [12, 13])
async def test_by_id(rig: Rig, version: int) -> None:
    t, u = await create(rig, "t"), await create(rig, "u")
    for wanted, expected in [
        ([(None, t)], [("t", 0)]),
        ([(None, STRANGE_ID)], [(None, ErrorCode.UNKNOWN_TOPIC_ID)]),
        ([(None, t), (None, t)], [("t", 0)]),
        ([("t", t)], [("t", 0)]),
        ([("t", STRANGE_ID)], [(None, ErrorCode.UNKNOWN_TOPIC_ID)]),
        # Kafka answers only the ids if there are any.
        ([("t", t), ("u", ZERO_UUID)], [("t", 0)]),
        ([("t", ZERO_UUID), (None, u), ("no", ZERO_UUID)], [("u", 0)]),
    ]:
        response = await ask(rig, of_ids(*wanted, create=True), version)
        assert codes(response) == expected, wanted
    assert set(rig.services.controller.image.topics) == {"t", "u"}
    unknown = (await ask(rig, of_ids((None, STRANGE_ID)), version)).topics[0]
    assert unknown.topic_id == STRANGE_ID


@pytest.mark.parametrize(
    ("version", "wanted"),
    [
        (10, (None, ZERO_UUID)),
        (11, (None, ZERO_UUID)),
        (12, (None, ZERO_UUID)),
        (10, (None, STRANGE_ID)),
        (10, ("t", STRANGE_ID)),
        (11, ("", STRANGE_ID)),
    ],
)
async def test_ids_in_old_versions_and_topics_without_name_and_id(
    rig: Rig, version: int, wanted: tuple[str | None, bytes]
) -> None:
    response = await ask(rig, of_ids(wanted, ("fine", ZERO_UUID), create=True), version)
    assert codes(response) == [
        (wanted[0] or "", ErrorCode.INVALID_REQUEST),
        ("fine", ErrorCode.INVALID_REQUEST),
    ]
    assert response.topics[0].topic_id == wanted[1]
    assert response.brokers == []
    assert not rig.services.controller.image.topics


@pytest.mark.parametrize(
    ("version", "of_cluster", "of_topic"),
    [(7, False, False), (8, True, True), (10, True, True), (11, False, True), (13, False, True)],
)
async def test_authorized_operations_are_all_of_them(
    rig: Rig, version: int, of_cluster: bool, of_topic: bool
) -> None:
    """KIP-430; Kafka's numbers without an authorizer (tried)."""
    await create(rig, "t")
    body = named("t", "no")
    body.include_cluster_authorized_operations = True
    body.include_topic_authorized_operations = True
    # Fields that a version does not have are not encoded.
    response = await ask(rig, body, version)
    assert response.cluster_authorized_operations == (8096 if of_cluster else NO_OPERATIONS)
    for topic in response.topics:
        assert topic.topic_authorized_operations == (3576 if of_topic else NO_OPERATIONS)


async def test_operations_on_an_unknown_id_are_none(rig: Rig) -> None:
    body = of_ids((None, STRANGE_ID))
    body.include_topic_authorized_operations = True
    (topic,) = (await ask(rig, body, 13)).topics
    assert topic.topic_authorized_operations == NO_OPERATIONS


async def test_a_partition_that_is_not_open_has_no_leader_yet(rig: Rig) -> None:
    await create(rig, "t", 2)
    rig.services.partitions.remove("t", 1)
    (topic,) = (await ask(rig, named("t"), 9)).topics
    assert [partition.error_code for partition in topic.partitions] == [
        ErrorCode.NONE,
        ErrorCode.LEADER_NOT_AVAILABLE,
    ]


async def test_the_rack_is_in_the_answer(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data", broker_rack="cellar")
    assert (await ask(rig, named(), 9)).brokers[0].rack == "cellar"
    assert await rig.close()


async def test_a_failed_metadata_log_creates_no_topic(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    await create(rig, "t")
    rig.services.controller.metadata_log.log.failed = LogFailed("metadata", "fsync failed")
    response = await ask(rig, named("t", "new", create=True), 9)
    assert codes(response) == [
        ("t", ErrorCode.NONE),
        ("new", ErrorCode.KAFKA_STORAGE_ERROR),
    ]
    assert not await rig.close()


async def test_the_answer_to_a_failure_can_be_encoded_in_every_version(rig: Rig) -> None:
    await rig.call(of_ids((None, STRANGE_ID)), 13)
    request = rig.connection.request(of_ids((None, STRANGE_ID)), api_key=3, version=10)
    response = error_response(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert codes(response) == [("", ErrorCode.UNKNOWN_SERVER_ERROR)]
