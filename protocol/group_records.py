"""The records of `__consumer_offsets`, the log of the group coordinator.

Key and value of a record each begin with an int16. In the key it is the record's type, declared as
`api_key` here (on disk: never renumber), followed by the body of the key. In the value it is the
version of the body. A record without a value, a tombstone, removes the one before it::

    type  key                                          value
       1  OffsetCommitKey (0: the same, of old)        OffsetCommitValue            0 to 4
       2  GroupMetadataKey                             GroupMetadataValue           0 to 4
       3  ConsumerGroupMetadataKey                     ...Value                     0
       4  ConsumerGroupPartitionMetadataKey            ...Value   read only         0
       5  ConsumerGroupMemberMetadataKey               ...Value                     0
       6  ConsumerGroupTargetAssignmentMetadataKey     ...Value                     0
       7  ConsumerGroupTargetAssignmentMemberKey       ...Value                     0
       8  ConsumerGroupCurrentMemberAssignmentKey      ...Value                     0
      16  ConsumerGroupRegularExpressionKey            ...Value                     0

Type 1 holds offsets of groups of either kind, type 2 classic groups, types 3 to 16 consumer groups
(KIP-848). Kafka now writes only tombstones of type 4: a hash of the topics, in type 3, has replaced
it. Readers keep and ignore other types (share and streams groups).

`encode_key` and `encode_value` write the versions of Kafka 4.3; `decode` reads all versions.

Sources: the messages of Kafka's group coordinator, 4.3 (OffsetCommitKey.json and so on),
GroupCoordinatorRecordHelpers and CoordinatorRecordSerde.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Annotated, Any, Final

from protocol.coordinator_records import frame_key, frame_value, read_body, read_type, read_value
from protocol.wire import (
    ZERO_UUID,
    Buffer,
    Bytes,
    Int8,
    Int32,
    Int64,
    Nullable,
    Since,
    String,
    Tag,
    Until,
    Uuid,
    message,
    message_spec,
    structure,
)

NO_TIMESTAMP: Final = -1
LEGACY_OFFSET_COMMIT: Final = 0


class MemberState(IntEnum):
    """A member's progress to its target. On disk: never renumber (Kafka's MemberState)."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


# --- offsets, of groups of any kind ---------------------------------------------------------


@message(api_key=1, kind="data", versions=(0, 0), flexible_since=None)
@structure
class OffsetCommitKey:
    """A group and a partition of a topic."""

    group: String
    topic: String
    partition: Int32


@message(api_key=1, kind="data", versions=(0, 4), flexible_since=4)
@structure
class OffsetCommitValue:
    """The committed offset, times in ms. Version 1 is written if the offset has its own expiry.

    1: `expire_timestamp`, in this version only. 3: `leader_epoch`. 4: flexible; `topic_id`, which
    identifies offsets of a deleted topic of the same name.
    """

    offset: Int64
    leader_epoch: Annotated[Int32, Since(3)] = -1
    metadata: String = ""
    commit_timestamp: Int64
    expire_timestamp: Annotated[Int64, Since(1), Until(1)] = NO_TIMESTAMP
    topic_id: Annotated[Uuid, Tag(0, since=4)] = ZERO_UUID


# --- classic groups -------------------------------------------------------------------------


@message(api_key=2, kind="data", versions=(0, 0), flexible_since=None)
@structure
class GroupMetadataKey:
    """A classic group."""

    group: String


@structure
class MemberMetadata:
    """A member: timeouts in ms, its metadata for the group's protocol, and its assignment."""

    member_id: String
    group_instance_id: Annotated[String | None, Since(3), Nullable(since=3)] = None
    client_id: String
    client_host: String
    rebalance_timeout: Annotated[Int32, Since(1)] = -1
    session_timeout: Int32
    subscription: Bytes = b""
    assignment: Bytes = b""


@message(api_key=2, kind="data", versions=(0, 4), flexible_since=4)
@structure
class GroupMetadataValue:
    """A classic group's generation; an empty group has no members. Kafka 4.3 writes version 3.

    1: rebalance timeouts. 2: the time (ms) of the last state change. 3: static members. 4:
    flexible.
    """

    protocol_type: String
    generation: Int32
    protocol: Annotated[String | None, Nullable()]
    leader: Annotated[String | None, Nullable()]
    current_state_timestamp: Annotated[Int64, Since(2)] = NO_TIMESTAMP
    members: list[MemberMetadata] = field(default_factory=list)


# --- consumer groups ------------------------------------------------------------------------


@message(api_key=3, kind="data", versions=(0, 0), flexible_since=None)
@structure
class ConsumerGroupMetadataKey:
    """A consumer group."""

    group_id: String


@message(api_key=3, kind="data", versions=(0, 0), flexible_since=0)
@structure
class ConsumerGroupMetadataValue:
    """The group's epoch, and the hash of its topics; 0 for none."""

    epoch: Int32
    metadata_hash: Annotated[Int64, Tag(0)] = 0


@message(api_key=4, kind="data", versions=(0, 0), flexible_since=None)
@structure
class ConsumerGroupPartitionMetadataKey:
    """A consumer group."""

    group_id: String


@structure
class PartitionMetadata:
    """A partition and the racks that hold it; no longer used."""

    partition: Int32
    racks: list[String] = field(default_factory=list)


@structure
class TopicMetadata:
    """A topic at the time when the group's epoch was raised."""

    topic_id: Uuid
    topic_name: String
    num_partitions: Int32
    partition_metadata: list[PartitionMetadata] = field(default_factory=list)


@message(api_key=4, kind="data", versions=(0, 0), flexible_since=0)
@structure
class ConsumerGroupPartitionMetadataValue:
    """The topics that a group reads; written by Kafka 4.0."""

    topics: list[TopicMetadata] = field(default_factory=list)


@message(api_key=5, kind="data", versions=(0, 0), flexible_since=None)
@structure
class ConsumerGroupMemberMetadataKey:
    """A member of a consumer group."""

    group_id: String
    member_id: String


@structure
class ClassicProtocol:
    """A protocol that a classic member supports, and its metadata."""

    name: String
    metadata: Bytes = b""


@structure
class ClassicMemberMetadata:
    """Session timeout and protocols of a member that uses the classic protocol."""

    session_timeout_ms: Int32 = 0
    supported_protocols: list[ClassicProtocol] = field(default_factory=list)


@message(api_key=5, kind="data", versions=(0, 0), flexible_since=0)
@structure
class ConsumerGroupMemberMetadataValue:
    """A member's subscription and client. `subscribed_topic_regex` is "" or null if it has none.

    Always set `classic_member_metadata`: it is null for members that use KIP-848, and Kafka writes
    that null. If it is absent, readers take an empty structure.
    """

    instance_id: Annotated[String | None, Nullable()] = None
    rack_id: Annotated[String | None, Nullable()] = None
    client_id: String
    client_host: String
    subscribed_topic_names: list[String] = field(default_factory=list)
    subscribed_topic_regex: Annotated[String | None, Nullable()] = None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: Annotated[String | None, Nullable()] = None
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, Nullable(), Tag(0)] = field(
        default_factory=ClassicMemberMetadata
    )


@message(api_key=6, kind="data", versions=(0, 0), flexible_since=None)
@structure
class ConsumerGroupTargetAssignmentMetadataKey:
    """A consumer group."""

    group_id: String


@message(api_key=6, kind="data", versions=(0, 0), flexible_since=0)
@structure
class ConsumerGroupTargetAssignmentMetadataValue:
    """The group epoch of the targets, and the time (ms) of the assignment; 0 if unknown."""

    assignment_epoch: Int32
    assignment_timestamp: Annotated[Int64, Tag(0)] = 0


@message(api_key=7, kind="data", versions=(0, 0), flexible_since=None)
@structure
class ConsumerGroupTargetAssignmentMemberKey:
    """A member of a consumer group."""

    group_id: String
    member_id: String


@structure
class TargetPartitions:
    """Partitions of one topic. Kafka's schema calls it TopicPartition."""

    topic_id: Uuid
    partitions: list[Int32] = field(default_factory=list)


@message(api_key=7, kind="data", versions=(0, 0), flexible_since=0)
@structure
class ConsumerGroupTargetAssignmentMemberValue:
    """The target of a member."""

    topic_partitions: list[TargetPartitions] = field(default_factory=list)


@message(api_key=8, kind="data", versions=(0, 0), flexible_since=None)
@structure
class ConsumerGroupCurrentMemberAssignmentKey:
    """A member of a consumer group."""

    group_id: String
    member_id: String


@structure
class CurrentPartitions:
    """Partitions of one topic, with the epoch in which the member got each.

    Kafka's schema calls it TopicPartitions. Earlier versions of Kafka wrote no
    `assignment_epochs`: the list is then empty.
    """

    topic_id: Uuid
    partitions: list[Int32] = field(default_factory=list)
    assignment_epochs: Annotated[list[Int32] | None, Nullable(), Tag(0)] = field(
        default_factory=list
    )


@message(api_key=8, kind="data", versions=(0, 0), flexible_since=0)
@structure
class ConsumerGroupCurrentMemberAssignmentValue:
    """The partitions a member owns and those it must revoke; `state` is a MemberState."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[CurrentPartitions] = field(default_factory=list)
    partitions_pending_revocation: list[CurrentPartitions] = field(default_factory=list)


@message(api_key=16, kind="data", versions=(0, 0), flexible_since=None)
@structure
class ConsumerGroupRegularExpressionKey:
    """A regular expression to which members of a consumer group subscribe."""

    group_id: String
    regular_expression: String


@message(api_key=16, kind="data", versions=(0, 0), flexible_since=0)
@structure
class ConsumerGroupRegularExpressionValue:
    """The topics it matched at `version` of the cluster metadata, and the time (ms)."""

    topics: list[String] = field(default_factory=list)
    version: Int64
    timestamp: Int64


# --- keys and values together ---------------------------------------------------------------

RECORDS: Final[Mapping[int, tuple[type[Any], type[Any]]]] = MappingProxyType(
    {
        message_spec(key).api_key: (key, value)
        for key, value in (
            (OffsetCommitKey, OffsetCommitValue),
            (GroupMetadataKey, GroupMetadataValue),
            (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
            (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
            (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
            (
                ConsumerGroupTargetAssignmentMetadataKey,
                ConsumerGroupTargetAssignmentMetadataValue,
            ),
            (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
            (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
            (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
        )
    }
)
"""The key and value classes of each declared record type."""

_GROUP_METADATA_VERSION: Final = 3


@dataclass(frozen=True, slots=True)
class UnknownRecord:
    """A record of an undeclared type."""

    record_type: int


def encode_key(key: Any) -> bytes:
    """Return the key of a record: the type, then the body of `key`, a class of `RECORDS`."""
    return frame_key(key)


def encode_value(value: Any | None) -> bytes | None:
    """Return the value of a record in the version that Kafka 4.3 writes; None for None."""
    if value is None:
        return None
    version = _version_written(value)
    return frame_value(value, version)


def decode(key: Buffer, value: Buffer | None) -> tuple[Any, Any | None] | UnknownRecord:
    """Decode a record into (key, value); the value is None for a tombstone.

    Raises DecodeError for bytes that do not match their type and version, for trailing bytes, and
    for an unknown version of a value.
    """
    record_type = read_type(key, "group")
    if record_type == LEGACY_OFFSET_COMMIT:
        record_type = message_spec(OffsetCommitKey).api_key
    classes = RECORDS.get(record_type)
    if classes is None:
        return UnknownRecord(record_type)
    key_class, value_class = classes
    decoded_key = read_body(key_class, 0, key)
    if value is None:
        return decoded_key, None
    return decoded_key, read_value(value_class, value, "group")


def _version_written(value: Any) -> int:
    match value:
        case OffsetCommitValue(expire_timestamp=expire) if expire != NO_TIMESTAMP:
            return 1
        case GroupMetadataValue():
            return _GROUP_METADATA_VERSION
    return message_spec(type(value)).version_max
