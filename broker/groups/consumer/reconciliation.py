"""Reconciles a member with its target assignment: one step per heartbeat.

A partition never has two owners (KIP-848). A member first revokes the partitions that are not in
its target. It reports what it still owns. When it has revoked them, it moves to the target's epoch
and gets its new partitions, as far as other members have released them.

    state                    waits for                    then
    STABLE                   a new target                 any of the three states
    UNREVOKED_PARTITIONS     its own revocation           as if it were STABLE
    UNRELEASED_PARTITIONS    the release by others        STABLE when it has the whole target

Nothing here knows groups or records: `next_step` is a function of the member, its target and the
present owners.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from broker.groups.consumer.assignors import PartitionsByTopic
from broker.groups.consumer.consumer_member import Assigned, ConsumerGroupMember
from protocol.group_records import MemberState


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target of a member in `epoch`, and the topics that it subscribes to now."""

    epoch: int
    partitions: PartitionsByTopic
    subscribed: Collection[bytes]
    is_free: Callable[[bytes, int], bool]  # no member owns it or has yet to revoke it


def next_step(
    member: ConsumerGroupMember, target: Target, reported: PartitionsByTopic | None
) -> ConsumerGroupMember:
    """Return the member after this heartbeat; the same object if nothing changes.

    `reported` are the partitions that the member says it owns; None if it did not say.
    """
    match member.state:
        case MemberState.STABLE if member.member_epoch == target.epoch:
            return _without_unsubscribed(member, target, reported)
        case MemberState.UNREVOKED_PARTITIONS if _still_owns(reported, member.pending_revocation):
            return _without_unsubscribed(member, target, reported)
        case _:
            return _towards(member, target, reported)


def _without_unsubscribed(
    member: ConsumerGroupMember, target: Target, reported: PartitionsByTopic | None
) -> ConsumerGroupMember:
    """Revoke partitions of unsubscribed topics, before a new target does."""
    gone = {
        topic_id: numbers
        for topic_id, numbers in member.assigned.items()
        if topic_id not in target.subscribed
    }
    if not gone:
        return member
    kept = {
        topic_id: numbers for topic_id, numbers in member.assigned.items() if topic_id not in gone
    }
    to_revoke = _merged(member.pending_revocation, gone)
    if _still_owns(reported, to_revoke):
        return _revoking(member, to_revoke, kept)
    return replace(member, previous_member_epoch=member.member_epoch, assigned=kept)


def _towards(
    member: ConsumerGroupMember, target: Target, reported: PartitionsByTopic | None
) -> ConsumerGroupMember:
    """Move the member towards its target, as far as revocations allow."""
    wanted = {
        topic_id: numbers
        for topic_id, numbers in target.partitions.items()
        if topic_id in target.subscribed
    }
    kept: dict[bytes, dict[int, int]] = {}
    to_revoke: dict[bytes, dict[int, int]] = {}
    for topic_id, assigned in member.assigned.items():
        numbers = wanted.get(topic_id, frozenset())
        for partition, epoch in assigned.items():
            into = kept if partition in numbers else to_revoke
            into.setdefault(topic_id, {})[partition] = epoch
    if to_revoke and _still_owns(reported, to_revoke):
        return _revoking(member, to_revoke, kept)
    waits = False
    for topic_id, numbers in wanted.items():
        has = kept.get(topic_id, {})
        # Partitions that the member has just revoked are free for it.
        own = member.pending_revocation.get(topic_id, {})
        for partition in numbers:
            if partition in has:
                continue
            if partition in own or target.is_free(topic_id, partition):
                kept.setdefault(topic_id, {})[partition] = target.epoch
            else:
                waits = True
    return replace(
        member,
        state=MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE,
        previous_member_epoch=member.member_epoch,
        member_epoch=target.epoch,
        assigned=kept,
        pending_revocation={},
    )


def _revoking(
    member: ConsumerGroupMember, to_revoke: Assigned, kept: Assigned
) -> ConsumerGroupMember:
    """Keep the member in its epoch until it has revoked `to_revoke`."""
    return replace(
        member,
        state=MemberState.UNREVOKED_PARTITIONS,
        previous_member_epoch=member.member_epoch,
        assigned=kept,
        pending_revocation=to_revoke,
    )


def _still_owns(reported: PartitionsByTopic | None, to_revoke: Assigned) -> bool:
    """Whether the member owns any of `to_revoke`; assumed if it did not report."""
    if reported is None:
        return True
    return any(
        partition in numbers
        for topic_id, numbers in to_revoke.items()
        for partition in reported.get(topic_id, ())
    )


def _merged(first: Assigned, second: Assigned) -> dict[bytes, Mapping[int, int]]:
    return {
        topic_id: {**first.get(topic_id, {}), **second.get(topic_id, {})}
        for topic_id in {**first, **second}
    }
