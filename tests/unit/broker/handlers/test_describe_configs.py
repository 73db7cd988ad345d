"""DescribeConfigs: whole answers in every version, and each refusal with Kafka's message."""

from typing import Any

import pytest

from broker.configs.changes import CLIENT_METRICS, GROUP
from broker.handlers.describe_configs import error_response
from broker.metadata.image import CONFIG_BROKER, CONFIG_TOPIC
from config.broker_names import broker_names
from config.topic import topic_keys
from config.values import Kind
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from tests.support.broker_rig import Rig
from tests.support.fake_connection import FakeConnection
from tests.support.rig_client import ask, create


def request(
    kind: int, name: str, keys: list[str] | None = None, **include: bool
) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    return DescribeConfigsRequest(resources=[resource], **include)


async def describe(rig: Rig, *arguments: Any, **include: bool) -> DescribeConfigsResult:
    (result,) = (await ask(rig, request(*arguments, **include), 4)).results
    return result  # type: ignore[no-any-return]


@pytest.mark.parametrize("version", range(1, 5))
async def test_every_version_returns_its_fields(rig: Rig, version: int) -> None:
    await create(rig, retention_ms="5000")
    asked = request(
        CONFIG_TOPIC, "t", ["retention.ms"], include_synonyms=True,
        include_documentation=version >= 3,
    )  # fmt: skip
    (result,) = (await ask(rig, asked, version)).results
    assert (result.error_code, result.error_message) == (0, "")
    assert (result.resource_type, result.resource_name) == (CONFIG_TOPIC, "t")
    (config,) = result.configs
    assert (config.name, config.value, config.config_source) == ("retention.ms", "5000", 1)
    assert not config.read_only
    assert not config.is_sensitive
    assert config.synonyms == [DescribeConfigsSynonym(name="retention.ms", value="5000", source=1)]
    assert config.config_type == (Kind.LONG if version >= 3 else 0)
    assert config.documentation == (topic_keys()["retention.ms"].doc if version >= 3 else "")


@pytest.mark.parametrize("keys", [None, []])
async def test_null_keys_return_all_configs(rig: Rig, keys: list[str] | None) -> None:
    await create(rig)
    topic = await describe(rig, CONFIG_TOPIC, "t", keys)
    assert {config.name for config in topic.configs} == {
        key.name for key in topic_keys().values() if not key.internal
    }
    broker = await describe(rig, CONFIG_BROKER, "1", keys)
    assert {config.name for config in broker.configs} == {
        name.name for name in broker_names().values() if not name.is_hidden
    }


async def test_keys_select_configs_and_unknown_keys_are_omitted(rig: Rig) -> None:
    await create(rig)
    keys = ["flush.ms", "nonsense", "flush.ms", "retention.ms"]
    result = await describe(rig, CONFIG_TOPIC, "t", keys)
    assert sorted(config.name for config in result.configs) == ["flush.ms", "retention.ms"]
    assert result.error_code == 0


async def test_synonyms_and_documentation_come_on_request(rig: Rig) -> None:
    bare = (await describe(rig, CONFIG_BROKER, "1", ["num.partitions"])).configs[0]
    assert (bare.synonyms, bare.documentation) == ([], None)
    assert (bare.read_only, bare.config_type, bare.config_source) == (True, Kind.INT, 5)


async def test_groups_and_client_metrics_need_not_exist(rig: Rig) -> None:
    assert len((await describe(rig, GROUP, "g")).configs) == 17
    assert len((await describe(rig, CLIENT_METRICS, "m")).configs) == 3


async def test_all_brokers_return_their_default_configs(rig: Rig) -> None:
    (config,) = (await describe(rig, CONFIG_BROKER, "")).configs
    assert (config.name, config.value, config.config_source) == ("min.insync.replicas", "1", 3)


@pytest.mark.parametrize(
    ("kind", "name", "code", "words"),
    [
        (CONFIG_TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (CONFIG_TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid"),
        (CONFIG_TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION, "empty string"),
        (CONFIG_BROKER, "9", ErrorCode.INVALID_REQUEST,
         "Unexpected broker id, expected 1 or empty string, but received 9"),
        (CONFIG_BROKER, "x", ErrorCode.INVALID_REQUEST, "must be an integer, but it is: x"),
        (CONFIG_BROKER, " 1", ErrorCode.INVALID_REQUEST, "must be an integer, but it is:  1"),
        (CONFIG_BROKER, "1_0", ErrorCode.INVALID_REQUEST, "must be an integer, but it is: 1_0"),
        (GROUP, "", ErrorCode.INVALID_REQUEST, "Group name must not be empty"),
        (CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST, "subscription name must not be empty"),
        (8, "1", ErrorCode.INVALID_REQUEST, "Unsupported resource type: 8"),
        (0, "x", ErrorCode.INVALID_REQUEST, "Unsupported resource type: 0"),
        (77, "x", ErrorCode.INVALID_REQUEST, "Unsupported resource type: 77"),
    ],
)  # fmt: skip
async def test_refusals(rig: Rig, kind: int, name: str, code: int, words: str) -> None:
    result = await describe(rig, kind, name)
    assert (result.error_code, result.configs) == (code, [])
    assert (result.resource_type, result.resource_name) == (kind, name)
    assert words in (result.error_message or "")
    assert bool(words) == bool(result.error_message)


async def test_a_bad_resource_does_not_affect_the_others(rig: Rig) -> None:
    both = request(CONFIG_TOPIC, "nope")
    both.resources += request(CONFIG_BROKER, "1").resources
    first, second = (await ask(rig, both, 4)).results
    assert (first.error_code, second.error_code) == (3, 0)


def test_an_internal_error_is_reported_for_each_resource() -> None:
    asked = FakeConnection().request(request(CONFIG_TOPIC, "t"), api_key=32, version=4)
    (result,) = error_response(asked, ErrorCode.UNKNOWN_SERVER_ERROR).results
    assert (result.error_code, result.resource_name) == (-1, "t")
