"""The records of consumer groups, as they come back from the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker.groups.consumer.consumer_group import ConsumerGroup
from broker.groups.group import Host
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
)


def replay(registry: Registry, host: Host, key: Any, value: Any) -> None:
    """Take a record in. A group is there from its first record on; its own tombstone ends it.

    Compaction keeps the newest record of each key, so any of them may come first, and tombstones
    may come of what is not there. A group of the other kind that stands under the id is older:
    what ended it was compacted away, or comes later in the same batch.
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


REPLAYS: Final[Mapping[type, Any]] = {
    ConsumerGroupMetadataKey: replay,
    ConsumerGroupPartitionMetadataKey: pass_over,
    ConsumerGroupMemberMetadataKey: replay,
    ConsumerGroupTargetAssignmentMetadataKey: replay,
    ConsumerGroupTargetAssignmentMemberKey: replay,
    ConsumerGroupCurrentMemberAssignmentKey: replay,
    ConsumerGroupRegularExpressionKey: replay,
}
