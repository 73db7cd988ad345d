"""ConsumerGroupHeartbeat, API key 68, versions 0 and 1: all of a consumer group's membership.

A member joins, stays, tells what it holds and wants, learns what it shall hold, and leaves with
this one message (KIP-848). What has not changed since the member's last heartbeat is null or -1.

Version notes: all are flexible. 1: `subscribed_topic_regex`, and a member makes its own
`member_id` (KIP-1082); in version 0 a new member may leave it empty and is given one.

Source: ConsumerGroupHeartbeatRequest.json and ConsumerGroupHeartbeatResponse.json, Apache
Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Int16, Int32, Nullable, Since, String, Uuid, message, structure

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2  # the member will return under its `instance_id`


@structure
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[Int32] = field(default_factory=list)


@message(api_key=68, kind="request", versions=(0, 1), flexible_since=0)
@structure
class ConsumerGroupHeartbeatRequest:
    """A member, its epoch and its changes; `topic_partitions` are those it owns."""

    group_id: String
    member_id: String
    member_epoch: Int32
    instance_id: Annotated[String | None, Nullable()] = None
    rack_id: Annotated[String | None, Nullable()] = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: Annotated[list[String] | None, Nullable()] = None
    subscribed_topic_regex: Annotated[String | None, Since(1), Nullable(since=1)] = None
    server_assignor: Annotated[String | None, Nullable()] = None
    topic_partitions: Annotated[list[TopicPartitions] | None, Nullable()] = None


@structure
class Assignment:
    """The complete assignment of the member."""

    topic_partitions: list[TopicPartitions] = field(default_factory=list)


@message(api_key=68, kind="response", versions=(0, 1), flexible_since=0)
@structure
class ConsumerGroupHeartbeatResponse:
    """The member's epoch, and its assignment where that has changed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = None
    member_id: Annotated[String | None, Nullable()] = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Annotated[Assignment | None, Nullable()] = None
