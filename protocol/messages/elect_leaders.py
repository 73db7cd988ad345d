"""ElectLeaders, API key 43, versions 0 to 2: have partitions led by another of their replicas.

Version notes
- 0: the preferred replica, always. 1: the kind of election, and an error of the whole request
  (KIP-460). 2: flexible.

Source: ElectLeadersRequest.json and ElectLeadersResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Int8, Int16, Int32, Nullable, Since, String, message, structure


@structure
class TopicPartitions:
    """Partitions of one topic."""

    topic: String
    partitions: list[Int32] = field(default_factory=list)


@message(api_key=43, kind="request", versions=(0, 2), flexible_since=2)
@structure
class ElectLeadersRequest:
    """Partitions (null: all) and election type: 0 the preferred replica, 1 any live one."""

    election_type: Annotated[Int8, Since(1)] = 0
    topic_partitions: Annotated[list[TopicPartitions] | None, Nullable()] = field(
        default_factory=list
    )
    timeout_ms: Int32 = 60_000


@structure
class PartitionResult:
    """The outcome of one partition's election."""

    partition_id: Int32
    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = ""


@structure
class ReplicaElectionResult:
    """The outcomes of one topic's elections."""

    topic: String
    partition_result: list[PartitionResult] = field(default_factory=list)


@message(api_key=43, kind="response", versions=(0, 2), flexible_since=2)
@structure
class ElectLeadersResponse:
    """An outcome for every partition asked about."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Since(1)] = 0
    replica_election_results: list[ReplicaElectionResult] = field(default_factory=list)
