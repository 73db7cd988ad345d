"""ConsumerGroupHeartbeat: the handler. Its rules are tested in broker/groups/consumer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.support.broker_rig import Rig
from tests.support.rig_client import ask, create


@pytest.fixture
async def rig(group_rig: Rig) -> Rig:
    await create(group_rig, count=4)
    return group_rig


async def beat(
    rig: Rig, member_id: str, epoch: int, *, group: str = "g", version: int = 1, **said: Any
) -> ConsumerGroupHeartbeatResponse:
    if epoch == 0:
        said = {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": ["t"],
            "topic_partitions": [],
            **said,
        }
    body = ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member_id, member_epoch=epoch, **said
    )
    answer: ConsumerGroupHeartbeatResponse = await ask(rig, body, version)
    return answer


async def test_a_member_joins_reconciles_and_leaves(rig: Rig) -> None:
    joined = await beat(rig, "m", 0)
    assert joined.error_code == 0
    assert joined.assignment is not None
    (topic,) = joined.assignment.topic_partitions
    assert topic.partitions == [0, 1, 2, 3]
    followed = await beat(rig, "m", joined.member_epoch)
    assert (followed.assignment, followed.heartbeat_interval_ms) == (None, 5_000)
    left = await beat(rig, "m", -1)
    assert (left.error_code, left.member_epoch) == (0, -1)


async def test_in_version_0_the_broker_assigns_the_member_id(rig: Rig) -> None:
    joined = await beat(rig, "", 0, version=0)
    assert joined.member_id
    refused = await beat(rig, "", 0, version=1)
    assert refused.error_code == ErrorCode.INVALID_REQUEST


async def test_new_topics_are_assigned(rig: Rig) -> None:
    await beat(rig, "m", 0, subscribed_topic_names=["later"])
    await create(rig, "later", count=2)
    followed = await beat(rig, "m", 2)
    assert followed.assignment is not None
    assert followed.assignment.topic_partitions[0].partitions == [0, 1]


async def test_refusals_carry_their_reason(rig: Rig) -> None:
    refused = await beat(rig, "m", 3)
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.error_message == "Consumer group g not found."
    assert (await beat(rig, "m", 0, group="")).error_code == ErrorCode.INVALID_REQUEST


async def test_members_cannot_join_before_the_offsets_topic_exists(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    assert (await beat(rig, "m", 0)).error_code == ErrorCode.NOT_COORDINATOR
    await rig.close()


async def test_groups_survive_a_restart(rig: Rig, tmp_path: Path) -> None:
    joined = await beat(rig, "m", 0)
    await rig.close()
    again = Rig(tmp_path / "data")
    await again.services.groups.load()
    followed = await beat(again, "m", joined.member_epoch)
    assert (followed.error_code, followed.member_epoch) == (0, joined.member_epoch)
    await again.close()
