"""A draft: the next state of a consumer group, and the records that lead to it.

An operation works on a copy of the group's state and changes it by adding records. When the
records are in the log, the draft's state becomes the group's. If the write fails, the draft is
dropped and the group is unchanged.
"""

from __future__ import annotations

from typing import Any

from broker.groups.consumer.assignors import PartitionsByTopic
from broker.groups.consumer.consumer_member import Assigned, ClassicSide, ConsumerGroupMember
from broker.groups.consumer.state import ConsumerState
from broker.groups.consumer.subscriptions import ResolvedRegex
from broker.groups.group import GroupRecord
from protocol.group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentPartitions,
    TargetPartitions,
)

# Of the cluster metadata that the expression was resolved with; not used here.
RESOLVED_VERSION = 0


class Draft:
    """A copy of a state, and the records that have changed it."""

    __slots__ = ("records", "state")

    def __init__(self, state: ConsumerState) -> None:
        self.state = state.copy()
        self.records: list[GroupRecord] = []

    def put(self, key: Any, value: Any) -> None:
        """Add a record and apply it."""
        self.records.append((key, value))
        self.state.apply(key, value)

    def put_epoch(self, epoch: int, metadata_hash: int) -> None:
        """Write the group's epoch; it needs a new target assignment."""
        self.put(
            ConsumerGroupMetadataKey(group_id=self.state.group_id),
            ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
        )

    def put_member(self, member: ConsumerGroupMember) -> None:
        """Write a member's metadata."""
        self.put(
            ConsumerGroupMemberMetadataKey(
                group_id=self.state.group_id, member_id=member.member_id
            ),
            ConsumerGroupMemberMetadataValue(
                instance_id=member.instance_id,
                rack_id=member.rack_id,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=sorted(member.topic_names),
                subscribed_topic_regex=member.topic_regex,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                server_assignor=member.server_assignor,
                classic_member_metadata=_classic_metadata(member.classic),
            ),
        )

    def put_target(self, member_id: str, target: PartitionsByTopic) -> None:
        """Write the target of a member."""
        self.put(
            ConsumerGroupTargetAssignmentMemberKey(
                group_id=self.state.group_id, member_id=member_id
            ),
            ConsumerGroupTargetAssignmentMemberValue(
                topic_partitions=[
                    TargetPartitions(topic_id=topic_id, partitions=sorted(target[topic_id]))
                    for topic_id in sorted(target)
                ]
            ),
        )

    def put_target_epoch(self, epoch: int, now_ms: int) -> None:
        """Write the epoch of the targets."""
        self.put(
            ConsumerGroupTargetAssignmentMetadataKey(group_id=self.state.group_id),
            ConsumerGroupTargetAssignmentMetadataValue(
                assignment_epoch=epoch, assignment_timestamp=now_ms
            ),
        )

    def put_current(self, member: ConsumerGroupMember) -> None:
        """Write a member's current assignment."""
        self.put(
            ConsumerGroupCurrentMemberAssignmentKey(
                group_id=self.state.group_id, member_id=member.member_id
            ),
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=member.member_epoch,
                previous_member_epoch=member.previous_member_epoch,
                state=member.state,
                assigned_partitions=_topic_partitions(member.assigned),
                partitions_pending_revocation=_topic_partitions(member.pending_revocation),
            ),
        )

    def put_regex(self, pattern: str, resolved: ResolvedRegex | None) -> None:
        """Write the topics that an expression matches; None if no member uses it."""
        self.put(
            ConsumerGroupRegularExpressionKey(
                group_id=self.state.group_id, regular_expression=pattern
            ),
            None
            if resolved is None
            else ConsumerGroupRegularExpressionValue(
                topics=sorted(resolved.topics),
                version=RESOLVED_VERSION,
                timestamp=resolved.timestamp_ms,
            ),
        )

    def remove_member(self, member_id: str) -> None:
        """Write the tombstones of a member."""
        group_id = self.state.group_id
        for key in (
            ConsumerGroupCurrentMemberAssignmentKey,
            ConsumerGroupTargetAssignmentMemberKey,
            ConsumerGroupMemberMetadataKey,
        ):
            self.put(key(group_id=group_id, member_id=member_id), None)

    def remove_group(self) -> None:
        """Write the tombstones of the group and its members."""
        for member_id in tuple(self.state.members):
            self.remove_member(member_id)
        group_id = self.state.group_id
        self.put(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)
        for pattern in tuple(self.state.regexes):
            self.put_regex(pattern, None)
        self.put(ConsumerGroupMetadataKey(group_id=group_id), None)


def _topic_partitions(assigned: Assigned) -> list[CurrentPartitions]:
    return [
        CurrentPartitions(
            topic_id=topic_id,
            partitions=sorted(assigned[topic_id]),
            assignment_epochs=[
                assigned[topic_id][partition] for partition in sorted(assigned[topic_id])
            ],
        )
        for topic_id in sorted(assigned)
    ]


def _classic_metadata(classic: ClassicSide | None) -> ClassicMemberMetadata | None:
    if classic is None:
        return None
    return ClassicMemberMetadata(
        session_timeout_ms=classic.session_timeout_ms,
        supported_protocols=[
            ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols
        ],
    )
