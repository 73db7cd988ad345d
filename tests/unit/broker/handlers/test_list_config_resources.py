"""ListConfigResources: the resources of each type, in both versions."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.configs.changes import CLIENT_METRICS, GROUP, SET, Operation, Resource
from broker.handlers.list_config_resources import BROKER_LOGGER, error_response
from broker.metadata.image import CONFIG_BROKER, CONFIG_TOPIC
from protocol.errors import ErrorCode
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.support.broker_rig import Rig
from tests.support.fake_connection import FakeConnection
from tests.support.rig_client import ask, create

EVERYTHING = [(GROUP, "g"), (CLIENT_METRICS, "m"), (CONFIG_BROKER, "1"), (CONFIG_TOPIC, "t")]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path / "data")
    await create(made)
    timeout = Operation("consumer.session.timeout.ms", SET, "50000")
    await made.services.configs.alter(
        [
            Resource(GROUP, "g", [timeout]),
            Resource(CLIENT_METRICS, "m", [Operation("interval.ms", SET, "1000")]),
        ]
    )
    yield made
    assert await made.close()


async def listed(rig: Rig, types: list[int], version: int = 1) -> Any:
    answer = await ask(rig, ListConfigResourcesRequest(resource_types=types), version)
    return answer.error_code, [(one.resource_type, one.resource_name)
                               for one in answer.config_resources]  # fmt: skip


@pytest.mark.parametrize(
    ("types", "found"),
    [
        ([], EVERYTHING),
        *(([kind], [(kind, name)]) for kind, name in EVERYTHING),
        ([CONFIG_TOPIC, CONFIG_TOPIC], [(CONFIG_TOPIC, "t")]),
        ([CONFIG_TOPIC, GROUP], [(GROUP, "g"), (CONFIG_TOPIC, "t")]),
        ([BROKER_LOGGER], []),
    ],
)
async def test_the_resources_of_the_requested_types(
    rig: Rig, types: list[int], found: list[tuple[int, str]]
) -> None:
    assert await listed(rig, types) == (0, found)


@pytest.mark.parametrize("types", [[0], [1], [77], [CONFIG_TOPIC, 77]])
async def test_an_unknown_type_is_refused(rig: Rig, types: list[int]) -> None:
    assert await listed(rig, types) == (ErrorCode.UNSUPPORTED_VERSION, [])


async def test_version_0_lists_client_metrics(rig: Rig) -> None:
    assert await listed(rig, [], version=0) == (0, [(CLIENT_METRICS, "m")])


def test_an_internal_error_is_reported() -> None:
    asked = FakeConnection().request(ListConfigResourcesRequest(), api_key=74, version=1)
    assert error_response(asked, ErrorCode.UNKNOWN_SERVER_ERROR).error_code == -1
