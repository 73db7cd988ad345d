"""OffsetFetch, API key 9, versions 1 to 10: the offsets that groups have committed.

Version notes
- 0, answered from ZooKeeper, went with Apache Kafka 4.0. 2: null topics ask for all; an error of
  the group. 3: `throttle_time_ms`. From 4 on a throttled answer is sent before the pause.
- 5: the leader's epoch of each offset (KIP-320). 6: flexible. 7: `require_stable`;
  UNSTABLE_OFFSET_COMMIT may be answered (KIP-447). 8: many groups at once (KIP-709).
- 9: a member of a consumer group tells its id and epoch; STALE_MEMBER_EPOCH and UNKNOWN_MEMBER_ID
  may be answered (KIP-848).
- 10: topics by id and no longer by name; UNKNOWN_TOPIC_ID may be answered (KIP-848).

Source: OffsetFetchRequest.json and OffsetFetchResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import (
    ZERO_UUID,
    Bool,
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
class OffsetFetchRequestTopic:
    """Partitions of one topic, up to version 7."""

    name: String
    partition_indexes: list[Int32] = field(default_factory=list)


@structure
class OffsetFetchRequestTopics:
    """Partitions of one topic: `name` up to version 9, `topic_id` from 10 on."""

    name: Annotated[String, Until(9)] = ""
    topic_id: Annotated[Uuid, Since(10)] = ZERO_UUID
    partition_indexes: list[Int32] = field(default_factory=list)


@structure
class OffsetFetchRequestGroup:
    """A group and its topics; null topics ask for all. Classic groups have no `member_id` here."""

    group_id: String
    member_id: Annotated[String | None, Since(9), Nullable(since=9)] = None
    member_epoch: Annotated[Int32, Since(9)] = -1
    topics: Annotated[list[OffsetFetchRequestTopics] | None, Nullable()] = field(
        default_factory=list
    )


@message(api_key=9, kind="request", versions=(1, 10), flexible_since=6)
@structure
class OffsetFetchRequest:
    """One group's topics up to version 7, `groups` from 8 on.

    `require_stable`: an error instead of an offset that a pending transaction may replace.
    """

    group_id: Annotated[String, Until(7)] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, Until(7), Nullable(since=2)] = field(
        default_factory=list
    )
    groups: Annotated[list[OffsetFetchRequestGroup], Since(8)] = field(default_factory=list)
    require_stable: Annotated[Bool, Since(7)] = False


@structure
class OffsetFetchResponsePartition:
    """The committed offset of a partition, up to version 7; -1 and "" when there is none."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, Since(5)] = -1
    metadata: Annotated[String | None, Nullable()] = ""
    error_code: Int16 = 0


@structure
class OffsetFetchResponseTopic:
    """Partitions of one topic, up to version 7."""

    name: String
    partitions: list[OffsetFetchResponsePartition] = field(default_factory=list)


@structure
class OffsetFetchResponsePartitions:
    """The committed offset of a partition, from version 8 on; -1 and "" when there is none."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = -1
    metadata: Annotated[String | None, Nullable()] = ""
    error_code: Int16 = 0


@structure
class OffsetFetchResponseTopics:
    """Partitions of one topic: `name` up to version 9, `topic_id` from 10 on."""

    name: Annotated[String, Until(9)] = ""
    topic_id: Annotated[Uuid, Since(10)] = ZERO_UUID
    partitions: list[OffsetFetchResponsePartitions] = field(default_factory=list)


@structure
class OffsetFetchResponseGroup:
    """The offsets of one group, or the error of the group."""

    group_id: String
    topics: list[OffsetFetchResponseTopics] = field(default_factory=list)
    error_code: Int16 = 0


@message(api_key=9, kind="response", versions=(1, 10), flexible_since=6)
@structure
class OffsetFetchResponse:
    """One group's offsets up to version 7, `groups` from 8 on."""

    throttle_time_ms: Annotated[Int32, Since(3)] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], Until(7)] = field(default_factory=list)
    error_code: Annotated[Int16, Since(2), Until(7)] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], Since(8)] = field(default_factory=list)
