"""Applies one record of `__consumer_offsets` to the groups in memory.

Loading a partition applies all of its records. A commit applies its own, so memory always holds
what a restart would load. Compaction keeps the newest record of each key. So any record of a group
may come first, and a tombstone may name what does not exist.

Offsets of a transaction become pending, and its marker ends them (broker/groups/pending.py).
Records of other types do not wait for a marker, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from broker.groups.classic.classic_group import ClassicGroup
from broker.groups.consumer.consumer_group import ConsumerGroup
from broker.groups.group import GroupKind, Host
from broker.groups.registry import Registry
from protocol.errors import ErrorCode
from protocol.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from storage.files.filenames import OFFSET_MAX
from storage.producers.producer_state import NO_PRODUCER_ID

Apply = Callable[[Registry, Host, Any, Any], None]


def apply_offset(
    registry: Registry,
    host: Host,
    key: OffsetCommitKey,
    value: OffsetCommitValue | None,
    record_offset: int,
    producer_id: int = NO_PRODUCER_ID,
) -> None:
    """Apply an offset, which is pending if it has a producer.

    Creates an empty classic group for it if the id is new (KIP-211).
    """
    if value is not None and key.group not in registry.groups:
        registry.put(ClassicGroup(key.group, host))
    if producer_id == NO_PRODUCER_ID:
        registry.offsets.apply(key, value, record_offset)
    else:
        registry.offsets.apply_pending(key, value, record_offset, producer_id)


def end_transaction(
    registry: Registry, producer_id: int, *, is_commit: bool, marker_offset: int = OFFSET_MAX
) -> None:
    """Apply a marker; groups that have only existed for offsets which it drops are removed.

    Unless it is applied before what comes behind it, `marker_offset` says where it is.
    """
    for group_id in registry.offsets.end_transaction(
        producer_id, is_commit=is_commit, marker_offset=marker_offset
    ):
        group = registry.get(group_id)
        if (
            isinstance(group, ClassicGroup)
            and group.holds_only_offsets
            and not registry.offsets.has_group(group_id)
        ):
            registry.remove(group_id, ErrorCode.GROUP_ID_NOT_FOUND)


def apply_generation(
    registry: Registry, host: Host, key: GroupMetadataKey, value: GroupMetadataValue | None
) -> None:
    """Apply a generation of a classic group, or its tombstone."""
    if value is not None:
        registry.put(ClassicGroup.from_record(key.group, value, host))
        return
    group = registry.get(key.group)
    if group is not None and group.kind is GroupKind.CLASSIC:
        registry.remove(key.group, ErrorCode.NOT_COORDINATOR)


def apply_to_consumer_group(registry: Registry, host: Host, key: Any, value: Any) -> None:
    """Apply a record of a consumer group: the first creates the group, its tombstone removes it.

    A classic group with the same id is older: its tombstone was compacted away, or comes later in
    the same batch.
    """
    group = registry.get(key.group_id)
    if not isinstance(group, ConsumerGroup):
        if value is None:
            return
        group = ConsumerGroup(key.group_id, host)
        registry.put(group)
    if value is None and isinstance(key, ConsumerGroupMetadataKey):
        registry.remove(key.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
    else:
        group.state.apply(key, value)


def pass_over(registry: Registry, host: Host, key: Any, value: Any) -> None:
    """Ignore topic metadata that Apache Kafka 4.0 wrote: `metadata_hash` has replaced it."""


# All but offsets, which need more than key and value.
APPLY: Final[Mapping[type, Apply]] = {
    GroupMetadataKey: apply_generation,
    ConsumerGroupMetadataKey: apply_to_consumer_group,
    ConsumerGroupPartitionMetadataKey: pass_over,
    ConsumerGroupMemberMetadataKey: apply_to_consumer_group,
    ConsumerGroupTargetAssignmentMetadataKey: apply_to_consumer_group,
    ConsumerGroupTargetAssignmentMemberKey: apply_to_consumer_group,
    ConsumerGroupCurrentMemberAssignmentKey: apply_to_consumer_group,
    ConsumerGroupRegularExpressionKey: apply_to_consumer_group,
}
