"""AlterConfigs replaces all configs of a resource. Rules: configs/test_changes.py."""

from typing import Any

import pytest

from broker.handlers.alter_configs import error_response
from broker.metadata.image import CONFIG_BROKER, CONFIG_TOPIC
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from tests.support.broker_rig import Rig
from tests.support.fake_connection import FakeConnection
from tests.support.rig_client import ask, create


def resource(kind: int, name: str, *configs: tuple[str, str | None]) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterableConfig(name=key, value=value) for key, value in configs],
    )


async def alter(rig: Rig, *resources: Any, version: int = 2, validate_only: bool = False) -> Any:
    body = AlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    return (await ask(rig, body, version)).responses


@pytest.mark.parametrize("version", range(3))
async def test_only_the_named_configs_are_set_afterwards(rig: Rig, version: int) -> None:
    await create(rig, retention_ms="5000", flush_ms="7")
    changed = resource(CONFIG_TOPIC, "t", ("retention.ms", "6000"), ("segment.ms", "8"))
    (answer,) = await alter(rig, changed, version=version)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert (answer.resource_type, answer.resource_name) == (CONFIG_TOPIC, "t")
    topic = rig.services.controller.image.topics["t"]
    assert topic.configs == {"retention.ms": "6000", "segment.ms": "8"}
    assert rig.services.partitions.get("t", 0).log.config.retention_ms == 6000


async def test_an_empty_list_removes_every_config(rig: Rig) -> None:
    await create(rig, retention_ms="5000", flush_ms="7")
    await alter(rig, resource(CONFIG_TOPIC, "t"))
    assert rig.services.controller.image.topics["t"].configs == {}


async def test_refusals_do_not_affect_other_resources(rig: Rig) -> None:
    await create(rig)
    answers = await alter(
        rig,
        resource(CONFIG_TOPIC, "nope", ("retention.ms", "1")),
        resource(CONFIG_TOPIC, "t", ("retention.ms", "1")),
        resource(CONFIG_BROKER, "1", ("num.partitions", "1")),
        resource(8, "1", ("root", "DEBUG")),
    )
    codes = [answer.error_code for answer in answers]
    assert codes == [3, 0, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]
    assert "num.partitions" in answers[2].error_message


async def test_all_brokers_lose_configs_that_are_not_named_except_those_kafka_needs(
    rig: Rig,
) -> None:
    (answer,) = await alter(rig, resource(CONFIG_BROKER, "", ("log.roll.ms", "5")))
    assert answer.error_code == ErrorCode.INVALID_CONFIG
    named = resource(CONFIG_BROKER, "", ("log.roll.ms", "5"), ("min.insync.replicas", "1"))
    (answer,) = await alter(rig, named)
    assert answer.error_code == 0
    assert rig.services.config.topic_defaults.segment_ms == 5


async def test_a_resource_named_twice_is_refused_twice(rig: Rig) -> None:
    await create(rig)
    one = resource(CONFIG_TOPIC, "t", ("retention.ms", "1"))
    answers = await alter(rig, one, one)
    assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_REQUEST] * 2


async def test_validate_only_changes_nothing(rig: Rig) -> None:
    await create(rig, retention_ms="5000")
    (good,) = await alter(rig, resource(CONFIG_TOPIC, "t"), validate_only=True)
    bad = resource(CONFIG_TOPIC, "t", ("retention.ms", "x"))
    (refused,) = await alter(rig, bad, validate_only=True)
    assert (good.error_code, refused.error_code) == (0, ErrorCode.INVALID_CONFIG)
    assert rig.services.controller.image.topics["t"].configs == {"retention.ms": "5000"}


def test_an_internal_error_is_reported_for_each_resource() -> None:
    body = AlterConfigsRequest(resources=[resource(CONFIG_TOPIC, "t")])
    asked = FakeConnection().request(body, api_key=33, version=2)
    (answer,) = error_response(asked, ErrorCode.KAFKA_STORAGE_ERROR).responses
    assert (answer.error_code, answer.resource_name) == (ErrorCode.KAFKA_STORAGE_ERROR, "t")
