"""DeleteTopics: by name and by id, for clients that may and may not describe a topic."""

from typing import Any

import pytest

from tests.support.rights_cases import CLUSTER, DELETE, DENY, DESCRIBE, TOPIC, UNKNOWN_ID, grant
from tests.support.rights_rig import RightsRig


async def deleted(rights: RightsRig, *topics: dict[str, Any]) -> list[tuple[str | None, int]]:
    answer = await rights.ask("DELETE_TOPICS", 6, topics=list(topics), timeout_ms=1000)
    return [(one.name, one.error_code) for one in answer.responses]


async def test_by_name(rights: RightsRig) -> None:
    both = ({"name": "t"}, {"name": "m"})
    assert await deleted(rights, *both) == [("t", 29), ("m", 29)]
    rights.allow(grant(TOPIC, DESCRIBE))
    assert await deleted(rights, *both) == [("m", 3), ("t", 29)]
    rights.allow(grant(TOPIC, DELETE))
    assert await deleted(rights, *both) == [("t", 0), ("m", 3)]


async def test_by_id(rights: RightsRig) -> None:
    both = ({"topic_id": rights.topic_id}, {"topic_id": UNKNOWN_ID})
    assert await deleted(rights, *both) == [(None, 100), (None, 29)]
    rights.allow(grant(TOPIC, DESCRIBE))
    assert await deleted(rights, *both) == [(None, 100), ("t", 29)]
    rights.allow(grant(TOPIC, DELETE, "t"))
    assert await deleted(rights, *both) == [("t", 0), (None, 100)]


async def test_a_topic_that_is_hidden_is_not_deleted_by_its_name(rights: RightsRig) -> None:
    rights.allow(grant(TOPIC, DELETE, "t"), grant(TOPIC, DESCRIBE, "t", permission=DENY))
    assert await deleted(rights, {"name": "t"}) == [("t", 29)]


@pytest.mark.parametrize("version", [1, 5])
async def test_older_versions_give_names(rights: RightsRig, version: int) -> None:
    rights.allow(grant(TOPIC, DELETE, "t"))
    ask = {"topic_names": ["m", "t"], "timeout_ms": 1000}
    answer = await rights.ask("DELETE_TOPICS", version, **ask)
    assert [(one.name, one.error_code) for one in answer.responses] == [("t", 0), ("m", 29)]


async def test_the_cluster_may_delete_each(rights: RightsRig) -> None:
    rights.allow(grant(CLUSTER, DELETE))
    assert await deleted(rights, {"name": "t"}, {"name": "m"}) == [("t", 0), ("m", 3)]
