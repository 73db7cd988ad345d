"""JoinGroup: which members may join, under which id, and whether a rebalance begins.

no id, dynamic         gets an id, and from version 4 must rejoin with it (KIP-394)
no id, static, new     becomes a member
no id, static, known   replaces its predecessor, which is fenced; a stable group rebalances
                       only if the choice of the protocol changes (KIP-345)
pending id             becomes a member, which cannot be static
known id               rejoins; a rebalance begins if its metadata is new, or if it leads
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.groups.classic.classic_member import ClassicGroupMember, JoinAnswer
from broker.groups.classic.generation import Generation
from broker.groups.classic.rebalance import Rebalance
from broker.groups.errors import GroupError
from broker.groups.group import Caller
from broker.groups.states import ClassicGroupState
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

REQUIRES_MEMBER_ID_VERSION: Final = 4
SKIPS_ASSIGNMENT_VERSION: Final = 9
# A new member cannot send heartbeats before its JoinGroup is answered, and its client may have gone
# by then. Kafka's ClassicGroup expires it after this time.
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000


def join(rebalance: Rebalance, body: JoinGroupRequest, caller: Caller, answer: JoinAnswer) -> None:
    """Add a member, or let it rejoin; call `answer` when its generation begins."""
    member_id = body.member_id
    generation = rebalance.generation
    if not _has_room(generation, member_id, rebalance.host.config.group_max_size):
        rebalance.remove_member(member_id)
        answer(JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED))
        return
    try:
        _check(generation, body)
        if not member_id:
            _join_new(rebalance, body, caller, answer)
        elif member_id in generation.roster.pending:
            _add(rebalance, body, caller, member_id, answer)
        else:
            member = generation.roster.check(member_id, body.group_instance_id)
            _join_again(rebalance, body, member, answer)
    except GroupError as error:
        answer(JoinGroupResponse(member_id=member_id, error_code=error.code))


def _has_room(generation: Generation, member_id: str, size_max: int) -> bool:
    """Enforce `group.max.size`: during a rebalance, the first members to rejoin stay."""
    if generation.state in (ClassicGroupState.EMPTY, ClassicGroupState.DEAD):
        return True
    roster = generation.roster
    member = roster.members.get(member_id)
    if generation.state is ClassicGroupState.PREPARING_REBALANCE:
        is_in = member is not None and member.join_answer is not None
        return is_in or roster.joining_count < size_max
    return member is not None or len(roster) < size_max


def _check(generation: Generation, body: JoinGroupRequest) -> None:
    """Raise GroupError unless the member shares a protocol with the others, and its id is sound."""
    if generation.state is ClassicGroupState.DEAD:
        raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if generation.state is ClassicGroupState.EMPTY:
        fits = bool(body.protocol_type and body.protocols)
    else:
        speaks = generation.roster.all_support_one_of(body.protocols)
        fits = speaks and generation.protocol_type == body.protocol_type
    if not fits:
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if body.group_instance_id is not None and body.member_id in generation.roster.pending:
        raise GroupError(ErrorCode.UNKNOWN_SERVER_ERROR)  # only dynamic members get such an id


def _join_new(
    rebalance: Rebalance, body: JoinGroupRequest, caller: Caller, answer: JoinAnswer
) -> None:
    roster = rebalance.generation.roster
    instance_id = body.group_instance_id
    new_id = f"{caller.client_id if instance_id is None else instance_id}-{rebalance.host.new_id()}"
    if instance_id is not None:
        known_id = roster.static.get(instance_id)
        if known_id is None:
            _add(rebalance, body, caller, new_id, answer)
        else:
            _take_over(rebalance, body, caller, roster.members[known_id], new_id, answer)
    elif caller.version >= REQUIRES_MEMBER_ID_VERSION:
        rebalance.reserve_id(new_id, body.session_timeout_ms)
        answer(JoinGroupResponse(member_id=new_id, error_code=ErrorCode.MEMBER_ID_REQUIRED))
    else:
        _add(rebalance, body, caller, new_id, answer)


def _rebalance_timeout_ms(body: JoinGroupRequest) -> int:
    return body.session_timeout_ms if body.rebalance_timeout_ms < 0 else body.rebalance_timeout_ms


def _add(
    rebalance: Rebalance,
    body: JoinGroupRequest,
    caller: Caller,
    member_id: str,
    answer: JoinAnswer,
) -> None:
    generation = rebalance.generation
    member = ClassicGroupMember(
        member_id,
        body.group_instance_id,
        caller.client_id,
        caller.client_host,
        session_timeout_ms=body.session_timeout_ms,
        rebalance_timeout_ms=_rebalance_timeout_ms(body),
        protocols=body.protocols,
    )
    member.is_new = True
    rebalance.note_newcomer()
    if not generation.roster.members:
        generation.protocol_type = body.protocol_type
    member.join_answer = answer
    generation.roster.add(member)
    rebalance.expect_within(member, NEW_MEMBER_JOIN_TIMEOUT_MS)
    rebalance.proceed()


def _join_again(
    rebalance: Rebalance, body: JoinGroupRequest, member: ClassicGroupMember, answer: JoinAnswer
) -> None:
    generation = rebalance.generation
    state = generation.state
    if state is ClassicGroupState.EMPTY:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    says_nothing_new = member.protocols == body.protocols
    leads = generation.roster.leader_id == member.member_id
    if state is ClassicGroupState.COMPLETING_REBALANCE and says_nothing_new:
        # Its answer may have been lost: the generation is the same.
        answer(generation.join_response(member, is_told_members=leads))
    elif state is ClassicGroupState.STABLE and says_nothing_new and not leads:
        answer(generation.join_response(member, is_told_members=False))
    else:
        # The leader rejoins to rebalance, for example when a topic has more partitions.
        _update(generation, body, member, answer)
        rebalance.proceed()


def _update(
    generation: Generation, body: JoinGroupRequest, member: ClassicGroupMember, answer: JoinAnswer
) -> None:
    generation.roster.set_protocols(member, body.protocols)
    member.session_timeout_ms = body.session_timeout_ms
    member.rebalance_timeout_ms = _rebalance_timeout_ms(body)
    member.wait_for_generation(answer)


def _take_over(
    rebalance: Rebalance,
    body: JoinGroupRequest,
    caller: Caller,
    member: ClassicGroupMember,
    new_id: str,
    answer: JoinAnswer,
) -> None:
    """Replace a static member by its successor after a restart of the client."""
    generation = rebalance.generation
    roster = generation.roster
    old_leader = roster.leader_id
    undo = _undoing(rebalance, member)
    rebalance.replace_static(member, new_id)
    _update(generation, body, member, answer)
    if generation.state is ClassicGroupState.COMPLETING_REBALANCE:
        # The leader may know the old id already, and would assign partitions to it.
        rebalance.prepare()
    elif generation.state is not ClassicGroupState.STABLE:
        rebalance.complete_if_all_joined()
    elif roster.choose_protocol() != generation.protocol_name:
        rebalance.proceed()
    else:
        leads = roster.leader_id == new_id
        skips = caller.version >= SKIPS_ASSIGNMENT_VERSION

        def done(code: ErrorCode) -> None:
            if member.join_answer is not answer:
                return  # replaced again, removed, or in a later generation; and answered
            if generation.state is not ClassicGroupState.STABLE:
                return  # it waits for the next generation as the others do, and is written with it
            response = generation.join_response(
                member, is_told_members=leads and skips, skip_assignment=leads and skips
            )
            if not skips:  # an older client that learns that it leads would assign again (KIP-345)
                response.leader = old_leader or ""
            if code:
                response.member_id, response.error_code, response.members = "", code, []
                member.join_answer = None
                undo()
                answer(response)
            else:
                rebalance.renew_session(member)
                member.answer_join(response)

        assignments = {one.member_id: one.assignment for one in roster}
        try:
            rebalance.host.write(generation.group_id, [generation.record(assignments)], done)
        except GroupError as error:
            done(error.code)


def _undoing(rebalance: Rebalance, member: ClassicGroupMember) -> Callable[[], None]:
    """Return a function that restores the static member as it is now."""
    old_id, protocols = member.member_id, member.protocols
    timeouts_ms = member.session_timeout_ms, member.rebalance_timeout_ms

    def undo() -> None:
        roster = rebalance.generation.roster
        roster.set_protocols(member, protocols)
        member.session_timeout_ms, member.rebalance_timeout_ms = timeouts_ms
        roster.replace_static(member, old_id)
        rebalance.renew_session(member)

    return undo
