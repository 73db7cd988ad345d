"""ConsumerGroupHeartbeat: names, expressions, and members whose right is taken away."""

from typing import Any

from tests.support.rights_cases import DESCRIBE, GROUP, READ, TOPIC, grant
from tests.support.rights_rig import RightsRig

JOIN = {
    "group_id": "cg",
    "member_id": "me",
    "member_epoch": 0,
    "rebalance_timeout_ms": 60_000,
    "topic_partitions": [],
}


async def assigned(rights: RightsRig, **more: Any) -> set[bytes]:
    answer = await rights.ask("CONSUMER_GROUP_HEARTBEAT", 1, **JOIN, **more)
    assert answer.error_code == 0, answer
    return {one.topic_id for one in answer.assignment.topic_partitions}


async def test_one_hidden_name_refuses_the_member(rights: RightsRig) -> None:
    rights.allow(grant(GROUP, READ), grant(TOPIC, DESCRIBE, "t"))
    ask = {**JOIN, "subscribed_topic_names": ["t", "m"]}
    answer = await rights.ask("CONSUMER_GROUP_HEARTBEAT", 1, **ask)
    assert (answer.error_code, answer.member_id) == (29, None)
    assert await assigned(rights, subscribed_topic_names=["t"]) == {rights.topic_id}


async def test_an_expression_matches_what_the_member_may_describe(rights: RightsRig) -> None:
    rights.allow(grant(GROUP, READ))
    assert await assigned(rights, subscribed_topic_regex="t.*") == set()


async def test_an_expression_matches_with_the_right(rights: RightsRig) -> None:
    rights.allow(grant(GROUP, READ), grant(TOPIC, DESCRIBE))
    assert await assigned(rights, subscribed_topic_regex="t.*") == {rights.topic_id}


async def test_an_expression_is_matched_again_after_a_change(rights: RightsRig) -> None:
    rights.allow(grant(GROUP, READ))
    assert await assigned(rights, subscribed_topic_regex="t.*") == set()
    beat = {"group_id": "cg", "member_id": "me", "member_epoch": 2}
    quiet = await rights.ask("CONSUMER_GROUP_HEARTBEAT", 1, **beat)
    assert (quiet.error_code, quiet.assignment) == (0, None)
    rights.allow(grant(GROUP, READ), grant(TOPIC, DESCRIBE))
    found = await rights.ask("CONSUMER_GROUP_HEARTBEAT", 1, **beat)
    (topic,) = found.assignment.topic_partitions
    assert topic.topic_id == rights.topic_id
    rights.allow(grant(GROUP, READ))
    beat["member_epoch"] = found.member_epoch
    taken = await rights.ask("CONSUMER_GROUP_HEARTBEAT", 1, **beat)
    assert taken.assignment.topic_partitions == []


async def test_a_member_is_refused_once_its_right_is_gone(rights: RightsRig) -> None:
    rights.allow(grant(GROUP, READ), grant(TOPIC, READ))
    await assigned(rights, subscribed_topic_names=["t"])
    rights.allow(grant(TOPIC, READ))
    beat = {"group_id": "cg", "member_id": "me", "member_epoch": 2}
    assert (await rights.ask("CONSUMER_GROUP_HEARTBEAT", 1, **beat)).error_code == 30
