"""Which brokers may hold a partition's replicas when there is only one, and the record for it.

Pure rules of AlterPartitionReassignments, in Kafka's order and with its codes and texts
(ReplicationControlManager.alterPartitionReassignment). A partition created here is on this broker
and stays on it: naming this broker changes nothing, naming another is refused, and there is no
reassignment to cancel. The other cases concern a directory from a larger cluster: the replicas of a
partition that we lead are reduced to this broker, and a reassignment in progress is completed or
cancelled.

    no such topic or partition                    UNKNOWN_TOPIC_OR_PARTITION
    null, and no reassignment in progress         NO_REASSIGNMENT_IN_PROGRESS
    null, and we would not be among the replicas  INVALID_REPLICA_ASSIGNMENT
    no broker, an unknown one, one twice          INVALID_REPLICA_ASSIGNMENT
    another count where that is forbidden         INVALID_REPLICATION_FACTOR
    we have no records of the partition           INVALID_REPLICA_ASSIGNMENT
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.metadata.image import PartitionInfo, TopicInfo
from broker.metadata.topic_rules import TopicError, check_assigned_brokers
from protocol.errors import ErrorCode
from protocol.metadata_records import PartitionChangeRecord


def is_moving(partition: PartitionInfo) -> bool:
    """Whether a partition is being reassigned."""
    return bool(partition.adding_replicas or partition.removing_replicas)


def find_partition(topic: TopicInfo | None, name: str, number: int) -> PartitionInfo:
    """Return partition `number` of the topic found under `name`, or raise TopicError."""
    if topic is None:
        raise TopicError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}."
        )
    if not 0 <= number < len(topic.partitions):
        raise TopicError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{number}."
        )
    return topic.partitions[number]


def kept_replicas(partition: PartitionInfo, node_id: int) -> list[int]:
    """Return a partition's replicas after its reassignment is cancelled, or raise TopicError."""
    if not is_moving(partition):
        code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        raise TopicError(code, code.message)
    kept = [node for node in partition.replicas if node not in partition.adding_replicas]
    if node_id not in kept:
        raise TopicError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Taking the move back would leave replicas {kept}, none of which is this broker, "
            f"{node_id}. Assign the partition to [{node_id}] instead.",
        )
    return kept


def check_target(
    partition: PartitionInfo,
    target: Sequence[int],
    node_id: int,
    *,
    is_led: bool,
    may_change_factor: bool,
) -> None:
    """Raise TopicError unless the partition may have exactly the replicas `target`."""
    check_assigned_brokers(target, node_id)
    count = len(set(partition.replicas) - set(partition.removing_replicas))
    if not may_change_factor and len(target) != count:
        raise TopicError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {count} to {len(target)}",
        )
    if not is_led:
        raise TopicError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The records of this partition are not on broker {node_id}, the only one.",
        )


def change(
    topic: TopicInfo, partition: PartitionInfo, replicas: Sequence[int]
) -> PartitionChangeRecord | None:
    """Return the record that gives a partition these replicas; None when it has them already."""
    if partition.replicas == list(replicas) and not is_moving(partition):
        return None
    return PartitionChangeRecord(
        partition_id=partition.partition,
        topic_id=topic.topic_id,
        replicas=list(replicas),
        adding_replicas=[],
        removing_replicas=[],
        directories=[partition.directory_of(node) for node in replicas],
    )
