"""Subscriptions and assignments of members of the classic protocol, as bytes.

Kafka calls this the embedded consumer protocol: bytes in JoinGroup and SyncGroup that a classic
group does not read (`protocol.consumer_protocol` has the codecs).
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.groups.consumer.assignors import PartitionsByTopic, partitions_by_topic
from broker.groups.consumer.consumer_member import ConsumerGroupMember
from broker.groups.errors import GroupError
from broker.topics import Topics
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_subscription,
    encode_assignment,
)
from protocol.errors import DecodeError, ErrorCode


def assignment_bytes(member: ConsumerGroupMember, topics: Topics, version: int) -> bytes:
    """Return a member's assignment in the embedded protocol's `version`."""
    named = {
        topic.name: sorted(numbers)
        for topic_id, numbers in member.assigned.items()
        if (topic := topics.by_id(topic_id)) is not None
    }
    return encode_assignment(
        ConsumerProtocolAssignment(
            assigned_partitions=[
                TopicPartition(topic=name, partitions=named[name]) for name in sorted(named)
            ]
        ),
        version,
    )


def partitions_of(named: Iterable[TopicPartition], topics: Topics) -> PartitionsByTopic:
    """Return the partitions of the topics that exist, by topic id."""
    return partitions_by_topic(
        (topic.topic_id, of.partitions)
        for of in named
        if of.partitions and (topic := topics.by_name(of.topic)) is not None
    )


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Decode a member's subscription. Raises GroupError."""
    try:
        return decode_subscription(metadata)
    except DecodeError as error:
        raise GroupError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"Malformed embedded consumer protocol: {error}"
        ) from error
