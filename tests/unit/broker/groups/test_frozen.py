"""Groups of a directory that is served read-only stay as their log has them."""

import asyncio
from pathlib import Path

from broker.groups.frozen import FrozenCoordinator
from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.support.broker_rig import Rig
from tests.support.group_rig import find

SETTINGS = {"offsets_topic_num_partitions": "1", "group_min_session_timeout_ms": "1"}


async def test_members_of_a_killed_broker_stay_after_their_session(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data", **SETTINGS)
    await find(rig)
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=50,
        rebalance_timeout_ms=50,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range")],
    )
    joined = await rig.call(join, 3)
    assert joined.error_code == ErrorCode.NONE
    before = (await rig.call(DescribeGroupsRequest(groups=["g"]), 5)).groups[0]
    assert await rig.close()
    rig = Rig(tmp_path / "data", barnabas_read_only="true", **SETTINGS)
    await rig.loading
    assert isinstance(rig.services.groups, FrozenCoordinator)
    await asyncio.sleep(0.2)
    after = (await rig.call(DescribeGroupsRequest(groups=["g"]), 5)).groups[0]
    assert after.error_code == ErrorCode.NONE
    assert len(after.members) <= len(before.members)
    assert await rig.close()
