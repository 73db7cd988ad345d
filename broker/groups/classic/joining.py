"""JoinGroup: who is let in, under which id, and whether that begins a rebalance.

no id, dynamic       gets an id, and from version 4 on must come back with it (KIP-394)
no id, static, new   is a member
no id, static, known takes the place of the one before, who is fenced; in a stable group that
costs no rebalance unless another protocol would be chosen (KIP-345)
pending id           is a member
known id             joins again: a rebalance if it has something new to say, or leads
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.groups.classic import rebalance
from broker.groups.classic.member import JoinAnswer, Member
from broker.groups.errors import GroupError
from broker.groups.group import Caller
from broker.groups.states import ClassicState
from broker.runtime.clock import MS_NS
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from broker.groups.classic.classic_group import ClassicGroup

REQUIRES_MEMBER_ID_VERSION: Final = 4
SKIPS_ASSIGNMENT_VERSION: Final = 9
# A new member cannot send heartbeats before it is answered, and may be gone by then: Kafka's
# ClassicGroup gives such a JoinGroup so long.
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000


def join(group: ClassicGroup, body: JoinGroupRequest, caller: Caller, answer: JoinAnswer) -> None:
    """Let a member join, or join again; `answer` is called when its generation is known."""
    member_id = body.member_id
    if not _has_room(group, member_id):
        group.forget(member_id)
        answer(JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED))
        return
    try:
        _check(group, body)
        if not member_id:
            _join_new(group, body, caller, answer)
        elif member_id in group.roster.pending:
            _add(group, body, caller, member_id, answer)
        else:
            member = group.roster.check(member_id, body.group_instance_id)
            _join_again(group, body, member, answer)
    except GroupError as error:
        answer(JoinGroupResponse(member_id=member_id, error_code=error.code))


def _has_room(group: ClassicGroup, member_id: str) -> bool:
    """Hold `group.max.size`: while members join again, those who come first stay."""
    size_max = group.host.config.group_max_size
    if group.state in (ClassicState.EMPTY, ClassicState.DEAD):
        return True
    member = group.roster.members.get(member_id)
    if group.state is ClassicState.PREPARING_REBALANCE:
        is_in = member is not None and member.join_answer is not None
        return is_in or group.roster.joining_count < size_max
    return member is not None or len(group.roster) < size_max


def _check(group: ClassicGroup, body: JoinGroupRequest) -> None:
    """Refuse one that does not speak what the others do."""
    if group.state is ClassicState.DEAD:
        raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if group.state is ClassicState.EMPTY:
        fits = bool(body.protocol_type and body.protocols)
    else:
        speaks = group.roster.all_speak_one_of(body.protocols)
        fits = speaks and group.protocol_type == body.protocol_type
    if not fits:
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _join_new(
    group: ClassicGroup, body: JoinGroupRequest, caller: Caller, answer: JoinAnswer
) -> None:
    instance_id = body.group_instance_id
    new_id = f"{caller.client_id if instance_id is None else instance_id}-{group.host.new_id()}"
    if instance_id is not None:
        known_id = group.roster.static.get(instance_id)
        if known_id is None:
            _add(group, body, caller, new_id, answer)
        else:
            member = group.roster.members[known_id]
            _take_over(group, body, caller, member, new_id, answer)
    elif caller.version >= REQUIRES_MEMBER_ID_VERSION:
        deadline_ns = group.host.clock.monotonic_ns() + body.session_timeout_ms * MS_NS
        group.roster.pending[new_id] = deadline_ns
        group.alarm.at_latest(deadline_ns)
        answer(JoinGroupResponse(member_id=new_id, error_code=ErrorCode.MEMBER_ID_REQUIRED))
    else:
        _add(group, body, caller, new_id, answer)


def _rebalance_timeout_ms(body: JoinGroupRequest) -> int:
    return body.session_timeout_ms if body.rebalance_timeout_ms < 0 else body.rebalance_timeout_ms


def _add(
    group: ClassicGroup,
    body: JoinGroupRequest,
    caller: Caller,
    member_id: str,
    answer: JoinAnswer,
) -> None:
    member = Member(
        member_id,
        body.group_instance_id,
        caller.client_id,
        caller.client_host,
        session_timeout_ms=body.session_timeout_ms,
        rebalance_timeout_ms=_rebalance_timeout_ms(body),
        protocols=body.protocols,
    )
    member.is_new = True
    if group.initial_delay is not None:
        group.initial_delay.has_newcomer = True
    if not group.roster.members:
        group.protocol_type = body.protocol_type
    member.join_answer = answer
    group.roster.add(member)
    group.expect_within(member, NEW_MEMBER_JOIN_TIMEOUT_MS)
    rebalance.proceed(group)


def _join_again(
    group: ClassicGroup, body: JoinGroupRequest, member: Member, answer: JoinAnswer
) -> None:
    state = group.state
    if state is ClassicState.EMPTY:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    says_nothing_new = member.protocols == body.protocols
    leads = group.roster.leader_id == member.member_id
    if state is ClassicState.COMPLETING_REBALANCE and says_nothing_new:
        # It did not get our answer, perhaps: the generation is the same.
        answer(rebalance.generation_response(group, member, is_told_members=leads))
    elif state is ClassicState.STABLE and says_nothing_new and not leads:
        answer(rebalance.generation_response(group, member, is_told_members=False))
    else:
        # The leader asks for a rebalance when, say, a topic has more partitions.
        _update(group, body, member, answer)
        rebalance.proceed(group)


def _update(
    group: ClassicGroup, body: JoinGroupRequest, member: Member, answer: JoinAnswer | None
) -> None:
    group.roster.speak(member, body.protocols)
    member.session_timeout_ms = body.session_timeout_ms
    member.rebalance_timeout_ms = _rebalance_timeout_ms(body)
    member.join_answer = answer


def _take_over(
    group: ClassicGroup,
    body: JoinGroupRequest,
    caller: Caller,
    member: Member,
    new_id: str,
    answer: JoinAnswer,
) -> None:
    """Put a static member in the place of itself as it was before its restart."""
    old_id, old_leader = member.member_id, group.roster.leader_id
    undo = _undoing(group, member, old_id)
    group.roster.replace_static(member, new_id)
    group.unsynced.discard(old_id)
    group.keep(member)
    _update(group, body, member, answer)
    if group.state is ClassicState.COMPLETING_REBALANCE:
        # The leader may know the old id already, and would assign to it.
        rebalance.prepare(group)
    elif group.state is not ClassicState.STABLE:
        rebalance.complete_if_all_joined(group)
    elif group.roster.choose_protocol() != group.protocol_name:
        rebalance.proceed(group)
    else:
        leads = group.roster.leader_id == new_id
        skips = caller.version >= SKIPS_ASSIGNMENT_VERSION

        def done(code: ErrorCode) -> None:
            if group.roster.members.get(new_id) is not member:
                return  # another has taken over meanwhile, and this one was told
            response = rebalance.generation_response(
                group, member, is_told_members=leads and skips, skip_assignment=leads and skips
            )
            if not skips:  # an older leader would assign anew if told that it leads: KIP-345
                response.leader = old_leader or ""
            if code:
                response.member_id, response.error_code, response.members = "", code, []
                member.join_answer = None
                undo()
                answer(response)
            else:
                group.keep(member)
                member.answer_join(response)

        assignments = {one.member_id: one.assignment for one in group.roster}
        try:
            group.host.write(group.group_id, [group.record(assignments)], done)
        except GroupError as error:
            done(error.code)


def _undoing(group: ClassicGroup, member: Member, old_id: str) -> Callable[[], None]:
    """Return what brings back a static member as it is now."""
    protocols = member.protocols
    timeouts_ms = member.session_timeout_ms, member.rebalance_timeout_ms

    def undo() -> None:
        group.roster.speak(member, protocols)
        member.session_timeout_ms, member.rebalance_timeout_ms = timeouts_ms
        group.roster.replace_static(member, old_id)
        group.keep(member)

    return undo
