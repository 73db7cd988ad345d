"""CreateTopics: creation, and each reason for a refusal. Compared with Kafka.

The rules are tested with broker/metadata/topic_rules.py; these tests show what a client sees.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from config.topic import topic_keys
from protocol.errors import ErrorCode
from protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from protocol.wire import ZERO_UUID
from storage.errors import LogFailed
from tests.support.broker_rig import Rig
from tests.support.rig_client import ask, create

DYNAMIC_TOPIC, STATIC_BROKER, DEFAULT = 1, 4, 5


def topic(
    name: str = "t",
    count: int = 1,
    factor: int = 1,
    assignments: Sequence[tuple[int, list[int]]] = (),
    configs: Sequence[tuple[str, str | None]] = (),
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=count,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=ids)
            for partition, ids in assignments
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs],
    )


def request(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=5_000, validate_only=validate_only)


async def code_of(rig: Rig, wanted: CreatableTopic, version: int = 7) -> ErrorCode:
    (answer,) = (await ask(rig, request(wanted), version)).topics
    if answer.error_code:
        assert answer.error_message
        assert answer.topic_id == ZERO_UUID
        assert answer.num_partitions == answer.replication_factor == -1
        assert wanted.name not in rig.services.controller.image.topics or (
            answer.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        )
    return ErrorCode(answer.error_code)  # type: ignore[call-arg]


@pytest.mark.parametrize("version", range(2, 8))
async def test_every_version_returns_its_fields(rig: Rig, version: int) -> None:
    (answer,) = (await ask(rig, request(topic(count=3)), version)).topics
    assert (answer.name, answer.error_code, answer.error_message) == ("t", 0, None)
    made = rig.services.controller.image.topics["t"]
    assert len(made.partitions) == 3
    assert answer.topic_id == (made.topic_id if version >= 7 else ZERO_UUID)
    if version >= 5:
        assert (answer.num_partitions, answer.replication_factor) == (3, 1)
        assert answer.topic_config_error_code == 0
        assert {config.name for config in answer.configs} == {
            key.name for key in topic_keys().values() if not key.internal
        }
    else:
        assert (answer.num_partitions, answer.replication_factor) == (-1, -1)
        assert answer.configs == []


async def test_the_answer_comes_once_the_topic_is_durable_and_writable(rig: Rig) -> None:
    await ask(rig, request(topic(count=25)), 7)
    metadata_log = rig.services.controller.metadata_log.log
    assert metadata_log.durable_offset == metadata_log.end_offset
    assert [rig.services.partitions.get("t", number).log.end_offset for number in range(25)] == (
        [0] * 25
    )


async def test_configs_in_the_answer_name_their_source(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data", log_retention_hours="1")
    wanted = topic(configs=[("segment.bytes", "2097152"), ("cleanup.policy", "compact,delete")])
    (answer,) = (await ask(rig, request(wanted), 5)).topics
    configs = {config.name: (config.value, config.config_source) for config in answer.configs}
    assert configs["segment.bytes"] == ("2097152", DYNAMIC_TOPIC)
    assert configs["cleanup.policy"] == ("compact,delete", DYNAMIC_TOPIC)
    assert configs["retention.ms"] == ("3600000", STATIC_BROKER)
    assert configs["retention.bytes"] == ("-1", DEFAULT)
    assert not any(config.read_only or config.is_sensitive for config in answer.configs)
    assert await rig.close()


@pytest.mark.parametrize("version", [2, 3, 4, 7])
async def test_minus_1_takes_the_brokers_default_in_every_version(
    tmp_path: Path, version: int
) -> None:
    """KIP-464 is for version 4, but Kafka accepts it in older ones too (tried)."""
    rig = Rig(tmp_path / "data", num_partitions="3")
    (answer,) = (await ask(rig, request(topic(count=-1, factor=-1)), version)).topics
    assert answer.error_code == 0
    assert len(rig.services.controller.image.topics["t"].partitions) == 3
    assert await rig.close()


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (topic(count=0), ErrorCode.INVALID_PARTITIONS),
        (topic(count=-2), ErrorCode.INVALID_PARTITIONS),
        (topic(count=10_001), ErrorCode.POLICY_VIOLATION),
        (topic(factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(factor=-2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(factor=2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("there"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (topic("over.there"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (topic(configs=[("retention.ms", None)]), ErrorCode.INVALID_CONFIG),
        (topic(configs=[("retention.ms", None), ("retention.ms", "1")]), ErrorCode.INVALID_CONFIG),
        (topic(configs=[("retention.ms", "1"), ("retention.ms", None)]), ErrorCode.INVALID_CONFIG),
        (topic(configs=[("retention.msx", "1")]), ErrorCode.INVALID_CONFIG),
        (topic(configs=[("", "1")]), ErrorCode.INVALID_CONFIG),
        (topic(configs=[("retention.ms", "abc")]), ErrorCode.INVALID_CONFIG),
        (topic(configs=[("segment.bytes", "1")]), ErrorCode.INVALID_CONFIG),
        (topic(count=0, configs=[("retention.ms", "abc")]), ErrorCode.INVALID_CONFIG),
        (topic(count=2, factor=-1, assignments=[(0, [1])]), ErrorCode.INVALID_REQUEST),
        (topic(count=-1, factor=1, assignments=[(0, [1])]), ErrorCode.INVALID_REQUEST),
        (topic("t", -1, -1, [(0, [1]), (2, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", -1, -1, [(1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", -1, -1, [(-1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", -1, -1, [(0, [1]), (0, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", -1, -1, [(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", -1, -1, [(0, [9])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", -1, -1, [(0, [1, 9])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", -1, -1, [(0, [1, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_refusals(rig: Rig, wanted: CreatableTopic, code: ErrorCode) -> None:
    await create(rig, "there")
    await create(rig, "over_there")
    before = rig.services.controller.metadata_log.end_offset
    assert await code_of(rig, wanted) == code
    assert await code_of(rig, wanted, 2) == code
    assert rig.services.controller.metadata_log.end_offset == before


async def test_a_config_given_twice_takes_the_later_value(rig: Rig) -> None:
    wanted = topic(configs=[("retention.ms", "5"), ("retention.ms", "6")])
    assert await code_of(rig, wanted) == ErrorCode.NONE
    assert rig.services.controller.image.topics["t"].configs == {"retention.ms": "6"}


async def test_an_assignment_names_this_broker_for_each_partition(rig: Rig) -> None:
    wanted = topic("t", -1, -1, [(1, [1]), (0, [1])])
    (answer,) = (await ask(rig, request(wanted), 7)).topics
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (0, 2, 1)


async def test_the_replication_factor_may_be_clamped(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data", **{"barnabas.replication.factor.clamp": "true"})
    (answer,) = (await ask(rig, request(topic(factor=3)), 7)).topics
    assert (answer.error_code, answer.replication_factor) == (0, 1)
    assert await rig.close()


async def test_each_topic_has_its_own_outcome(rig: Rig) -> None:
    await create(rig, "there")
    wanted = [
        topic("a"),
        topic(".."),
        topic("b", count=0),
        topic("twice"),
        topic("there"),
        topic("c", factor=3),
        topic("twice"),
        topic("d"),
        topic("same.name"),
        topic("same_name"),
    ]
    response = await ask(rig, request(*wanted), 7)
    codes = [(answer.name, answer.error_code) for answer in response.topics]
    assert sorted(codes) == sorted(
        [
            ("a", ErrorCode.NONE),
            ("..", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("b", ErrorCode.INVALID_PARTITIONS),
            ("twice", ErrorCode.INVALID_REQUEST),
            ("there", ErrorCode.TOPIC_ALREADY_EXISTS),
            ("c", ErrorCode.INVALID_REPLICATION_FACTOR),
            ("d", ErrorCode.NONE),
            ("same.name", ErrorCode.NONE),
            ("same_name", ErrorCode.NONE),  # Kafka only checks existing topics (tried)
        ]
    )
    assert set(rig.services.controller.image.topics) == {
        "there",
        "a",
        "d",
        "same.name",
        "same_name",
    }


async def test_too_many_partitions_refuse_the_whole_request(rig: Rig) -> None:
    wanted = [topic("a", 6_000), topic("b", 6_000), topic("c"), topic("..")]
    response = await ask(rig, request(*wanted), 7)
    assert [answer.error_code for answer in response.topics] == [ErrorCode.POLICY_VIOLATION] * 4
    assert not rig.services.controller.image.topics


async def test_an_empty_request(rig: Rig) -> None:
    assert (await ask(rig, request(), 7)).topics == []


@pytest.mark.parametrize("version", [4, 7])
async def test_validate_only_answers_as_creation_does_and_creates_nothing(
    rig: Rig, version: int
) -> None:
    await create(rig, "there")
    wanted = [topic("a", 3), topic("there"), topic("b", 0), topic("c"), topic("c")]
    before = rig.services.controller.metadata_log.end_offset
    response = await ask(rig, request(*wanted, validate_only=True), version)
    answers = {answer.name: answer for answer in response.topics}
    assert {name: answer.error_code for name, answer in answers.items()} == {
        "a": ErrorCode.NONE,
        "there": ErrorCode.TOPIC_ALREADY_EXISTS,
        "b": ErrorCode.INVALID_PARTITIONS,
        "c": ErrorCode.INVALID_REQUEST,
    }
    if version >= 5:
        assert answers["a"].num_partitions == 3
        assert answers["a"].configs
    assert rig.services.controller.metadata_log.end_offset == before
    assert set(rig.services.controller.image.topics) == {"there"}
    assert len(rig.services.partitions) == 1


async def test_a_failed_metadata_log_creates_no_topic(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    rig.services.controller.metadata_log.log.failed = LogFailed("metadata", "fsync failed")
    answers: list[Any] = (await ask(rig, request(topic("a"), topic("b")), 7)).topics
    assert [answer.error_code for answer in answers] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert not rig.services.controller.image.topics
    assert not await rig.close()
