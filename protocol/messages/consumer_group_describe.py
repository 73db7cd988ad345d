"""ConsumerGroupDescribe, API key 69, versions 0 and 1: consumer groups, their members and epochs.

Version notes: all are flexible. 1: `member_type` (KIP-1099).

Source: ConsumerGroupDescribeRequest.json and ConsumerGroupDescribeResponse.json, Apache Kafka 4.3
(KIP-848).
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import (
    Bool,
    Int8,
    Int16,
    Int32,
    Nullable,
    Since,
    String,
    Uuid,
    message,
    structure,
)

NOT_ASKED = -(2**31)

UNKNOWN_MEMBER_TYPE = -1
CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


@message(api_key=69, kind="request", versions=(0, 1), flexible_since=0)
@structure
class ConsumerGroupDescribeRequest:
    """Ids of groups."""

    group_ids: list[String] = field(default_factory=list)
    include_authorized_operations: Bool = False


@structure
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: Uuid
    topic_name: String
    partitions: list[Int32] = field(default_factory=list)


@structure
class Assignment:
    """Partitions of many topics."""

    topic_partitions: list[TopicPartitions] = field(default_factory=list)


@structure
class Member:
    """A member: its subscription, the partitions it owns (`assignment`) and its target."""

    member_id: String
    instance_id: Annotated[String | None, Nullable()] = None
    rack_id: Annotated[String | None, Nullable()] = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = field(default_factory=list)
    subscribed_topic_regex: Annotated[String | None, Nullable()] = None
    assignment: Assignment = field(default_factory=Assignment)
    target_assignment: Assignment = field(default_factory=Assignment)
    member_type: Annotated[Int8, Since(1)] = UNKNOWN_MEMBER_TYPE


@structure
class DescribedGroup:
    """A group; `authorized_operations` is a set of bits, -2^31 when not asked for."""

    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = None
    group_id: String
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: list[Member] = field(default_factory=list)
    authorized_operations: Int32 = NOT_ASKED


@message(api_key=69, kind="response", versions=(0, 1), flexible_since=0)
@structure
class ConsumerGroupDescribeResponse:
    """An answer for every group of the request."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = field(default_factory=list)
