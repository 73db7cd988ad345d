"""OffsetFetch: groups and topics without the right, in each shape of the API."""

from typing import Any

import pytest

from tests.support.rights_cases import DESCRIBE, GROUP, READ, TOPIC, grant
from tests.support.rights_rig import RightsRig

BOTH = [{"name": name, "partition_indexes": [0]} for name in ("m", "t")]


def found(answer: Any) -> list[tuple[str, int, int]]:
    return [
        (topic.name, one.error_code, one.committed_offset)
        for topic in answer.topics
        for one in topic.partitions
    ]


@pytest.mark.parametrize("version", [1, 5, 7])
async def test_topics_of_one_group(rights: RightsRig, version: int) -> None:
    rights.allow(grant(GROUP, DESCRIBE), grant(TOPIC, DESCRIBE, "t"))
    answer = await rights.ask("OFFSET_FETCH", version, group_id="g", topics=BOTH)
    assert found(answer) == [("t", 0, 1), ("m", 29, -1)]
    rights.allow(grant(TOPIC, DESCRIBE))
    answer = await rights.ask("OFFSET_FETCH", version, group_id="g", topics=BOTH)
    if version == 1:
        assert found(answer) == [("m", 30, -1), ("t", 30, -1)]
    else:
        assert (answer.error_code, answer.topics) == (30, [])


async def test_of_all_topics_of_one_group_some_are_left_out(rights: RightsRig) -> None:
    rights.allow(grant(GROUP, DESCRIBE))
    assert found(await rights.ask("OFFSET_FETCH", 7, group_id="g", topics=None)) == []
    rights.allow(grant(GROUP, DESCRIBE), grant(TOPIC, READ, "t"))
    assert found(await rights.ask("OFFSET_FETCH", 7, group_id="g", topics=None)) == [("t", 0, 1)]


async def test_many_groups(rights: RightsRig) -> None:
    rights.allow(grant(GROUP, DESCRIBE, "g"), grant(GROUP, DESCRIBE, "h"), grant(TOPIC, READ, "t"))
    groups = [
        {"group_id": "no", "topics": BOTH},
        {"group_id": "g", "topics": BOTH},
        {"group_id": "h", "topics": None},
    ]
    answer = await rights.ask("OFFSET_FETCH", 8, groups=groups)
    assert [(one.group_id, one.error_code, found(one)) for one in answer.groups] == [
        ("no", 30, []),
        ("g", 0, [("t", 0, 1), ("m", 29, -1)]),
        ("h", 0, []),
    ]


async def test_an_id_without_the_right(rights: RightsRig) -> None:
    rights.allow(grant(GROUP, DESCRIBE))
    topics = [{"topic_id": rights.topic_id, "partition_indexes": [0]}]
    answer = await rights.ask("OFFSET_FETCH", 10, groups=[{"group_id": "g", "topics": topics}])
    (topic,) = answer.groups[0].topics
    assert (topic.topic_id, topic.partitions[0].error_code) == (rights.topic_id, 29)


async def test_no_topic_is_not_all_topics(rights: RightsRig) -> None:
    rights.allow(grant(GROUP, DESCRIBE), grant(TOPIC, READ, "t"))
    groups = [{"group_id": "g", "topics": [BOTH[0]]}]
    answer = await rights.ask("OFFSET_FETCH", 8, groups=groups)
    assert found(answer.groups[0]) == [("m", 29, -1)]


async def test_refusals_stay_with_their_entry_of_a_group(rights: RightsRig) -> None:
    """The handler answers entries once that differ only in what is refused."""
    rights.allow(grant(GROUP, DESCRIBE), grant(TOPIC, READ, "t"), grant(TOPIC, READ, "u"))
    groups = [
        {
            "group_id": "g",
            "topics": [{"name": name, "partition_indexes": [0]} for name in names],
        }
        for names in (["t"], ["u", "n"], ["t", "m"], ["t", "m"], ["t", "l"])
    ]
    answer = await rights.ask("OFFSET_FETCH", 8, groups=groups)
    assert [[(name, code) for name, code, _ in found(one)] for one in answer.groups] == [
        [("u", 0), ("n", 29)],
        [("t", 0), ("m", 29), ("l", 29)],
    ]
