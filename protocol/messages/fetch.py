"""Fetch, API key 1, versions 4 to 18: read record batches from partitions.

Version notes
- 0 to 3 went with Apache Kafka 4.0. 4: isolation levels, and with READ_COMMITTED a list of aborted
  transactions (KIP-98); order of partitions matters since 3 (KIP-74).
- 5: the start of the log, both ways (KIP-107). 6: KAFKA_STORAGE_ERROR may be answered (KIP-112).
- 7: sessions, in which only what changes is named (KIP-227). A broker declines one by answering
  `session_id` 0. From 8 on a throttled answer is sent before the pause.
- 9: the reader's idea of the leader's epoch, so that a stale one is fenced (KIP-320).
- 10: zstd batches may be answered (KIP-110). 11: the reader's rack, and a nearer replica to read
  from (KIP-392).
- 12: flexible; divergence of epochs, the current leader and a snapshot in tagged fields (KIP-595).
- 13: topics by id instead of by name (KIP-516). 14: an error for tiered offsets (KIP-405).
- 15: the replica's id moves into the tagged `replica_state`, with its epoch (KIP-903).
- 16: addresses of the leaders named in the answer (KIP-951). 17: the directory of a replica
  (KIP-853). 18: a replica tells its high watermark (KIP-1166).

Source: FetchRequest.json and FetchResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated, Final

from protocol.wire import (
    ZERO_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    Nullable,
    Records,
    Since,
    String,
    Tag,
    Until,
    Uuid,
    message,
    structure,
)

INT32_MAX: Final = 2**31 - 1
# A replica that does not send its high watermark (KIP-1166); -1 means it does not know it.
HIGH_WATERMARK_UNTOLD: Final = 2**63 - 1


@structure
class ReplicaState:
    """The reader: a follower's id and epoch, -1 for a consumer."""

    replica_id: Annotated[Int32, Since(15)] = -1
    replica_epoch: Annotated[Int64, Since(15)] = -1


@structure
class FetchPartition:
    """The offset to read a partition from, and the most bytes to return."""

    partition: Int32
    current_leader_epoch: Annotated[Int32, Since(9)] = -1
    fetch_offset: Int64
    last_fetched_epoch: Annotated[Int32, Since(12)] = -1
    log_start_offset: Annotated[Int64, Since(5)] = -1
    partition_max_bytes: Int32
    replica_directory_id: Annotated[Uuid, Tag(0, since=17)] = ZERO_UUID
    high_watermark: Annotated[Int64, Tag(1, since=18)] = HIGH_WATERMARK_UNTOLD


@structure
class FetchTopic:
    """A topic, by name up to version 12 and by id from 13 on."""

    topic: Annotated[String, Until(12)] = ""
    topic_id: Annotated[Uuid, Since(13)] = ZERO_UUID
    partitions: list[FetchPartition] = field(default_factory=list)


@structure
class ForgottenTopic:
    """Partitions to remove from the session."""

    topic: Annotated[String, Since(7), Until(12)] = ""
    topic_id: Annotated[Uuid, Since(13)] = ZERO_UUID
    partitions: Annotated[list[Int32], Since(7)] = field(default_factory=list)


@message(api_key=1, kind="request", versions=(4, 18), flexible_since=12)
@structure
class FetchRequest:
    """What to read, and how long to wait for `min_bytes` of it.

    `isolation_level` 0 reads all, 1 only what is committed. `session_epoch` -1 asks for no
    session, 0 for a new one.
    """

    cluster_id: Annotated[String | None, Nullable(since=12), Tag(0, since=12)] = None
    replica_id: Annotated[Int32, Until(14)] = -1
    replica_state: Annotated[ReplicaState, Tag(1, since=15)] = field(default_factory=ReplicaState)
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = INT32_MAX
    isolation_level: Int8 = 0
    session_id: Annotated[Int32, Since(7)] = 0
    session_epoch: Annotated[Int32, Since(7)] = -1
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: Annotated[list[ForgottenTopic], Since(7)] = field(default_factory=list)
    rack_id: Annotated[String, Since(11)] = ""


@structure
class EpochEndOffset:
    """Where the reader's log diverges from the leader's; -1: it does not."""

    epoch: Annotated[Int32, Since(12)] = -1
    end_offset: Annotated[Int64, Since(12)] = -1


@structure
class LeaderIdAndEpoch:
    """The leader to turn to instead; -1 is unknown."""

    leader_id: Annotated[Int32, Since(12)] = -1
    leader_epoch: Annotated[Int32, Since(12)] = -1


@structure
class SnapshotId:
    """The snapshot to fetch if the log no longer has the offset; -1 is none."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


@structure
class AbortedTransaction:
    """An aborted transaction: its producer, and the first offset it wrote."""

    producer_id: Int64
    first_offset: Int64


@structure
class PartitionData:
    """What was read from one partition: whole batches, the first perhaps from before the offset.

    `aborted_transactions` is null for READ_UNCOMMITTED in Kafka's answers, though the schema's
    default is an empty list.
    """

    partition_index: Int32
    error_code: Int16 = 0
    high_watermark: Int64
    last_stable_offset: Int64 = -1
    log_start_offset: Annotated[Int64, Since(5)] = -1
    diverging_epoch: Annotated[EpochEndOffset | None, Tag(0, since=12)] = None
    current_leader: Annotated[LeaderIdAndEpoch | None, Tag(1, since=12)] = None
    snapshot_id: Annotated[SnapshotId | None, Tag(2, since=12)] = None
    aborted_transactions: Annotated[list[AbortedTransaction] | None, Nullable()] = field(
        default_factory=list
    )
    preferred_read_replica: Annotated[Int32, Since(11)] = -1
    records: Records = None


@structure
class FetchableTopicResponse:
    """A topic, by name up to version 12 and by id from 13 on."""

    topic: Annotated[String, Until(12)] = ""
    topic_id: Annotated[Uuid, Since(13)] = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@structure
class NodeEndpoint:
    """Where a leader named in `current_leader` is reached (KIP-951)."""

    node_id: Annotated[Int32, Since(16)]
    host: Annotated[String, Since(16)]
    port: Annotated[Int32, Since(16)]
    rack: Annotated[String | None, Since(16), Nullable(since=16)] = None


@message(api_key=1, kind="response", versions=(4, 18), flexible_since=12)
@structure
class FetchResponse:
    """Records of the partitions asked for; `session_id` 0 says that there is no session."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Since(7)] = 0
    session_id: Annotated[Int32, Since(7)] = 0
    responses: list[FetchableTopicResponse] = field(default_factory=list)
    node_endpoints: Annotated[list[NodeEndpoint], Tag(0, since=16)] = field(default_factory=list)
