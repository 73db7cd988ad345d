"""Requests of members: each finds its group, or creates it.

    JoinGroup                a first member without an id creates a classic group; it replaces an
                             empty consumer group of that id
    ConsumerGroupHeartbeat   a first member creates a consumer group; it replaces an empty classic
                             group of that id, and converts one that has members
                             (consumer/migration.py)
    all others               fail if the group does not exist

Only a member that joins creates a group. The group is registered once its first record is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.groups.classic.classic_group import ClassicGroup
from broker.groups.classic.generation import Generation
from broker.groups.consumer.consumer_group import ConsumerGroup, HeartbeatAnswer
from broker.groups.consumer.member_heartbeat import check
from broker.groups.consumer.migration import upgraded
from broker.groups.coordinator import Coordinator, check_id
from broker.groups.errors import GroupError
from broker.groups.group import Caller, Group, GroupKind
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    JOIN_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import MemberIdentity, MemberResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

# -- The classic protocol --------------------------------------------------------------------------


def join_group(
    groups: Coordinator,
    body: JoinGroupRequest,
    caller: Caller,
    answer: Callable[[JoinGroupResponse], None],
) -> None:
    """Answer a JoinGroup, now or when the generation begins."""
    try:
        check_id(body.group_id)
        _check_session(groups, body.session_timeout_ms)
        group = _group_to_join(groups, body)
    except GroupError as error:
        answer(JoinGroupResponse(member_id=body.member_id, error_code=error.code))
        return
    group.join(body, caller, answer)


def _check_session(groups: Coordinator, timeout_ms: int) -> None:
    config = groups.config
    min_ms, max_ms = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if not min_ms <= timeout_ms <= max_ms:
        raise GroupError(ErrorCode.INVALID_SESSION_TIMEOUT)


def _group_to_join(groups: Coordinator, body: JoinGroupRequest) -> Group:
    registry = groups.registry_of(body.group_id)
    group = registry.get(body.group_id)
    if group is not None and (group.kind is GroupKind.CLASSIC or not group.is_empty):
        return group
    if body.member_id:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    created = ClassicGroup(body.group_id, groups, Generation(body.group_id))
    replaced = [] if group is None else group.tombstones()
    groups.write(body.group_id, [*replaced, created.generation.first_record()])
    if group is not None:
        registry.remove(body.group_id, ErrorCode.UNKNOWN_MEMBER_ID)
    registry.put(created)
    return created


def sync_group(
    groups: Coordinator, body: SyncGroupRequest, answer: Callable[[SyncGroupResponse], None]
) -> None:
    """Answer a SyncGroup, now or when the leader's assignment is durable."""
    try:
        group = _group_of_member(groups, body.group_id)
    except GroupError as error:
        answer(SyncGroupResponse(error_code=error.code))
        return
    group.sync(body, answer)


def heartbeat(groups: Coordinator, body: HeartbeatRequest) -> ErrorCode:
    """Return the code of a Heartbeat's answer; NONE for every member while groups are loading."""
    try:
        return _group_of_member(groups, body.group_id).heartbeat(body)
    except GroupError as error:
        if error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE
        return error.code


def leave_group(
    groups: Coordinator, group_id: str, members: Sequence[MemberIdentity]
) -> list[MemberResponse]:
    """Remove members. Raises GroupError for all of them, but not for an unknown group."""
    check_id(group_id)
    group = groups.group(group_id)
    if group is not None:
        return group.leave(members)
    return [
        MemberResponse(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            error_code=ErrorCode.UNKNOWN_MEMBER_ID,
        )
        for member in members
    ]


def _group_of_member(groups: Coordinator, group_id: str) -> Group:
    check_id(group_id)
    group = groups.group(group_id)
    if group is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    return group


# -- KIP-848 ---------------------------------------------------------------------------------------


def consumer_group_heartbeat(
    groups: Coordinator,
    body: ConsumerGroupHeartbeatRequest,
    caller: Caller,
    answer: HeartbeatAnswer,
) -> None:
    """Answer a ConsumerGroupHeartbeat when its records are durable."""
    group_id = body.group_id
    try:
        check(body, caller.version, groups.config.group_consumer_assignors)
        group = _consumer_group(groups, body)
        # Checked before the call, which may turn the group into a classic one.
        is_new = groups.registry_of(group_id).get(group_id) is not group
        group.consumer_group_heartbeat(body, caller, answer)
    except GroupError as error:
        answer(ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=str(error)))
        return
    if is_new:
        registry = groups.registry_of(group_id)
        registry.remove(group_id, ErrorCode.REBALANCE_IN_PROGRESS)
        registry.put(group)
        group.loaded()


def _consumer_group(groups: Coordinator, body: ConsumerGroupHeartbeatRequest) -> ConsumerGroup:
    group_id = body.group_id
    known = groups.group(group_id)
    if isinstance(known, ConsumerGroup):
        return known
    if known is None:
        if body.member_epoch == JOIN_EPOCH:
            return ConsumerGroup(group_id, groups)
        what = "Group" if body.member_epoch < JOIN_EPOCH else "Consumer group"
        raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"{what} {group_id} not found.")
    if body.member_epoch != JOIN_EPOCH:
        raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    if known.is_empty:
        return ConsumerGroup(group_id, groups, replaced=known.tombstones())
    assert isinstance(known, ClassicGroup), "there are two kinds"
    draft = upgraded(known, groups)
    return ConsumerGroup(group_id, groups, replaced=draft.records, state=draft.state)
