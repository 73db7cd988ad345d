"""Metadata: what is refused, left out, and created."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.rights_cases import CLUSTER, CREATE, DESCRIBE, READ, TOPIC, UNKNOWN_ID, grant
from tests.support.rights_rig import RightsRig


@pytest.fixture
async def creating(tmp_path: Path) -> AsyncIterator[RightsRig]:
    made = RightsRig(tmp_path / "data", auto_create_topics_enable="true")
    await made.begin()
    yield made
    assert await made.rig.close()


async def described(rights: RightsRig, *names: str, version: int = 8, **more: Any) -> Any:
    topics = [{"name": name} for name in names]
    answer = await rights.ask("METADATA", version, topics=topics, **more)
    return [(one.name, one.error_code) for one in answer.topics]


async def test_topics_without_the_right_are_refused_after_the_others(rights: RightsRig) -> None:
    rights.allow(grant(TOPIC, DESCRIBE, "t"))
    assert await described(rights, "m", "t") == [("t", 0), ("m", 29)]


@pytest.mark.parametrize("version", [0, 1, 8])
async def test_nothing_but_refused_topics_is_not_all_topics(
    rights: RightsRig, version: int
) -> None:
    assert await described(rights, "t", "m", version=version) == [("t", 29), ("m", 29)]


@pytest.mark.parametrize("version", [0, 1])
async def test_of_all_topics_the_others_are_left_out(rights: RightsRig, version: int) -> None:
    topics = [] if version == 0 else None
    rights.allow(grant(TOPIC, READ, "t"))
    answer = await rights.ask("METADATA", version, topics=topics)
    assert [one.name for one in answer.topics] == ["t"]


async def test_a_known_id_is_refused_without_its_name(rights: RightsRig) -> None:
    topics = [{"topic_id": rights.topic_id, "name": None}]
    (answer,) = (await rights.ask("METADATA", 12, topics=topics)).topics
    assert (answer.error_code, answer.name, answer.topic_id) == (29, None, rights.topic_id)


@pytest.mark.parametrize("version", [10, 11])
async def test_ids_before_version_12_are_refused_alike(rights: RightsRig, version: int) -> None:
    for topic_id in (rights.topic_id, UNKNOWN_ID):
        topics = [{"name": "m"}, {"topic_id": topic_id, "name": "t"}]
        answer = await rights.ask("METADATA", version, topics=topics)
        assert {one.error_code for one in answer.topics} == {42}


@pytest.mark.parametrize("kind", [TOPIC, CLUSTER])
async def test_a_topic_is_created_with_the_right(creating: RightsRig, kind: int) -> None:
    creating.allow(grant(TOPIC, DESCRIBE))
    assert await described(creating, "new") == [("new", 29)]
    assert creating.rig.services.topics.by_name("new") is None
    creating.allow(grant(TOPIC, DESCRIBE), grant(kind, CREATE))
    assert await described(creating, "new") == [("new", 0)]


async def test_a_missing_topic_needs_no_create_if_it_is_not_to_be_created(
    creating: RightsRig,
) -> None:
    creating.allow(grant(TOPIC, DESCRIBE))
    assert await described(creating, "new", allow_auto_topic_creation=False) == [("new", 3)]


async def test_create_alone_does_not_describe(creating: RightsRig) -> None:
    creating.allow(grant(TOPIC, CREATE), grant(CLUSTER, CREATE))
    assert await described(creating, "new", "t") == [("new", 29), ("t", 29)]
    assert creating.rig.services.topics.by_name("new") is None


async def test_bits_are_those_of_the_client(rights: RightsRig) -> None:
    rights.allow(grant(TOPIC, READ, "t"))
    bits = {
        "include_topic_authorized_operations": True,
        "include_cluster_authorized_operations": True,
    }
    topics = [{"name": "t"}, {"name": "m"}]
    answer = await rights.ask("METADATA", 8, topics=topics, **bits)
    found = [one.topic_authorized_operations for one in answer.topics]
    assert (found, answer.cluster_authorized_operations) == ([1 << 3 | 1 << 8, -(1 << 31)], 0)
    rights.allow(grant(CLUSTER, DESCRIBE))
    answer = await rights.ask("METADATA", 8, topics=topics, **bits)
    assert answer.cluster_authorized_operations == 1 << 8
