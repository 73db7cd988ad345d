"""Heartbeat: the handler. Its rules are tested in broker/groups/test_classic.py."""

from tests.support.group_rig import heartbeat, member


async def test_answers(group_rig):
    member_id, generation = await member(group_rig)
    assert await heartbeat(group_rig, member_id, generation) == 0
    assert await heartbeat(group_rig, member_id, generation + 1) == 22
    assert await heartbeat(group_rig, "nobody", generation) == 25
    assert await heartbeat(group_rig, member_id, generation, group="no") == 25
    assert await heartbeat(group_rig, member_id, generation, group="") == 24
