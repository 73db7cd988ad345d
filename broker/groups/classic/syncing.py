"""SyncGroup: the leader sends the assignment, and each member gets its part.

The assignment is written to the log before any member gets it. Until the write is durable, the
group stays in CompletingRebalance. If a member joins or leaves in the meantime, the next rebalance
begins, and the next generation overwrites the record.

A generation has one assignment. A leader that repeats its SyncGroup meanwhile, maybe with another
assignment, waits for the first: if the log ended with another one than the members have, a restart
would give partitions to two of them.
"""

from __future__ import annotations

from broker.groups.classic.classic_member import ClassicGroupMember, SyncAnswer
from broker.groups.classic.generation import Generation
from broker.groups.classic.rebalance import Rebalance
from broker.groups.errors import GroupError
from broker.groups.states import ClassicGroupEvent, ClassicGroupState
from protocol.errors import ErrorCode
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync(rebalance: Rebalance, body: SyncGroupRequest, answer: SyncAnswer) -> None:
    """Answer with the member's assignment, now or when the leader's is durable."""
    generation = rebalance.generation
    try:
        member = _check(generation, body)
    except GroupError as error:
        answer(SyncGroupResponse(error_code=error.code))
        return
    rebalance.note_synced(member.member_id)
    if generation.state is ClassicGroupState.STABLE:
        answer(_assignment(generation, member))
        return
    member.wait_for_assignment(answer)
    leads = generation.roster.leader_id == member.member_id
    if leads and rebalance.assigned_generation_id != generation.generation_id:
        rebalance.assigned_generation_id = generation.generation_id
        _assign(rebalance, {one.member_id: one.assignment for one in body.assignments})


def _check(generation: Generation, body: SyncGroupRequest) -> ClassicGroupMember:
    if generation.state is ClassicGroupState.DEAD:
        raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if generation.state is ClassicGroupState.EMPTY:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    member = generation.roster.check(body.member_id, body.group_instance_id)
    if body.generation_id != generation.generation_id:
        raise GroupError(ErrorCode.ILLEGAL_GENERATION)
    for told, known in (
        (body.protocol_type, generation.protocol_type),
        (body.protocol_name, generation.protocol_name),
    ):
        if told is not None and known is not None and told != known:
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if generation.state is ClassicGroupState.PREPARING_REBALANCE:
        raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
    return member


def _assign(rebalance: Rebalance, assignments: dict[str, bytes]) -> None:
    """Write the assignment, then answer the members; those it leaves out get an empty one."""
    generation = rebalance.generation
    generation_id = generation.generation_id

    def done(code: ErrorCode) -> None:
        is_current = generation.state is ClassicGroupState.COMPLETING_REBALANCE
        if not is_current or generation.generation_id != generation_id:
            return
        if code:
            rebalance.reset_assignments(code)
            rebalance.proceed()
            return
        rebalance.move(ClassicGroupEvent.ASSIGNED)
        for member in list(generation.roster):
            member.assignment = assignments.get(member.member_id, b"")
            if member.answer_sync(_assignment(generation, member)):
                rebalance.renew_session(member)

    try:
        rebalance.host.write(generation.group_id, [generation.record(assignments)], done)
    except GroupError as error:
        done(error.code)


def _assignment(generation: Generation, member: ClassicGroupMember) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=generation.protocol_type,
        protocol_name=generation.protocol_name,
        assignment=member.assignment,
    )
