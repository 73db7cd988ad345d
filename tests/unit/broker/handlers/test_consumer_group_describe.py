"""ConsumerGroupDescribe: members with both assignments; classic groups are not found."""

from __future__ import annotations

import pytest

from broker.authorized_operations import GROUP_OPERATIONS
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import (
    CONSUMER_MEMBER,
    NOT_ASKED,
    ConsumerGroupDescribeRequest,
    DescribedGroup,
)
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.support.broker_rig import Rig
from tests.support.group_rig import member
from tests.support.rig_client import ask, create


@pytest.fixture
async def rig(group_rig: Rig) -> Rig:
    await create(group_rig, count=2)
    return group_rig


async def join(rig: Rig, member_id: str) -> None:
    body = ConsumerGroupHeartbeatRequest(
        group_id="c",
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
        server_assignor="range",
    )
    assert (await ask(rig, body, 1)).error_code == 0


async def describe(rig: Rig, *group_ids: str, version: int = 1) -> list[DescribedGroup]:
    body = ConsumerGroupDescribeRequest(group_ids=list(group_ids))
    groups: list[DescribedGroup] = (await ask(rig, body, version)).groups
    return groups


async def test_a_group_with_its_members(rig: Rig) -> None:
    topic_id = rig.services.topics.by_name("t").topic_id  # type: ignore[union-attr]
    await join(rig, "m1")
    await join(rig, "m2")
    (group,) = await describe(rig, "c")
    assert (group.error_code, group.group_state) == (0, "Reconciling")
    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (3, 3, "range")
    first, second = group.members
    assert (first.member_id, first.member_epoch, second.member_epoch) == ("m1", 2, 3)
    assert first.member_type == CONSUMER_MEMBER
    assert first.subscribed_topic_names == ["t"]
    held = {
        name: [(of.topic_id, of.topic_name, of.partitions) for of in assignment.topic_partitions]
        for name, assignment in (
            ("has", first.assignment),
            ("should have", first.target_assignment),
            ("waits", second.assignment),
        )
    }
    assert held == {
        "has": [(topic_id, "t", [0, 1])],
        "should have": [(topic_id, "t", [0])],
        "waits": [],
    }


async def test_what_a_member_has_yet_to_revoke_is_its_own(rig: Rig) -> None:
    """As in Kafka 4.3 (tried), and no expression is an empty one."""
    await join(rig, "m1")
    await join(rig, "m2")
    told = await ask(
        rig, ConsumerGroupHeartbeatRequest(group_id="c", member_id="m1", member_epoch=2), 1
    )
    assert [of.partitions for of in told.assignment.topic_partitions] == [[0]]
    (group,) = await describe(rig, "c")
    first, second = group.members
    assert [of.partitions for of in first.assignment.topic_partitions] == [[0, 1]]
    assert second.assignment.topic_partitions == []
    assert first.subscribed_topic_regex == ""


async def test_ids_that_are_not_consumer_groups(rig: Rig) -> None:
    await member(rig)
    unknown, classic, nameless = await describe(rig, "no", "g", "")
    assert unknown.error_code == classic.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert unknown.error_message == "Group no not found."
    assert classic.error_message == "Group g is not a consumer group."
    assert nameless.error_code == ErrorCode.INVALID_GROUP_ID


async def test_old_versions_do_not_return_the_member_type(rig: Rig) -> None:
    await join(rig, "m1")
    (group,) = await describe(rig, "c", version=0)
    assert group.members[0].member_type == -1


async def test_authorized_operations_are_returned_on_request(rig: Rig) -> None:
    await join(rig, "m1")
    for asked, wanted in ((False, [NOT_ASKED, NOT_ASKED]), (True, [GROUP_OPERATIONS, NOT_ASKED])):
        body = ConsumerGroupDescribeRequest(
            group_ids=["c", "unknown"], include_authorized_operations=asked
        )
        answer = await ask(rig, body, 1)
        assert [group.authorized_operations for group in answer.groups] == wanted
