"""OffsetDelete: topics are refused one by one, and not at all if the group is."""

from tests.support.rights_cases import DELETE, GROUP, READ, TOPIC, grant
from tests.support.rights_rig import RightsRig

TOPICS = [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("t", "m")]


async def test_topics_are_refused_one_by_one(rights: RightsRig) -> None:
    rights.allow(grant(GROUP, DELETE), grant(TOPIC, READ, "t"))
    answer = await rights.ask("OFFSET_DELETE", 0, group_id="g", topics=TOPICS)
    found = [(one.name, one.partitions[0].error_code) for one in answer.topics]
    assert (found, answer.error_code) == ([("t", 0), ("m", 29)], 0)


async def test_a_missing_group_has_no_topics(rights: RightsRig) -> None:
    rights.allow(grant(GROUP, DELETE))
    answer = await rights.ask("OFFSET_DELETE", 0, group_id="none", topics=TOPICS)
    assert (answer.error_code, answer.topics) == (69, [])
