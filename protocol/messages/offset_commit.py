"""OffsetCommit, API key 8, versions 2 to 10: how far a group has read.

Version notes
- 0 and 1 went with Apache Kafka 4.0. 3: `throttle_time_ms`. From 4 on a throttled answer is sent
  before the pause. 5: no `retention_time_ms`; the broker's setting holds (KIP-211).
- 6: the leader's epoch of each offset (KIP-320). 7: `group_instance_id` (KIP-345). 8: flexible.
- 9: members of consumer groups may commit; STALE_MEMBER_EPOCH and GROUP_ID_NOT_FOUND may be
  answered (KIP-848).
- 10: topics by id and no longer by name; UNKNOWN_TOPIC_ID may be answered (KIP-848).

Source: OffsetCommitRequest.json and OffsetCommitResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import (
    ZERO_UUID,
    Int16,
    Int32,
    Int64,
    Nullable,
    Since,
    String,
    Until,
    Uuid,
    message,
    structure,
)


@structure
class OffsetCommitRequestPartition:
    """The next offset to read of a partition, and the client's metadata to keep with it."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, Since(6)] = -1
    committed_metadata: Annotated[String | None, Nullable()] = ""


@structure
class OffsetCommitRequestTopic:
    """A topic: `name` up to version 9, `topic_id` from 10 on."""

    name: Annotated[String, Until(9)] = ""
    topic_id: Annotated[Uuid, Since(10)] = ZERO_UUID
    partitions: list[OffsetCommitRequestPartition] = field(default_factory=list)


@message(api_key=8, kind="request", versions=(2, 10), flexible_since=8)
@structure
class OffsetCommitRequest:
    """Offsets of a group; generation -1 and no member id come from outside of any membership.

    `retention_time_ms`: how long to keep them, -1 for the broker's `offsets.retention.minutes`.
    """

    group_id: String
    generation_id_or_member_epoch: Int32 = -1
    member_id: String = ""
    group_instance_id: Annotated[String | None, Since(7), Nullable(since=7)] = None
    retention_time_ms: Annotated[Int64, Until(4)] = -1
    topics: list[OffsetCommitRequestTopic] = field(default_factory=list)


@structure
class OffsetCommitResponsePartition:
    """The outcome for one partition's offset."""

    partition_index: Int32
    error_code: Int16 = 0


@structure
class OffsetCommitResponseTopic:
    """A topic: `name` up to version 9, `topic_id` from 10 on."""

    name: Annotated[String, Until(9)] = ""
    topic_id: Annotated[Uuid, Since(10)] = ZERO_UUID
    partitions: list[OffsetCommitResponsePartition] = field(default_factory=list)


@message(api_key=8, kind="response", versions=(2, 10), flexible_since=8)
@structure
class OffsetCommitResponse:
    """A result for every partition of the request; an error of the group is in each."""

    throttle_time_ms: Annotated[Int32, Since(3)] = 0
    topics: list[OffsetCommitResponseTopic] = field(default_factory=list)
