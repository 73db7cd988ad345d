"""LeaveGroup: the answer of each version."""

import pytest

from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.support.group_rig import heartbeat, member
from tests.support.rig_client import ask


@pytest.mark.parametrize(
    ("group", "known", "code"), [("g", True, 0), ("g", False, 25), ("no", True, 25), ("", True, 24)]
)
async def test_one_member(group_rig, group, known, code):
    member_id, generation = await member(group_rig)
    body = LeaveGroupRequest(group_id=group, member_id=member_id if known else "nobody")
    assert (await ask(group_rig, body, 2)).error_code == code
    assert await heartbeat(group_rig, member_id, generation) == (25 if code == 0 else 0)


@pytest.mark.parametrize(
    ("group", "top", "each"), [("g", 0, [0, 25]), ("no", 0, [25, 25]), ("", 24, [])]
)
async def test_many_members(group_rig, group, top, each):
    member_id, _ = await member(group_rig)
    members = [MemberIdentity(member_id=one) for one in (member_id, "nobody")]
    answer = await ask(group_rig, LeaveGroupRequest(group_id=group, members=members), 5)
    assert answer.error_code == top
    assert [one.error_code for one in answer.members] == each
