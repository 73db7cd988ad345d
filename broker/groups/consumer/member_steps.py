"""The steps of a consumer group's members, in either protocol, as records in a draft.

    update_member    writes its metadata; raises the epoch if the member or the topics have
                     changed, and finds targets for it
    reconcile        moves it one step towards its target
    replace_static   gives a static member's state to its successor
    remove           removes members, in a new epoch

The request that needs targets finds them at once, without an interval (Kafka's
group.consumer.assignment.interval.ms). For a large group, a thread finds them later
(consumer/targets.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final, NamedTuple

from broker.groups.consumer.assignors import PartitionsByTopic
from broker.groups.consumer.consumer_member import ConsumerGroupMember
from broker.groups.consumer.draft import Draft
from broker.groups.consumer.reconciliation import Target, next_step
from broker.groups.consumer.state import ConsumerState, regexes_of
from broker.groups.consumer.subscriptions import metadata_hash, resolve, topic_ids, topic_names
from broker.groups.consumer.targets import put_targets, search, topics_of
from broker.groups.errors import GroupError
from broker.topics import Topics
from protocol.errors import ErrorCode

NAMES_PER_STEP: Final = 5_000  # of topics, that a step holds against expressions: about 4 ms
WAITING_EPOCH = 1  # as in Kafka 4.3: the epoch of members without a first target
FIRST_EPOCH = 2


class StepContext(NamedTuple):
    """What a step needs beside the group and the request."""

    topics: Topics
    topics_changed: bool  # or rights to see them, since the last heartbeat that looked
    now_ms: int
    assignors: Collection[str]  # by preference: the first is the default
    size_max: int
    heartbeat_interval_ms: int
    resolved: set[str]  # expressions, since `topics_changed`; the step adds some of the others
    may_describe: Callable[[str], bool] | None = None  # what an expression may match; None: all


def update_member(
    draft: Draft, before: ConsumerGroupMember, said: ConsumerGroupMember, context: StepContext
) -> None:
    """Write a member's metadata and, if it or the topics have changed, epoch and targets."""
    state = draft.state
    is_new = said.member_id not in state.members
    if is_new or said != before:
        draft.put_member(said)
    changed = _refresh_regexes(draft, context) or (
        state.epoch == 0
        or is_new
        or said.topic_names != before.topic_names
        or said.topic_regex != before.topic_regex
    )
    hash_now = metadata_hash(topics_of(state), context.topics)
    if changed or hash_now != state.metadata_hash:
        draft.put_epoch(state.epoch + 1 if state.epoch else FIRST_EPOCH, hash_now)
    if state.epoch > state.target_epoch:
        wanted = search(state, context.topics, context.assignors)
        if wanted.is_small:
            put_targets(draft, state, wanted.run(), context.now_ms)


def reconcile(
    draft: Draft, member_id: str, reported: PartitionsByTopic | None, context: StepContext
) -> ConsumerGroupMember:
    """Move a member one step towards its target; return the new member."""
    state = draft.state
    member = state.members[member_id]
    target = Target(
        epoch=state.target_epoch or WAITING_EPOCH,
        partitions=state.targets.get(member_id, {}),
        subscribed=topic_ids(topic_names(member, state.regexes), context.topics),
        is_free=state.is_free,
    )
    after = next_step(member, target, reported)
    if after != member:
        draft.put_current(after)
    return after


def remove(draft: Draft, member_ids: Collection[str], context: StepContext) -> None:
    """Remove members, in a new epoch."""
    for member_id in member_ids:
        draft.remove_member(member_id)
    _drop_unused_regexes(draft)
    state = draft.state
    draft.put_epoch(state.epoch + 1, metadata_hash(topics_of(state), context.topics))


def replace_static(
    draft: Draft, holder: ConsumerGroupMember, member_id: str
) -> ConsumerGroupMember:
    """Replace a static member by its successor, which has a new id; return the successor."""
    target = draft.state.targets.get(holder.member_id, {})
    successor = replace(holder, member_id=member_id, member_epoch=0, previous_member_epoch=0)
    draft.remove_member(holder.member_id)
    draft.put_member(successor)
    draft.put_target(member_id, target)
    draft.put_current(successor)
    return successor


def check_static_member(
    state: ConsumerState, instance_id: str, member_id: str
) -> ConsumerGroupMember:
    """Return the static member. Raises GroupError if it is unknown or has another id."""
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


def _refresh_regexes(draft: Draft, context: StepContext) -> bool:
    """Resolve new expressions, and others if topics or rights have changed; remove unused ones.

    Returns whether an expression that was resolved before matches other topics now.
    """
    _drop_unused_regexes(draft)
    state, left, has_changed = draft.state, NAMES_PER_STEP, False
    for pattern in sorted(regexes_of(state.members.values())):
        known = state.regexes.get(pattern)
        if known is not None:
            is_due = context.topics_changed and pattern not in context.resolved
            if not is_due or left <= 0:
                continue
        found = resolve(pattern, context.topics, context.now_ms, context.may_describe)
        left -= len(context.topics.all())
        if context.topics_changed:
            context.resolved.add(pattern)
        if known is None or known.topics != found.topics:
            draft.put_regex(pattern, found)
            has_changed |= known is not None
    return has_changed


def _drop_unused_regexes(draft: Draft) -> None:
    used = set(regexes_of(draft.state.members.values()))
    for pattern in sorted(draft.state.regexes.keys() - used):
        draft.put_regex(pattern, None)
