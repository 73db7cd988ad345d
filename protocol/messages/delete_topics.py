"""DeleteTopics, API key 20, versions 1 to 6: remove topics and all their records.

Version notes
- 0 went with Apache Kafka 4.0. 1: `throttle_time_ms`. From 2 on a throttled answer is sent before
  the pause. 3: TOPIC_DELETION_DISABLED may be answered. 4: flexible.
- 5: the answer carries a message; THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599).
- 6: topics are named in structs, by name or by id (KIP-516); UNKNOWN_TOPIC_ID may be answered.

Source: DeleteTopicsRequest.json and DeleteTopicsResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import (
    ZERO_UUID,
    Int16,
    Int32,
    Nullable,
    Since,
    String,
    Until,
    Uuid,
    message,
    structure,
)


@structure
class DeleteTopicState:
    """A topic by name, or by id with a null name."""

    name: Annotated[String | None, Since(6), Nullable(since=6)] = None
    topic_id: Annotated[Uuid, Since(6)] = ZERO_UUID


@message(api_key=20, kind="request", versions=(1, 6), flexible_since=4)
@structure
class DeleteTopicsRequest:
    """Topics to remove: `topic_names` up to version 5, `topics` from 6 on."""

    topics: Annotated[list[DeleteTopicState], Since(6)] = field(default_factory=list)
    topic_names: Annotated[list[String], Until(5)] = field(default_factory=list)
    timeout_ms: Int32


@structure
class DeletableTopicResult:
    """The outcome for one topic. The name is null only for an unknown id."""

    name: Annotated[String | None, Nullable(since=6)] = ""
    topic_id: Annotated[Uuid, Since(6)] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[String | None, Since(5), Nullable(since=5)] = None


@message(api_key=20, kind="response", versions=(1, 6), flexible_since=4)
@structure
class DeleteTopicsResponse:
    """An answer for every topic of the request."""

    throttle_time_ms: Int32 = 0
    responses: list[DeletableTopicResult] = field(default_factory=list)
