"""Requests of members of the classic protocol in a consumer group.

While an application migrates to the new protocol, its group has members of both (KIP-848). Members
of the classic protocol see an ordinary classic group: their member epoch is the generation. But no
member leads, since the broker assigns.

    JoinGroup    as a ConsumerGroupHeartbeat: updates the member, and reconciles it one step
    SyncGroup    returns the partitions it has then
    Heartbeat    REBALANCE_IN_PROGRESS when another step is possible, so that it rejoins
    LeaveGroup   removes it, as it removes members of the new protocol (for administrators)

A member has its rebalance timeout for each step: to rejoin when told to, and to sync after that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from broker.groups.consumer import migration
from broker.groups.consumer.consumer_member import ClassicSide, ConsumerGroupMember
from broker.groups.consumer.draft import Draft
from broker.groups.consumer.embedded_protocol import (
    assignment_bytes,
    partitions_of,
    read_subscription,
)
from broker.groups.consumer.member_steps import (
    check_static_member,
    reconcile,
    remove,
    replace_static,
    update_member,
)
from broker.groups.consumer.membership import Membership
from broker.groups.consumer.state import ConsumerState
from broker.groups.errors import GroupError
from broker.groups.group import Caller
from protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    version_of,
)
from protocol.errors import ErrorCode
from protocol.group_records import MemberState
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import MemberIdentity, MemberResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

REQUIRES_MEMBER_ID_VERSION: Final = 4  # of JoinGroup (KIP-394)


def join(
    membership: Membership,
    body: JoinGroupRequest,
    caller: Caller,
    answer: Callable[[JoinGroupResponse], None],
) -> None:
    """Add a member, or let it rejoin."""
    member_id = body.member_id or membership.host.new_id()
    try:
        _check_join(membership, body, member_id, caller.version)
        draft = Draft(membership.state)
        replaced = _replaced(membership.state, body)
        after = _joined(membership, draft, body, member_id, caller)
        response = JoinGroupResponse(
            member_id=member_id,
            generation_id=after.member_epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=body.protocols[0].name,
        )
        done = partial(_answer_join, answer, response)
        if replaced is None or replaced.classic is not None:
            membership.write(draft, done)
        elif migration.write_replacement(membership, draft, done):
            return  # a classic group has replaced this one
    except GroupError as error:
        answer(JoinGroupResponse(member_id=member_id, error_code=error.code))
        return
    membership.renew_session(member_id)
    membership.deadlines.step_done(member_id)
    membership.deadlines.expect_step(after)
    membership.find_targets()


def sync(
    membership: Membership, body: SyncGroupRequest, answer: Callable[[SyncGroupResponse], None]
) -> None:
    """Answer with the member's partitions, when it is durable that it owns them."""
    try:
        member = _classic_member(membership.state, body.member_id, body.group_instance_id)
        side = _check_sync(membership, body, member)
    except GroupError as error:
        answer(SyncGroupResponse(error_code=error.code))
        return
    membership.deadlines.step_done(member.member_id)
    membership.renew_session(member.member_id)
    name, subscription = side.protocols[0]
    response = SyncGroupResponse(
        protocol_type=PROTOCOL_TYPE,
        protocol_name=name,
        assignment=assignment_bytes(member, membership.host.topics, version_of(subscription)),
    )
    # A JoinGroup whose answer its client did not wait for may have given it more in this epoch.
    membership.host.when_durable(
        membership.group_id,
        lambda code: answer(SyncGroupResponse(error_code=code) if code else response),
    )


def heartbeat(membership: Membership, body: HeartbeatRequest) -> ErrorCode:
    """Renew a member's session; tell it to rejoin when a step is possible."""
    try:
        member = _classic_member(membership.state, body.member_id, body.group_instance_id)
        _check_generation(member, body.generation_id)
    except GroupError as error:
        return error.code
    membership.renew_session(member.member_id)
    if (
        member.member_epoch < membership.reachable_epoch
        or member.state == MemberState.UNREVOKED_PARTITIONS
        or (
            member.state == MemberState.UNRELEASED_PARTITIONS
            and not _waits_for_others(membership.state, member)
        )
    ):
        membership.deadlines.expect_step(member)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(membership: Membership, members: Sequence[MemberIdentity]) -> list[MemberResponse]:
    """Remove members of either protocol, in one epoch; static ones may be named by instance id."""
    responses = []
    gone: dict[str, None] = {}
    for leaving in members:
        response = MemberResponse(
            member_id=leaving.member_id, group_instance_id=leaving.group_instance_id
        )
        responses.append(response)
        try:
            gone[_leaving(membership.state, leaving)] = None
        except GroupError as error:
            response.error_code = error.code
    if gone:
        draft = Draft(membership.state)
        remove(draft, list(gone), membership.context())
        migration.write_removal(membership, draft, None)
    return responses


def _check_join(
    membership: Membership, body: JoinGroupRequest, member_id: str, version: int
) -> None:
    """Raise GroupError for a full group, an unshared protocol, or a missing member id."""
    size_max = membership.host.config.group_consumer_max_size
    members = membership.state.members
    if member_id not in members and len(members) >= size_max:
        raise GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED)
    classic = [member.classic for member in members.values() if member.classic is not None]
    speaks = {spoken.name for spoken in body.protocols}
    fits = body.protocol_type == PROTOCOL_TYPE and any(
        all(any(name == of for of, _ in side.protocols) for side in classic) for name in speaks
    )
    if not fits:
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    is_dynamic = body.group_instance_id is None
    if not body.member_id and is_dynamic and version >= REQUIRES_MEMBER_ID_VERSION:
        raise GroupError(ErrorCode.MEMBER_ID_REQUIRED)


def _joined(
    membership: Membership, draft: Draft, body: JoinGroupRequest, member_id: str, caller: Caller
) -> ConsumerGroupMember:
    """Update the member from its request, and reconcile it one step."""
    subscription = read_subscription(body.protocols[0].metadata)
    before = _find(draft, body, member_id)
    said = replace(
        before,
        instance_id=body.group_instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        rebalance_timeout_ms=(
            body.session_timeout_ms if body.rebalance_timeout_ms < 0 else body.rebalance_timeout_ms
        ),
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=ClassicSide(
            body.session_timeout_ms,
            tuple((spoken.name, bytes(spoken.metadata)) for spoken in body.protocols),
        ),
    )
    context = membership.context(caller)
    update_member(draft, before, said, context)
    reported = partitions_of(subscription.owned_partitions, membership.host.topics)
    return reconcile(draft, member_id, reported, context)


def _replaced(state: ConsumerState, body: JoinGroupRequest) -> ConsumerGroupMember | None:
    """Return the static member that a new one replaces."""
    if body.group_instance_id is None or body.member_id:
        return None
    return state.static_member(body.group_instance_id)


def _find(draft: Draft, body: JoinGroupRequest, member_id: str) -> ConsumerGroupMember:
    state = draft.state
    if body.group_instance_id is None:
        return state.members.get(member_id) or ConsumerGroupMember(member_id=member_id)
    if body.member_id:
        return check_static_member(state, body.group_instance_id, member_id)
    holder = _replaced(state, body)
    if holder is None:
        return ConsumerGroupMember(member_id=member_id)
    return replace_static(draft, holder, member_id)


def _check_sync(
    membership: Membership, body: SyncGroupRequest, member: ConsumerGroupMember
) -> ClassicSide:
    """Raise GroupError for another generation or protocol, or if the group has moved on."""
    _check_generation(member, body.generation_id)
    assert member.classic is not None, "a member of the classic protocol"
    name, _ = member.classic.protocols[0]
    is_of_protocol = (body.protocol_type or PROTOCOL_TYPE) == PROTOCOL_TYPE
    if not is_of_protocol or (body.protocol_name or name) != name:
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    is_behind = membership.reachable_epoch > member.member_epoch
    if is_behind and member.state != MemberState.UNREVOKED_PARTITIONS:
        membership.deadlines.expect_step(member)
        raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
    return member.classic


def _classic_member(
    state: ConsumerState, member_id: str, instance_id: str | None
) -> ConsumerGroupMember:
    if instance_id is None:
        member = state.members.get(member_id)
    else:
        member = check_static_member(state, instance_id, member_id)
    if member is None or member.classic is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


def _leaving(state: ConsumerState, leaving: MemberIdentity) -> str:
    instance_id = leaving.group_instance_id
    if instance_id is None:
        return state.member(leaving.member_id).member_id
    if leaving.member_id:
        return check_static_member(state, instance_id, leaving.member_id).member_id
    member = state.static_member(instance_id)
    if member is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member.member_id


def _check_generation(member: ConsumerGroupMember, generation: int) -> None:
    if generation != member.member_epoch:
        raise GroupError(ErrorCode.ILLEGAL_GENERATION)


def _waits_for_others(state: ConsumerState, member: ConsumerGroupMember) -> bool:
    return any(
        state.owners.get((topic_id, partition), member.member_id) != member.member_id
        for topic_id, numbers in state.targets.get(member.member_id, {}).items()
        for partition in numbers
    )


def _answer_join(
    answer: Callable[[JoinGroupResponse], None], response: JoinGroupResponse, code: ErrorCode
) -> None:
    if code:
        response = JoinGroupResponse(member_id=response.member_id, error_code=code)
    answer(response)
