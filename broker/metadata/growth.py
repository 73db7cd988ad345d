"""More partitions for topics that exist: the checks, in Kafka's order and with its codes and texts.

Pure rules of CreatePartitions (ReplicationControlManager.createPartitions in Kafka 4.3):

    each topic      the name twice in the request          INVALID_REQUEST
                    there is none of that name             UNKNOWN_TOPIC_OR_PARTITION
                    the count it has already, or fewer     INVALID_PARTITIONS
                    not one assignment a new partition     INVALID_REPLICA_ASSIGNMENT
                    an assignment to other brokers         INVALID_REPLICA_ASSIGNMENT
                    replicas that cannot be placed         INVALID_REPLICATION_FACTOR
                    more records than a request may make   UNKNOWN_SERVER_ERROR, as in Kafka

A topic that cannot grow does not affect the others. Partitions are only ever added. Existing
records stay where they are, but producers that hash keys over the count send them to other
partitions from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.metadata.image import TopicInfo
from broker.metadata.topic_rules import (
    RECORDS_PER_REQUEST_MAX,
    NewTopic,
    Placement,
    TopicError,
    check_assigned_brokers,
    partition_replicas,
)
from protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class MorePartitions:
    """A topic, its partition count, and the count that a client requests."""

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None  # broker ids of each new partition


def added_replicas(
    topic: TopicInfo, asked: MorePartitions, placement: Placement, *, record_count: int
) -> list[list[int]]:
    """Return the replicas of each partition to add to `topic`, or raise TopicError.

    `record_count` is how many records the request has made so far: one a partition.
    """
    added_count = _added_count(topic, asked)
    if asked.assignments is not None and len(asked.assignments) != added_count:
        raise TopicError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added_count} additional partition(s), but only "
            f"{len(asked.assignments)} assignment(s) were specified.",
        )
    if record_count + added_count > RECORDS_PER_REQUEST_MAX:
        raise TopicError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"A request can add {RECORDS_PER_REQUEST_MAX} partitions at most; send several.",
        )
    if asked.assignments is None:
        factor = len(topic.partitions[0].replicas) if topic.partitions else 1
        like_the_first = NewTopic(
            name=topic.name, partition_count=added_count, replication_factor=factor
        )
        return partition_replicas(like_the_first, placement)
    for brokers in asked.assignments:
        check_assigned_brokers(brokers, placement.node_id)
    return [list(brokers) for brokers in asked.assignments]


def _added_count(topic: TopicInfo, asked: MorePartitions) -> int:
    current_count = len(topic.partitions)
    if asked.count == current_count:
        raise TopicError(
            ErrorCode.INVALID_PARTITIONS, f"Topic already has {current_count} partition(s)."
        )
    if asked.count < current_count:
        raise TopicError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {asked.name} currently has {current_count} partition(s); {asked.count} "
            "would not be an increase.",
        )
    return asked.count - current_count
