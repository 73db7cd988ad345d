"""A ConsumerGroupHeartbeat finds its group, or makes it.

    there is none, or an empty classic one     the first member makes a consumer group of it
    a classic one with members                 the first member takes them along (migration.py)

Only a member that joins does any of this: to everyone else a group of that id and kind is there
or is not.
"""

from __future__ import annotations

from broker.groups.classic.classic_group import ClassicGroup
from broker.groups.consumer.consumer_group import ConsumerGroup, HeartbeatAnswer
from broker.groups.consumer.member_heartbeat import check
from broker.groups.consumer.migration import upgraded
from broker.groups.coordinator import Coordinator
from broker.groups.errors import GroupError
from broker.groups.group import Caller
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    JOIN_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def serve(
    coordinator: Coordinator,
    body: ConsumerGroupHeartbeatRequest,
    caller: Caller,
    answer: HeartbeatAnswer,
) -> None:
    """Answer a heartbeat; a group that it makes is known once its first records are written."""
    try:
        check(body, caller.version, coordinator.config.group_consumer_assignors)
        group = _group(coordinator, body)
        # Asked before: what the member says may turn the group into a classic one.
        is_new = coordinator.registry_of(body.group_id).get(body.group_id) is not group
        group.consumer_group_heartbeat(body, caller, answer)
    except GroupError as error:
        answer(ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=str(error)))
        return
    if is_new:
        registry = coordinator.registry_of(body.group_id)
        registry.remove(body.group_id, ErrorCode.REBALANCE_IN_PROGRESS)
        registry.put(group)
        group.loaded()


def _group(coordinator: Coordinator, body: ConsumerGroupHeartbeatRequest) -> ConsumerGroup:
    group_id = body.group_id
    known = coordinator.group(group_id)
    if isinstance(known, ConsumerGroup):
        return known
    if known is None:
        if body.member_epoch == JOIN_EPOCH:
            return ConsumerGroup(group_id, coordinator)
        what = "Group" if body.member_epoch < JOIN_EPOCH else "Consumer group"
        raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"{what} {group_id} not found.")
    if body.member_epoch != JOIN_EPOCH:
        raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    if known.is_empty:
        return ConsumerGroup(group_id, coordinator, replaced=known.tombstones())
    assert isinstance(known, ClassicGroup), "there are two kinds"
    draft = upgraded(known, coordinator)
    return ConsumerGroup(group_id, coordinator, replaced=draft.records, state=draft.state)
