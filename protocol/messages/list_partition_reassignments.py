"""ListPartitionReassignments, API key 46, version 0: which partitions are moving between brokers.

Source: ListPartitionReassignmentsRequest.json and ListPartitionReassignmentsResponse.json,
Apache Kafka 4.3 (KIP-455).
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Int16, Int32, Nullable, String, message, structure


@structure
class ListPartitionReassignmentsTopics:
    """Partitions of one topic."""

    name: String
    partition_indexes: list[Int32] = field(default_factory=list)


@message(api_key=46, kind="request", versions=(0, 0), flexible_since=0)
@structure
class ListPartitionReassignmentsRequest:
    """The partitions to list; null means all."""

    timeout_ms: Int32 = 60_000
    topics: Annotated[list[ListPartitionReassignmentsTopics] | None, Nullable()] = None


@structure
class OngoingPartitionReassignment:
    """One partition being reassigned: its replicas, and those being added and removed."""

    partition_index: Int32
    replicas: list[Int32] = field(default_factory=list)
    adding_replicas: list[Int32] = field(default_factory=list)
    removing_replicas: list[Int32] = field(default_factory=list)


@structure
class OngoingTopicReassignment:
    """The partitions of one topic that are being reassigned."""

    name: String
    partitions: list[OngoingPartitionReassignment] = field(default_factory=list)


@message(api_key=46, kind="response", versions=(0, 0), flexible_since=0)
@structure
class ListPartitionReassignmentsResponse:
    """The ongoing reassignments; other partitions are left out."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = ""
    topics: list[OngoingTopicReassignment] = field(default_factory=list)
