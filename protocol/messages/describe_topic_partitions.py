"""DescribeTopicPartitions, API key 75, version 0: topics and their partitions, page by page.

Source: DescribeTopicPartitionsRequest.json and DescribeTopicPartitionsResponse.json, Apache
Kafka 4.3 (KIP-966).
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import ZERO_UUID, Bool, Int16, Int32, Nullable, String, Uuid, message, structure

NOT_ASKED = -(2**31)


@structure
class TopicRequest:
    """A topic to describe."""

    name: String


@structure
class Cursor:
    """The topic and the partition that a page begins with."""

    topic_name: String
    partition_index: Int32


@message(api_key=75, kind="request", versions=(0, 0), flexible_since=0)
@structure
class DescribeTopicPartitionsRequest:
    """Topics to describe from `cursor` on; an empty list means all."""

    topics: list[TopicRequest] = field(default_factory=list)
    response_partition_limit: Int32 = 2000
    cursor: Annotated[Cursor | None, Nullable()] = None


@structure
class DescribeTopicPartitionsResponsePartition:
    """One partition and the brokers that hold it."""

    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32] = field(default_factory=list)
    isr_nodes: list[Int32] = field(default_factory=list)
    eligible_leader_replicas: Annotated[list[Int32] | None, Nullable()] = None
    last_known_elr: Annotated[list[Int32] | None, Nullable()] = None
    offline_replicas: list[Int32] = field(default_factory=list)


@structure
class DescribeTopicPartitionsResponseTopic:
    """One topic. `topic_authorized_operations` is a set of bits, -2^31 when there are none."""

    error_code: Int16 = 0
    name: Annotated[String | None, Nullable()] = ""
    topic_id: Uuid = ZERO_UUID
    is_internal: Bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(default_factory=list)
    topic_authorized_operations: Int32 = NOT_ASKED


@message(api_key=75, kind="response", versions=(0, 0), flexible_since=0)
@structure
class DescribeTopicPartitionsResponse:
    """A page, and where the next one begins."""

    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = field(default_factory=list)
    next_cursor: Annotated[Cursor | None, Nullable()] = None
