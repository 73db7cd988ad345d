"""IncrementalAlterConfigs: each kind of operation. Rules: configs/test_changes.py."""

import asyncio
from typing import Any

import pytest

from broker.configs.changes import GROUP, Operation, Resource
from broker.configs.live import TOGETHER
from broker.handlers.incremental_alter_configs import error_response
from broker.metadata.image import CONFIG_BROKER, CONFIG_TOPIC
from broker.metadata.topic_rules import RECORDS_PER_REQUEST_MAX
from protocol.errors import ErrorCode
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.broker_rig import Rig
from tests.support.fake_connection import FakeConnection
from tests.support.rig_client import ask, create

SET, DELETE, APPEND, SUBTRACT = range(4)


def resource(kind: int, name: str, *configs: tuple[str, int, str | None]) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in configs
        ],
    )


async def alter(rig: Rig, *resources: Any, version: int = 1, validate_only: bool = False) -> Any:
    body = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    return (await ask(rig, body, version)).responses


@pytest.mark.parametrize("version", [0, 1])
async def test_each_operation(rig: Rig, version: int) -> None:
    await create(rig, retention_ms="5000", flush_ms="7")
    changed = resource(
        CONFIG_TOPIC,
        "t",
        ("segment.ms", SET, "8"),
        ("flush.ms", DELETE, None),
        ("cleanup.policy", APPEND, "compact"),
        ("leader.replication.throttled.replicas", SUBTRACT, "0:1"),
    )
    (answer,) = await alter(rig, changed, version=version)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert (answer.resource_type, answer.resource_name) == (CONFIG_TOPIC, "t")
    assert rig.services.controller.image.topics["t"].configs == {
        "retention.ms": "5000",
        "segment.ms": "8",
        "cleanup.policy": "delete,compact",
        "leader.replication.throttled.replicas": "",
    }
    config = rig.services.partitions.get("t", 0).log.config
    assert (config.segment_ms, config.cleanup_policy) == (8, ("delete", "compact"))


async def test_refusals_do_not_affect_other_resources(rig: Rig) -> None:
    await create(rig)
    answers = await alter(
        rig,
        resource(CONFIG_TOPIC, "nope", ("retention.ms", SET, "1")),
        resource(CONFIG_TOPIC, "t", ("retention.ms", SET, "1")),
        resource(CONFIG_BROKER, "1", ("log.roll.ms", SET, "5")),
        resource(CONFIG_BROKER, "", ("num.io.threads", SET, "5")),
        resource(8, "1", ("root", SET, "DEBUG")),
        resource(CONFIG_TOPIC, "", ("retention.ms", 9, "1")),
    )
    assert [answer.error_code for answer in answers] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        0,
        0,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ]
    assert rig.services.config.topic_defaults.segment_ms == 5


async def test_an_empty_request_changes_nothing(rig: Rig) -> None:
    assert await alter(rig) == []


async def test_validate_only_changes_nothing(rig: Rig) -> None:
    await create(rig)
    good = resource(CONFIG_TOPIC, "t", ("retention.ms", SET, "1"))
    bad = resource(CONFIG_BROKER, "", ("num.partitions", SET, "1"))
    answers = await alter(rig, good, bad, validate_only=True)
    assert [answer.error_code for answer in answers] == [0, ErrorCode.INVALID_REQUEST]
    assert rig.services.controller.image.topics["t"].configs == {}


async def test_very_many_resources_are_changed_some_after_the_others(rig: Rig) -> None:
    groups = [f"g{number}" for number in range(2 * TOGETHER)]
    change = ("consumer.session.timeout.ms", SET, "50000")
    resources = [resource(GROUP, name, change) for name in [*groups, "late", groups[0]]]
    asked = asyncio.ensure_future(alter(rig, *resources))
    seen = set()
    while not asked.done():
        await asyncio.sleep(0)
        seen.add(len(rig.services.configs.names(GROUP)))
    twice = ErrorCode.INVALID_REQUEST  # although they are far from each other
    assert [(answer.resource_name, answer.error_code) for answer in asked.result()] == [
        (groups[0], twice), *((name, 0) for name in [*groups[1:], "late"]), (groups[0], twice)
    ]  # fmt: skip
    assert rig.services.configs.names(GROUP) == [*groups[1:], "late"]
    assert seen == {0, TOGETHER - 1, 2 * TOGETHER - 1, 2 * TOGETHER}


async def test_what_was_changed_before_a_refusal_of_many_is_said_to_be_changed(rig: Rig) -> None:
    """A request of many resources is recorded in parts, and one part may have too many records."""
    change = ("consumer.session.timeout.ms", SET, "50000")
    groups = [f"g{number}" for number in range(TOGETHER + 1)]
    foreign = [(f"plugin.{number}", SET, "v") for number in range(RECORDS_PER_REQUEST_MAX + 1)]
    first, last = groups[:TOGETHER], groups[TOGETHER:]
    after = [f"late{number}" for number in range(TOGETHER)]
    answers = await alter(
        rig,
        *(resource(GROUP, name, change) for name in first),
        resource(CONFIG_BROKER, "", *foreign),
        *(resource(GROUP, name, change) for name in [*last, *after]),
    )
    forbidden = ErrorCode.POLICY_VIOLATION
    codes = {answer.resource_name: answer.error_code for answer in answers}
    assert codes == dict.fromkeys(first, 0) | dict.fromkeys(["", *last, *after], forbidden)
    assert rig.services.configs.names(GROUP) == first
    not_tried = [
        answer.resource_name for answer in answers if "Not tried" in (answer.error_message or "")
    ]
    assert not_tried == [*last, *after]


async def test_the_loop_turns_while_very_many_resources_are_validated(rig: Rig) -> None:
    change = [Operation("consumer.session.timeout.ms", SET, "50000")]
    resources = [Resource(GROUP, f"g{number}", change) for number in range(5 * TOGETHER)]
    asked = asyncio.ensure_future(rig.services.configs.alter(resources, validate_only=True))
    turns = 0
    while not asked.done():
        await asyncio.sleep(0)
        turns += 1
    assert asked.result() == [None] * len(resources)
    assert turns == 5
    assert rig.services.configs.names(GROUP) == []


def test_an_internal_error_is_reported_for_each_resource() -> None:
    body = IncrementalAlterConfigsRequest(resources=[resource(CONFIG_TOPIC, "t")])
    asked = FakeConnection().request(body, api_key=44, version=1)
    (answer,) = error_response(asked, ErrorCode.KAFKA_STORAGE_ERROR).responses
    assert (answer.error_code, answer.resource_name) == (ErrorCode.KAFKA_STORAGE_ERROR, "t")
