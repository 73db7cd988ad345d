"""LeaveGroup: the answer of each version."""

import pytest

from broker.groups.group_log import partition_of
from broker.metadata.topic_rules import GROUP_TOPIC
from protocol.errors import ErrorCode
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


async def leave(rig, member_id):
    return await ask(rig, LeaveGroupRequest(group_id="g", member_id=member_id), 2)


def log_of(rig, group):
    topic = rig.services.topics.by_name(GROUP_TOPIC)
    number = partition_of(group, len(topic.partitions))
    return rig.services.partitions.get(GROUP_TOPIC, number).log


async def test_the_answer_comes_when_the_group_without_its_last_member_is_durable(group_rig):
    member_id, _ = await member(group_rig)
    log = log_of(group_rig, "g")
    before = log.end_offset
    assert (await leave(group_rig, member_id)).error_code == 0
    assert log.durable_offset == log.end_offset > before


async def test_a_departure_that_is_not_durable_is_not_acknowledged(group_rig, monkeypatch):
    member_id, _ = await member(group_rig)
    code = ErrorCode.NOT_COORDINATOR
    monkeypatch.setattr(group_rig.services.groups, "when_durable", lambda _, done: done(code))
    assert (await leave(group_rig, member_id)).error_code == code
