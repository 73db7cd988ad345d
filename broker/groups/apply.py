"""What each record of `__consumer_offsets` does to the groups in memory.

Records are applied when a partition is loaded, and those of offsets also when they are committed:
what is in memory is what a restart would find. Compaction keeps the newest record of each key, so
any of a group's records may come first, and tombstones may come of what does not exist.
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

Apply = Callable[[Registry, Host, Any, Any], None]


def apply_offset(
    registry: Registry, host: Host, key: OffsetCommitKey, value: OffsetCommitValue | None
) -> None:
    """Take an offset in; a group that has nothing but offsets is a name for them (KIP-211)."""
    if value is not None and key.group not in registry.groups:
        registry.put(ClassicGroup(key.group, host))
    registry.offsets.apply(key, value)


def apply_generation(
    registry: Registry, host: Host, key: GroupMetadataKey, value: GroupMetadataValue | None
) -> None:
    """Take a generation of a classic group in, or its end."""
    if value is not None:
        registry.put(ClassicGroup.from_record(key.group, value, host))
        return
    group = registry.get(key.group)
    if group is not None and group.kind is GroupKind.CLASSIC:
        registry.remove(key.group, ErrorCode.NOT_COORDINATOR)


def apply_to_consumer_group(registry: Registry, host: Host, key: Any, value: Any) -> None:
    """Take a record of a consumer group in: its first one makes it, its own tombstone ends it.

    A group of the other kind that stands under the id is older: what ended it was compacted away,
    or comes later in the same batch.
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
    """Leave out what Apache Kafka 4.0 wrote of topics: the digest has taken its place."""


APPLY: Final[Mapping[type, Apply]] = {
    OffsetCommitKey: apply_offset,
    GroupMetadataKey: apply_generation,
    ConsumerGroupMetadataKey: apply_to_consumer_group,
    ConsumerGroupPartitionMetadataKey: pass_over,
    ConsumerGroupMemberMetadataKey: apply_to_consumer_group,
    ConsumerGroupTargetAssignmentMetadataKey: apply_to_consumer_group,
    ConsumerGroupTargetAssignmentMemberKey: apply_to_consumer_group,
    ConsumerGroupCurrentMemberAssignmentKey: apply_to_consumer_group,
    ConsumerGroupRegularExpressionKey: apply_to_consumer_group,
}
