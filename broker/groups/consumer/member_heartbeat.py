"""One ConsumerGroupHeartbeat: the records it writes, in a draft, and its answer.

The steps are in the order of Kafka's GroupMetadataManager: find the member, update it, raise the
group epoch if needed, find new targets if needed, and reconcile the member. A heartbeat without
changes writes no record if the members have reached their targets.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TypeVar

from broker.groups.consumer.assignors import PartitionsByTopic, partitions_by_topic
from broker.groups.consumer.consumer_member import ConsumerGroupMember
from broker.groups.consumer.draft import Draft
from broker.groups.consumer.member_steps import (
    StepContext,
    check_static_member,
    reconcile,
    remove,
    replace_static,
    update_member,
)
from broker.groups.errors import GroupError
from broker.groups.group import Caller
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    JOIN_EPOCH,
    LEAVE_STATIC_EPOCH,
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_T = TypeVar("_T")

OWN_MEMBER_ID_VERSION = 1  # from this version, members create their own ids (KIP-1082)


def check(body: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    """Raise GroupError, in Kafka's words, for a request that is invalid for any group."""
    if not body.member_id and (version >= OWN_MEMBER_ID_VERSION or body.member_epoch != JOIN_EPOCH):
        raise _invalid("MemberId can't be empty.")
    if not body.group_id.strip():
        raise _invalid("GroupId can't be empty.")
    if body.instance_id is not None and not body.instance_id.strip():
        raise _invalid("InstanceId can't be empty.")
    if body.rack_id is not None and not body.rack_id.strip():
        raise _invalid("RackId can't be empty.")
    if body.member_epoch == JOIN_EPOCH:
        if body.rebalance_timeout_ms == -1:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if body.topic_partitions is None or body.topic_partitions:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if body.subscribed_topic_names is None and body.subscribed_topic_regex is None:
            raise _invalid(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when"
                " (re-)joining."
            )
    elif body.member_epoch == LEAVE_STATIC_EPOCH and body.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif body.member_epoch < LEAVE_STATIC_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if body.server_assignor is not None and body.server_assignor not in assignors:
        raise GroupError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {body.server_assignor} is not supported. Supported assignors: "
            + ", ".join(assignors)
            + ".",
        )


def heartbeat(
    draft: Draft,
    body: ConsumerGroupHeartbeatRequest,
    member_id: str,
    caller: Caller,
    context: StepContext,
) -> ConsumerGroupHeartbeatResponse:
    """Add or update a member; `member_id` is the request's, or one created for it."""
    reported = _reported(body.topic_partitions)
    before = _find(draft, body, member_id, reported, context.size_max)
    said = replace(
        before,
        instance_id=_new(body.instance_id, before.instance_id),
        rack_id=_new(body.rack_id, before.rack_id),
        rebalance_timeout_ms=_new(
            None if body.rebalance_timeout_ms == -1 else body.rebalance_timeout_ms,
            before.rebalance_timeout_ms,
        ),
        server_assignor=_new(body.server_assignor, before.server_assignor),
        topic_names=_new(
            None if body.subscribed_topic_names is None else frozenset(body.subscribed_topic_names),
            before.topic_names,
        ),
        topic_regex=_new(body.subscribed_topic_regex, before.topic_regex),
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )
    update_member(draft, before, said, context)
    after = reconcile(draft, said.member_id, reported, context)
    response = ConsumerGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.member_epoch,
        heartbeat_interval_ms=context.heartbeat_interval_ms,
    )
    is_full = (
        body.rebalance_timeout_ms != -1
        and (body.subscribed_topic_names is not None or body.subscribed_topic_regex is not None)
        and body.topic_partitions is not None
    )
    if body.member_epoch == JOIN_EPOCH or is_full or after.assigned != before.assigned:
        response.assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(after.assigned[topic_id]))
                for topic_id in sorted(after.assigned)
            ]
        )
    return response


def leave(
    draft: Draft, body: ConsumerGroupHeartbeatRequest, context: StepContext
) -> ConsumerGroupMember:
    """Remove a member, or mark a static one as temporarily gone; return it as it was."""
    state = draft.state
    if body.instance_id is None:
        member = state.member(body.member_id)
    else:
        member = check_static_member(state, body.instance_id, body.member_id)
        if body.member_epoch == LEAVE_STATIC_EPOCH:
            # It may come back with epoch 0, and has had its partitions for longer (KIP-1251).
            assigned = {
                topic_id: dict.fromkeys(numbers, JOIN_EPOCH)
                for topic_id, numbers in member.assigned.items()
            }
            draft.put_current(
                replace(
                    member,
                    member_epoch=LEAVE_STATIC_EPOCH,
                    assigned=assigned,
                    pending_revocation={},
                )
            )
            return member
    remove(draft, [member.member_id], context)
    return member


def _find(
    draft: Draft,
    body: ConsumerGroupHeartbeatRequest,
    member_id: str,
    reported: PartitionsByTopic | None,
    size_max: int,
) -> ConsumerGroupMember:
    """Return the known member, a new one, or the successor of a static one.

    Raises GroupError for an unknown member or a wrong epoch.
    """
    state = draft.state
    joins = body.member_epoch == JOIN_EPOCH
    known = state.members.get(member_id)
    if known is None and len(state.members) >= size_max:
        raise GroupError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {size_max} members.",
        )
    if body.instance_id is None:
        if known is None and joins:
            return ConsumerGroupMember(member_id=member_id)
        member = state.member(member_id)
        _check_epoch(member, body.member_epoch, reported)
        return member
    if not joins:
        member = check_static_member(state, body.instance_id, member_id)
        _check_epoch(member, body.member_epoch, reported)
        return member
    holder = state.static_member(body.instance_id)
    if holder is None:
        return known or ConsumerGroupMember(member_id=member_id)
    if holder.classic is None and holder.member_epoch != LEAVE_STATIC_EPOCH:
        raise GroupError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {body.instance_id} cannot join the group"
            f" because the instance id is owned by {holder.member_id} member.",
        )
    return replace_static(draft, holder, member_id)


def _check_epoch(
    member: ConsumerGroupMember, epoch: int, reported: PartitionsByTopic | None
) -> None:
    """Raise GroupError for an epoch that is ahead, or behind by more than one lost answer."""
    if epoch in (JOIN_EPOCH, member.member_epoch):
        return
    relation = "greater" if epoch > member.member_epoch else "smaller"
    if (
        epoch < member.member_epoch
        and epoch == member.previous_member_epoch
        and reported is not None
        and all(
            numbers <= member.assigned.get(topic_id, {}).keys()
            for topic_id, numbers in reported.items()
        )
    ):
        return
    raise GroupError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by"
        f" the group coordinator ({member.member_epoch}). The member must abandon all its"
        " partitions and rejoin.",
    )


def _reported(topics: list[TopicPartitions] | None) -> PartitionsByTopic | None:
    if topics is None:
        return None
    return partitions_by_topic((topic.topic_id, topic.partitions) for topic in topics)


def _new(said: _T | None, known: _T) -> _T:
    return known if said is None else said


def _invalid(message: str) -> GroupError:
    return GroupError(ErrorCode.INVALID_REQUEST, message)
