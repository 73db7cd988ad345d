"""CreateTopics, API key 19, versions 2 to 7: make topics.

Version notes
- 0 and 1 went with Apache Kafka 4.0. 2: `throttle_time_ms`. From 3 on a throttled answer is sent
  before the pause. 4: -1 partitions or replicas take the broker's default (KIP-464).
- 5: flexible; the answer shows the new topic and its configuration (KIP-525), or says in a tagged
  field why it does not.
- 6: THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599). 7: the answer carries the topic's id
  (KIP-516).

Source: CreateTopicsRequest.json and CreateTopicsResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import (
    ZERO_UUID,
    Bool,
    Int8,
    Int16,
    Int32,
    Nullable,
    Since,
    String,
    Tag,
    Uuid,
    message,
    structure,
)


@structure
class CreatableReplicaAssignment:
    """The brokers of one partition, the preferred leader first."""

    partition_index: Int32
    broker_ids: list[Int32] = field(default_factory=list)


@structure
class CreatableTopicConfig:
    """A setting of the new topic."""

    name: String
    value: Annotated[String | None, Nullable()] = ""


@structure
class CreatableTopic:
    """A topic to create. Counts are -1 with `assignments`, or for the broker's default."""

    name: String
    num_partitions: Int32
    replication_factor: Int16
    assignments: list[CreatableReplicaAssignment] = field(default_factory=list)
    configs: list[CreatableTopicConfig] = field(default_factory=list)


@message(api_key=19, kind="request", versions=(2, 7), flexible_since=5)
@structure
class CreateTopicsRequest:
    """Topics to create, or with `validate_only` to check."""

    topics: list[CreatableTopic] = field(default_factory=list)
    timeout_ms: Int32 = 60_000
    validate_only: Bool = False


@structure
class CreatableTopicConfigs:
    """A setting that the new topic has, and where its value comes from (ConfigSource)."""

    name: Annotated[String, Since(5)]
    value: Annotated[String | None, Since(5), Nullable(since=5)] = ""
    read_only: Annotated[Bool, Since(5)] = False
    config_source: Annotated[Int8, Since(5)] = -1
    is_sensitive: Annotated[Bool, Since(5)] = False


@structure
class CreatableTopicResult:
    """The outcome for one topic. `error_message` is null, and not empty, without an error.

    `configs` is null where they may not be shown; `topic_config_error_code` then says why.
    """

    name: String
    topic_id: Annotated[Uuid, Since(7)] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = ""
    topic_config_error_code: Annotated[Int16, Tag(0, since=5)] = 0
    num_partitions: Annotated[Int32, Since(5)] = -1
    replication_factor: Annotated[Int16, Since(5)] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, Since(5), Nullable(since=5)] = field(
        default_factory=list
    )


@message(api_key=19, kind="response", versions=(2, 7), flexible_since=5)
@structure
class CreateTopicsResponse:
    """An answer for every topic of the request."""

    throttle_time_ms: Int32 = 0
    topics: list[CreatableTopicResult] = field(default_factory=list)
