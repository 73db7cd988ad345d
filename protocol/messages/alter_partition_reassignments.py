"""AlterPartitionReassignments, API key 45, versions 0 and 1: move partitions between brokers.

Version notes
- 1: a request may forbid that the number of replicas changes (KIP-860).

Source: AlterPartitionReassignmentsRequest.json and AlterPartitionReassignmentsResponse.json,
Apache Kafka 4.3 (KIP-455).
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Bool, Int16, Int32, Nullable, Since, String, message, structure


@structure
class ReassignablePartition:
    """The target replicas of a partition; null cancels a reassignment that is under way."""

    partition_index: Int32
    replicas: Annotated[list[Int32] | None, Nullable()] = None


@structure
class ReassignableTopic:
    """Partitions of one topic."""

    name: String
    partitions: list[ReassignablePartition] = field(default_factory=list)


@message(api_key=45, kind="request", versions=(0, 1), flexible_since=0)
@structure
class AlterPartitionReassignmentsRequest:
    """The reassignments to begin or to cancel, each on its own."""

    timeout_ms: Int32 = 60_000
    allow_replication_factor_change: Annotated[Bool, Since(1)] = True
    topics: list[ReassignableTopic] = field(default_factory=list)


@structure
class ReassignablePartitionResponse:
    """The outcome for one partition."""

    partition_index: Int32
    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = ""


@structure
class ReassignableTopicResponse:
    """The outcomes for one topic."""

    name: String
    partitions: list[ReassignablePartitionResponse] = field(default_factory=list)


@message(api_key=45, kind="response", versions=(0, 1), flexible_since=0)
@structure
class AlterPartitionReassignmentsResponse:
    """An outcome for every partition; `allow_replication_factor_change` is the request's."""

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[Bool, Since(1)] = True
    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = ""
    responses: list[ReassignableTopicResponse] = field(default_factory=list)
