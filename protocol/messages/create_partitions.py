"""CreatePartitions, API key 37, versions 0 to 3: let topics have more partitions.

Version notes
- From 1 on a throttled answer is sent before the pause. 2: flexible.
- 3: THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599).

Source: CreatePartitionsRequest.json and CreatePartitionsResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Bool, Int16, Int32, Nullable, String, message, structure


@structure
class CreatePartitionsAssignment:
    """The brokers of one new partition, the preferred leader first."""

    broker_ids: list[Int32] = field(default_factory=list)


@structure
class CreatePartitionsTopic:
    """A topic, its new count of partitions, and optionally the replicas of the new ones.

    Without a value the broker chooses; Kafka's schema has an empty list there, a mistake to send.
    """

    name: String
    count: Int32
    assignments: Annotated[list[CreatePartitionsAssignment] | None, Nullable()] = None


@message(api_key=37, kind="request", versions=(0, 3), flexible_since=2)
@structure
class CreatePartitionsRequest:
    """Topics to enlarge, or with `validate_only` to check."""

    topics: list[CreatePartitionsTopic] = field(default_factory=list)
    timeout_ms: Int32 = 0
    validate_only: Bool = False


@structure
class CreatePartitionsTopicResult:
    """The outcome for one topic."""

    name: String
    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = None


@message(api_key=37, kind="response", versions=(0, 3), flexible_since=2)
@structure
class CreatePartitionsResponse:
    """The outcome for each topic."""

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = field(default_factory=list)
