"""One ConsumerGroupHeartbeat: what it makes of a group, as records in a draft, and its answer.

In the order of Kafka's GroupMetadataManager: who is it, what does it say, does the group need a
new epoch for that, does the epoch need new targets, and how far does this member get now. A
heartbeat that says nothing new in a group that has settled makes no record.

Targets are found at once, at the heartbeat that needs them: there is no interval between them
(Kafka's group.consumer.assignment.interval.ms). Those of a large group are left to the group, which
has them found in the pool (consumer/targets.py).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple, TypeVar

from broker.groups.consumer.assignors import Partitions
from broker.groups.consumer.consumer_member import ConsumerGroupMember
from broker.groups.consumer.reconciliation import Target, next_step
from broker.groups.consumer.state import ConsumerState, Draft, regexes_of
from broker.groups.consumer.subscriptions import metadata_hash, resolve, topic_ids, topic_names
from broker.groups.consumer.targets import put_targets, search, topics_of
from broker.groups.errors import GroupError
from broker.groups.group import Caller
from broker.topics import Topics
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

WAITING_EPOCH = 1  # as in Kafka 4.3, of members that wait for a first target
FIRST_EPOCH = 2
OWN_MEMBER_ID_VERSION = 1  # from here on members make their ids themselves (KIP-1082)


class Surroundings(NamedTuple):
    """What a step needs to know beside the group and the request."""

    topics: Topics
    topics_changed: bool  # since the group last looked
    now_ms: int
    assignors: Collection[str]  # by preference: the first is taken where nobody asks for one
    size_max: int
    heartbeat_interval_ms: int


def check(body: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    """Refuse a request that no group could serve. Raises GroupError, worded as Kafka's."""
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


def follow(
    draft: Draft,
    body: ConsumerGroupHeartbeatRequest,
    member_id: str,
    caller: Caller,
    around: Surroundings,
) -> ConsumerGroupHeartbeatResponse:
    """Let a member join or go on; `member_id` is the request's, or one made for it."""
    reported = _reported(body.topic_partitions)
    before = _find(draft, body, member_id, reported, around.size_max)
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
    settle(draft, before, said, around)
    after = reconcile(draft, said.member_id, reported, around)
    response = ConsumerGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.member_epoch,
        heartbeat_interval_ms=around.heartbeat_interval_ms,
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


def settle(
    draft: Draft, before: ConsumerGroupMember, said: ConsumerGroupMember, around: Surroundings
) -> None:
    """Write what a member says, a new epoch if that or the topics ask for one, and targets."""
    state = draft.state
    is_new = said.member_id not in state.members
    if is_new or said != before:
        draft.put_member(said)
    changed = (
        state.epoch == 0
        or is_new
        or said.topic_names != before.topic_names
        or said.topic_regex != before.topic_regex
    )
    _refresh_regexes(draft, around)
    hash_now = metadata_hash(topics_of(state), around.topics)
    if changed or hash_now != state.metadata_hash:
        draft.put_epoch(state.epoch + 1 if state.epoch else FIRST_EPOCH, hash_now)
    if state.epoch > state.target_epoch:
        wanted = search(state, around.topics, around.assignors)
        if wanted.is_small:
            put_targets(draft, state, wanted.run(), around.now_ms)


def reconcile(
    draft: Draft, member_id: str, reported: Partitions | None, around: Surroundings
) -> ConsumerGroupMember:
    """Move a member one step towards its target; return it as it is then."""
    state = draft.state
    member = state.members[member_id]
    target = Target(
        epoch=state.target_epoch or WAITING_EPOCH,
        partitions=state.targets.get(member_id, {}),
        subscribed=topic_ids(topic_names(member, state.regexes), around.topics),
        is_free=state.is_free,
    )
    after = next_step(member, target, reported)
    if after != member:
        draft.put_current(after)
    return after


def leave(
    draft: Draft, body: ConsumerGroupHeartbeatRequest, around: Surroundings
) -> ConsumerGroupMember:
    """Let a member go, for good or, a static one, for a while; return it as it was."""
    state = draft.state
    if body.instance_id is None:
        member = state.member(body.member_id)
    else:
        member = static_of(state, body.instance_id, body.member_id)
        if body.member_epoch == LEAVE_STATIC_EPOCH:
            draft.put_current(
                replace(member, member_epoch=LEAVE_STATIC_EPOCH, pending_revocation={})
            )
            return member
    remove(draft, [member.member_id], around)
    return member


def remove(draft: Draft, member_ids: Collection[str], around: Surroundings) -> None:
    """Take members out: the group moves to an epoch without them."""
    for member_id in member_ids:
        draft.remove_member(member_id)
    _drop_unused_regexes(draft)
    state = draft.state
    draft.put_epoch(state.epoch + 1, metadata_hash(topics_of(state), around.topics))


def _find(
    draft: Draft,
    body: ConsumerGroupHeartbeatRequest,
    member_id: str,
    reported: Partitions | None,
    size_max: int,
) -> ConsumerGroupMember:
    """Return the member as the group knows it, a new one, or one that takes a static one's place.

    Raises GroupError for one that is not known or not up to date.
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
        member = static_of(state, body.instance_id, member_id)
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
    return take_place(draft, holder, member_id)


def take_place(draft: Draft, holder: ConsumerGroupMember, member_id: str) -> ConsumerGroupMember:
    """Give what a static member has to the one that comes in its place under a new id."""
    target = draft.state.targets.get(holder.member_id, {})
    successor = replace(holder, member_id=member_id, member_epoch=0, previous_member_epoch=0)
    draft.remove_member(holder.member_id)
    draft.put_member(successor)
    draft.put_target(member_id, target)
    draft.put_current(successor)
    return successor


def static_of(state: ConsumerState, instance_id: str, member_id: str) -> ConsumerGroupMember:
    """Return the static member, if it is the one that asks."""
    member = state.static_member(instance_id)
    if member is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise GroupError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member"
            f" {member.member_id}.",
        )
    return member


def _check_epoch(member: ConsumerGroupMember, epoch: int, reported: Partitions | None) -> None:
    """Refuse a member that is ahead of us, or behind by more than one lost answer."""
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


def _refresh_regexes(draft: Draft, around: Surroundings) -> None:
    """Look again at what expressions match, where topics have changed since, and drop the rest."""
    _drop_unused_regexes(draft)
    state = draft.state
    for pattern in sorted(regexes_of(state.members.values())):
        known = state.regexes.get(pattern)
        if known is None or around.topics_changed:
            resolved = resolve(pattern, around.topics, around.now_ms)
            if known is None or known.topics != resolved.topics:
                draft.put_regex(pattern, resolved)


def _drop_unused_regexes(draft: Draft) -> None:
    used = set(regexes_of(draft.state.members.values()))
    for pattern in sorted(draft.state.regexes.keys() - used):
        draft.put_regex(pattern, None)


def _reported(topics: list[TopicPartitions] | None) -> Partitions | None:
    if topics is None:
        return None
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics}


def _new(said: _T | None, known: _T) -> _T:
    return known if said is None else said


def _invalid(message: str) -> GroupError:
    return GroupError(ErrorCode.INVALID_REQUEST, message)
