"""SyncGroup: the leader brings the assignment, everybody fetches its part.

The assignment is written to the log before anyone is told it. While the disk has not answered the
group is still in CompletingRebalance, so a member that comes or goes meanwhile begins the next
rebalance, and what was written is then overwritten by the next generation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.groups.alarm import NEVER_NS
from broker.groups.classic import rebalance
from broker.groups.classic.member import Member, SyncAnswer
from broker.groups.errors import GroupError
from broker.groups.states import ClassicEvent, ClassicState
from protocol.errors import ErrorCode
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from broker.groups.classic.classic_group import ClassicGroup


def sync(group: ClassicGroup, body: SyncGroupRequest, answer: SyncAnswer) -> None:
    """Tell a member its assignment, now or when the leader has brought it."""
    try:
        member = _check(group, body)
    except GroupError as error:
        answer(SyncGroupResponse(error_code=error.code))
        return
    _has_synced(group, member)
    if group.state is ClassicState.STABLE:
        answer(_assignment(group, member))
        return
    member.sync_answer = answer
    if group.roster.leader_id == member.member_id:
        _assign(group, {one.member_id: one.assignment for one in body.assignments})


def _check(group: ClassicGroup, body: SyncGroupRequest) -> Member:
    if group.state is ClassicState.DEAD:
        raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if group.state is ClassicState.EMPTY:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    member = group.roster.check(body.member_id, body.group_instance_id)
    if body.generation_id != group.generation:
        raise GroupError(ErrorCode.ILLEGAL_GENERATION)
    for told, known in (
        (body.protocol_type, group.protocol_type),
        (body.protocol_name, group.protocol_name),
    ):
        if told is not None and known is not None and told != known:
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is ClassicState.PREPARING_REBALANCE:
        raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
    return member


def _has_synced(group: ClassicGroup, member: Member) -> None:
    group.unsynced.discard(member.member_id)
    if not group.unsynced:
        group.sync_due_ns = NEVER_NS


def _assign(group: ClassicGroup, assignments: dict[str, bytes]) -> None:
    """Write the assignment, then tell it; members that it forgets get an empty one."""
    generation = group.generation

    def done(code: ErrorCode) -> None:
        is_current = group.state is ClassicState.COMPLETING_REBALANCE
        if not is_current or group.generation != generation:
            return
        if code:
            rebalance.reset_assignments(group, code)
            rebalance.proceed(group)
            return
        group.move(ClassicEvent.ASSIGNED)
        for member in list(group.roster):
            member.assignment = assignments.get(member.member_id, b"")
            if member.answer_sync(_assignment(group, member)):
                group.keep(member)

    try:
        group.host.write(group.group_id, [group.record(assignments)], done)
    except GroupError as error:
        done(error.code)


def _assignment(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
