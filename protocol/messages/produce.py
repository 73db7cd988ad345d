"""Produce, API key 0, versions 3 to 13: append record batches to partitions.

Version notes
- 0 to 2 went with Apache Kafka 4.0. They are still advertised, since librdkafka turns
  compression off otherwise (KAFKA-18659), and are not served.
- 3: the transactional id; batches of format 2 only. 4: the answer may be KAFKA_STORAGE_ERROR.
  5: the answer carries the start of the log. 7: zstd is allowed (KIP-110).
- 8: which records spoilt a batch, and why (KIP-467). 9: flexible.
- 10: the answer may name the right leader and its address (KIP-951), in tagged fields.
- 11: TRANSACTION_ABORTABLE may be answered (KIP-890). 12: in a transaction, the partition joins it
  by this very request (KIP-890).
- 13: topics by id instead of by name (KIP-516); UNKNOWN_TOPIC_ID may be answered.

Source: ProduceRequest.json and ProduceResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import (
    ZERO_UUID,
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


@structure
class PartitionProduceData:
    """One partition's batches as sent: after decoding, a view of the frame."""

    index: Int32
    records: Records = None


@structure
class TopicProduceData:
    """A topic, by name up to version 12 and by id from 13 on."""

    name: Annotated[String, Until(12)] = ""
    topic_id: Annotated[Uuid, Since(13)] = ZERO_UUID
    partition_data: list[PartitionProduceData] = field(default_factory=list)


@message(api_key=0, kind="request", versions=(3, 13), flexible_since=9)
@structure
class ProduceRequest:
    """Batches to append. `acks`: -1 all in-sync replicas, 1 the leader, 0 no answer."""

    transactional_id: Annotated[String | None, Nullable()] = None
    acks: Int16
    timeout_ms: Int32
    topic_data: list[TopicProduceData] = field(default_factory=list)


@structure
class BatchIndexAndErrorMessage:
    """A record for which its batch was rejected: its index, and the error."""

    batch_index: Annotated[Int32, Since(8)]
    batch_index_error_message: Annotated[String | None, Since(8), Nullable(since=8)] = None


@structure
class LeaderIdAndEpoch:
    """The leader to turn to instead; -1 is unknown."""

    leader_id: Annotated[Int32, Since(10)] = -1
    leader_epoch: Annotated[Int32, Since(10)] = -1


@structure
class PartitionProduceResponse:
    """The outcome for one partition's batches.

    `base_offset` is the first record's; `log_append_time_ms` is -1 unless the topic stamps
    records with the time of their appending.
    """

    index: Int32
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = -1
    log_start_offset: Annotated[Int64, Since(5)] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], Since(8)] = field(
        default_factory=list
    )
    error_message: Annotated[String | None, Since(8), Nullable(since=8)] = None
    current_leader: Annotated[LeaderIdAndEpoch | None, Tag(0, since=10)] = None


@structure
class TopicProduceResponse:
    """A topic, by name up to version 12 and by id from 13 on."""

    name: Annotated[String, Until(12)] = ""
    topic_id: Annotated[Uuid, Since(13)] = ZERO_UUID
    partition_responses: list[PartitionProduceResponse] = field(default_factory=list)


@structure
class NodeEndpoint:
    """Where a leader named in `current_leader` is reached (KIP-951)."""

    node_id: Annotated[Int32, Since(10)]
    host: Annotated[String, Since(10)]
    port: Annotated[Int32, Since(10)]
    rack: Annotated[String | None, Since(10), Nullable(since=10)] = None


@message(api_key=0, kind="response", versions=(3, 13), flexible_since=9)
@structure
class ProduceResponse:
    """An answer for every partition of the request, in its order."""

    responses: list[TopicProduceResponse] = field(default_factory=list)
    throttle_time_ms: Int32 = 0
    node_endpoints: Annotated[list[NodeEndpoint], Tag(0, since=10)] = field(default_factory=list)
