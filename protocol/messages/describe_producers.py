"""DescribeProducers, API key 61, version 0: what partitions know of their idempotent producers.

Source: DescribeProducersRequest.json and DescribeProducersResponse.json, Apache Kafka 4.3
(KIP-664).
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Int16, Int32, Int64, Nullable, String, message, structure


@structure
class TopicRequest:
    """Partitions of one topic."""

    name: String
    partition_indexes: list[Int32] = field(default_factory=list)


@message(api_key=61, kind="request", versions=(0, 0), flexible_since=0)
@structure
class DescribeProducersRequest:
    """Partitions to describe."""

    topics: list[TopicRequest] = field(default_factory=list)


@structure
class ProducerState:
    """One producer; -1 means that a value is absent."""

    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = -1


@structure
class PartitionResponse:
    """One partition's producers."""

    partition_index: Int32
    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = None
    active_producers: list[ProducerState] = field(default_factory=list)


@structure
class TopicResponse:
    """Partitions of one topic."""

    name: String
    partitions: list[PartitionResponse] = field(default_factory=list)


@message(api_key=61, kind="response", versions=(0, 0), flexible_since=0)
@structure
class DescribeProducersResponse:
    """The producers of each partition."""

    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse] = field(default_factory=list)
