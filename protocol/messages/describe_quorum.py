"""DescribeQuorum, API key 55, versions 0 to 2: the replicas of the metadata log, and their offsets.

Version notes: 1 timestamps of the replicas (KIP-836); 2 messages, nodes, directory ids (KIP-853).
All are flexible.

Source: DescribeQuorumRequest.json and DescribeQuorumResponse.json, Apache Kafka 4.3 (KIP-595).
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
    Uint16,
    Uuid,
    message,
    structure,
)


@structure
class PartitionToDescribe:
    """One partition. In Kafka it is called PartitionData, as in the response."""

    partition_index: Int32


@structure
class TopicToDescribe:
    """Partitions of one topic. In Kafka it is called TopicData, as in the response."""

    topic_name: String
    partitions: list[PartitionToDescribe] = field(default_factory=list)


@message(api_key=55, kind="request", versions=(0, 2), flexible_since=0)
@structure
class DescribeQuorumRequest:
    """Partitions to describe; only the metadata log's can be described."""

    topics: list[TopicToDescribe] = field(default_factory=list)


@structure
class ReplicaState:
    """How far one replica is; -1 if unknown. Timestamps are milliseconds."""

    replica_id: Int32
    replica_directory_id: Annotated[Uuid, Since(2)] = ZERO_UUID
    log_end_offset: Int64
    last_fetch_timestamp: Annotated[Int64, Since(1)] = -1
    last_caught_up_timestamp: Annotated[Int64, Since(1)] = -1


@structure
class PartitionData:
    """One partition, its leader and its replicas."""

    partition_index: Int32
    error_code: Int16 = 0
    error_message: Annotated[String | None, Since(2), Nullable(since=2)] = ""
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: list[ReplicaState] = field(default_factory=list)
    observers: list[ReplicaState] = field(default_factory=list)


@structure
class TopicData:
    """Partitions of one topic."""

    topic_name: String
    partitions: list[PartitionData] = field(default_factory=list)


@structure
class Listener:
    """The address of a node."""

    name: Annotated[String, Since(2)]
    host: Annotated[String, Since(2)]
    port: Annotated[Uint16, Since(2)]


@structure
class Node:
    """A node of the quorum."""

    node_id: Annotated[Int32, Since(2)]
    listeners: Annotated[list[Listener], Since(2)] = field(default_factory=list)


@message(api_key=55, kind="response", versions=(0, 2), flexible_since=0)
@structure
class DescribeQuorumResponse:
    """The quorum of each partition."""

    error_code: Int16 = 0
    error_message: Annotated[String | None, Since(2), Nullable(since=2)] = ""
    topics: list[TopicData] = field(default_factory=list)
    nodes: Annotated[list[Node], Since(2)] = field(default_factory=list)
