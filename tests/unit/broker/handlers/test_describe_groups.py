"""DescribeGroups: the description of a group, and of a missing one in each version."""

import pytest

from protocol.messages.describe_groups import DescribeGroupsRequest
from tests.support.broker_rig import Rig
from tests.support.group_rig import commit, find, member
from tests.support.rig_client import ask, create


@pytest.fixture
async def rig(tmp_path):
    made = Rig(tmp_path, offsets_topic_num_partitions="1")
    yield made
    await made.close()


async def test_a_stable_group_and_a_group_with_offsets_only(rig):
    await create(rig)
    await find(rig)
    member_id, _ = await member(rig)
    await commit(rig, ("t", 0, 1), group_id="simple")
    stable, simple = (await ask(rig, DescribeGroupsRequest(groups=["g", "simple"]), 6)).groups
    assert (stable.group_state, stable.protocol_type, stable.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert [(one.member_id, one.member_assignment) for one in stable.members] == [
        (member_id, b"share")
    ]
    assert (simple.group_state, simple.protocol_type, simple.members) == ("Empty", "", [])


@pytest.mark.parametrize(("version", "code"), [(0, 0), (5, 0), (6, 69)])
async def test_a_missing_group_is_dead(rig, version, code):
    await find(rig)
    (group,) = (await ask(rig, DescribeGroupsRequest(groups=["no"]), version)).groups
    assert (group.group_state, group.error_code) == ("Dead", code)
    assert bool(group.error_message) == bool(code)


@pytest.mark.parametrize(("asked", "bits"), [(False, -(2**31)), (True, 3400)])
async def test_authorized_operations_are_kafkas(rig, asked, bits):
    await find(rig)
    await member(rig)
    body = DescribeGroupsRequest(groups=["g"], include_authorized_operations=asked)
    assert (await ask(rig, body, 5)).groups[0].authorized_operations == bits


async def test_without_a_log(rig):
    assert (await ask(rig, DescribeGroupsRequest(groups=["g"]), 6)).groups[0].error_code == 16
