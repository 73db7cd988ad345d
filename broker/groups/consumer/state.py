"""The state of a consumer group: exactly what its records in the log say.

Only `apply` changes it: with the records of the log when the group is loaded, and with the records
of an operation, on a copy, before they are written (consumer/draft.py).

    key                                   value
    ConsumerGroupMetadata                 group epoch, digest of the topics
    ConsumerGroupMemberMetadata           the member's subscription and client
    ConsumerGroupTargetAssignmentMember   the member's target
    ConsumerGroupTargetAssignmentMetadata the epoch of the targets
    ConsumerGroupCurrentMemberAssignment  the member's partitions, epoch and state
    ConsumerGroupRegularExpression        the topics that an expression matches

A member exists from its first record, of whichever kind: compaction keeps the last record of each
key, so they may come in any order. The tombstone of its metadata removes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from broker.groups.consumer.assignors import PartitionsByTopic
from broker.groups.consumer.consumer_member import Assigned, ClassicSide, ConsumerGroupMember
from broker.groups.consumer.subscriptions import NO_HASH, MemberSubscription, ResolvedRegex
from broker.groups.errors import GroupError
from protocol.errors import ErrorCode
from protocol.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    CurrentPartitions,
    MemberState,
)


class ConsumerState:
    """Epochs, members, targets, expressions, and the owners of partitions, which follow."""

    __slots__ = (
        "epoch",
        "group_id",
        "members",
        "metadata_hash",
        "owners",
        "regexes",
        "static_ids",
        "subscriptions",
        "target_epoch",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = NO_HASH
        self.target_epoch = 0
        self.members: dict[str, ConsumerGroupMember] = {}
        self.targets: dict[str, PartitionsByTopic] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.static_ids: dict[str, str] = {}  # instance id -> member id
        self.owners: dict[tuple[bytes, int], str] = {}  # including those with a pending revocation
        # How many members have each. Most have the same, so nothing need ask every member.
        self.subscriptions: dict[MemberSubscription, int] = {}

    def copy(self) -> ConsumerState:
        """Return an independent copy."""
        other = ConsumerState(self.group_id)
        other.epoch = self.epoch
        other.metadata_hash = self.metadata_hash
        other.target_epoch = self.target_epoch
        other.members = dict(self.members)
        other.targets = dict(self.targets)
        other.regexes = dict(self.regexes)
        other.static_ids = dict(self.static_ids)
        other.owners = dict(self.owners)
        other.subscriptions = dict(self.subscriptions)
        return other

    def apply(self, key: Any, value: Any) -> None:
        """Apply one record; `value` is None for a tombstone."""
        match key:
            case ConsumerGroupMetadataKey():
                self.epoch = value.epoch if value else 0
                self.metadata_hash = value.metadata_hash if value else NO_HASH
            case ConsumerGroupMemberMetadataKey(member_id=member_id):
                self._member_said(member_id, value)
            case ConsumerGroupTargetAssignmentMetadataKey():
                self.target_epoch = value.assignment_epoch if value else 0
            case ConsumerGroupTargetAssignmentMemberKey(member_id=member_id):
                if value is None:
                    self.targets.pop(member_id, None)
                else:
                    self.targets[member_id] = {
                        topic.topic_id: frozenset(topic.partitions)
                        for topic in value.topic_partitions
                    }
            case ConsumerGroupCurrentMemberAssignmentKey(member_id=member_id):
                self._member_has(member_id, value)
            case ConsumerGroupRegularExpressionKey(regular_expression=pattern):
                if value is None:
                    self.regexes.pop(pattern, None)
                else:
                    self.regexes[pattern] = ResolvedRegex(frozenset(value.topics), value.timestamp)

    def is_free(self, topic_id: bytes, partition: int) -> bool:
        """Whether no member owns a partition or has yet to revoke it."""
        return (topic_id, partition) not in self.owners

    def member(self, member_id: str) -> ConsumerGroupMember:
        """Return a member. Raises GroupError if it does not exist."""
        member = self.members.get(member_id)
        if member is None:
            raise GroupError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        return member

    def static_member(self, instance_id: str) -> ConsumerGroupMember | None:
        """Return the member with that instance id."""
        return self.members.get(self.static_ids.get(instance_id, ""))

    def _member_said(self, member_id: str, value: ConsumerGroupMemberMetadataValue | None) -> None:
        before = self.members.get(member_id)
        known_as = before.instance_id if before is not None else None
        if known_as and self.static_ids.get(known_as) == member_id:
            del self.static_ids[known_as]  # it is gone, or may be another instance now
        if value is None:
            if before is not None:
                self._own(before, before.assigned, owner=None)
                self._own(before, before.pending_revocation, owner=None)
                del self.members[member_id]
                self._count(before, -1)
            return
        classic = value.classic_member_metadata
        after = replace(
            before or ConsumerGroupMember(member_id=member_id),
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            topic_names=frozenset(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex or "",
            classic=None
            if classic is None
            else ClassicSide(
                classic.session_timeout_ms,
                tuple((spoken.name, spoken.metadata) for spoken in classic.supported_protocols),
            ),
        )
        self.members[member_id] = after
        if before is not None:
            self._count(before, -1)
        self._count(after, 1)
        if value.instance_id:
            self.static_ids[value.instance_id] = member_id

    def _count(self, member: ConsumerGroupMember, change: int) -> None:
        subscription = MemberSubscription(member.topic_names, member.topic_regex)
        count = self.subscriptions.get(subscription, 0) + change
        if count:
            self.subscriptions[subscription] = count
        else:
            del self.subscriptions[subscription]

    def _member_has(
        self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        before = self.members.get(member_id)
        if before is None:
            if value is None:
                return
            before = ConsumerGroupMember(member_id=member_id)
            self._count(before, 1)
        after = replace(
            before,
            member_epoch=value.member_epoch if value else 0,
            previous_member_epoch=value.previous_member_epoch if value else -1,
            state=MemberState(value.state) if value else MemberState.STABLE,
            assigned=_assigned(value.assigned_partitions, value.member_epoch) if value else {},
            pending_revocation=_assigned(value.partitions_pending_revocation, value.member_epoch)
            if value
            else {},
        )
        for member, owner in ((before, None), (after, member_id)):
            self._own(member, member.assigned, owner=owner)
            self._own(member, member.pending_revocation, owner=owner)
        self.members[member_id] = after

    def _own(self, member: ConsumerGroupMember, assigned: Assigned, *, owner: str | None) -> None:
        for topic_id, numbers in assigned.items():
            for partition in numbers:
                if owner is not None:
                    self.owners[topic_id, partition] = owner
                elif self.owners.get((topic_id, partition)) == member.member_id:
                    del self.owners[topic_id, partition]


def _assigned(topics: Iterable[CurrentPartitions], member_epoch: int) -> Assigned:
    """Return partitions with their epochs; before Kafka 4.3, all have the member's epoch.

    That of a static member which has left for a while is negative, and counts as 0.
    """
    return {
        topic.topic_id: dict(
            zip(
                topic.partitions,
                topic.assignment_epochs or [max(member_epoch, 0)] * len(topic.partitions),
                strict=True,
            )
        )
        for topic in topics
    }


def regexes_of(members: Iterable[ConsumerGroupMember]) -> Iterator[str]:
    """Yield each expression that members subscribe with, once."""
    yield from dict.fromkeys(member.topic_regex for member in members if member.topic_regex)
