"""Which partitions this broker leads after a start, and the records that make it the leader.

We lead every partition whose replicas name us. A PARTITION_CHANGE with leader epoch + 1 is written
for those that Kafka left without a leader (its clean stop does), for those whose ISR is not exactly
this broker, and after an unclean stop for all, so that two runs never stamp the same epoch. A
partition that Kafka keeps in another of its log directories, and that is missing here, is reported
and not led: creating it here would serve an empty log in place of a full one.

Pure functions; `broker.metadata.controller` reads the image, looks on the disk and writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from broker.metadata.image import (
    RECOVERED,
    RECOVERY_STATE_UNCHANGED,
    PartitionInfo,
    TopicInfo,
)
from protocol.metadata_records import NO_LEADER_CHANGE, PartitionChangeRecord

_RESERVED_DIRECTORY_IDS: Final = 100  # DirectoryId: MIGRATING 0, UNASSIGNED 1, LOST 2, up to 99


@dataclass(slots=True)
class TakenLeadership:
    """The outcome of `Controller.take_leadership`."""

    end_offset: int
    led: list[tuple[TopicInfo, PartitionInfo]] = field(default_factory=list)
    changed_count: int = 0
    elsewhere: list[str] = field(default_factory=list)  # in another log directory: not led
    not_ours: list[str] = field(default_factory=list)  # replicas name other nodes only


def may_be_elsewhere(partition: PartitionInfo, node_id: int, directory_id: bytes) -> bool:
    """Whether the records say that another log directory of this node has the partition."""
    recorded = partition.directory_of(node_id)
    return recorded != directory_id and int.from_bytes(recorded, "big") >= _RESERVED_DIRECTORY_IDS


def leadership_change(
    topic_id: bytes,
    partition: PartitionInfo,
    node_id: int,
    directory_id: bytes,
    *,
    unclean: bool,
) -> PartitionChangeRecord | None:
    """Return the record that makes `node_id` the leader with a new epoch; None: nothing to do."""
    has_directory = partition.directory_of(node_id) == directory_id
    is_leader = partition.leader == node_id and partition.isr == [node_id]
    is_tidy = (
        partition.leader_recovery_state == RECOVERED
        and not partition.eligible_leader_replicas
        and not partition.last_known_elr
    )
    if is_leader and is_tidy and has_directory and not unclean:
        return None
    directories: list[bytes] | None = None
    if not has_directory:
        directories = [
            directory_id if replica == node_id else partition.directory_of(replica)
            for replica in partition.replicas
        ]
    return PartitionChangeRecord(
        partition_id=partition.partition,
        topic_id=topic_id,
        isr=None if partition.isr == [node_id] else [node_id],
        leader=node_id if unclean or not is_leader else NO_LEADER_CHANGE,
        leader_recovery_state=(
            RECOVERY_STATE_UNCHANGED if partition.leader_recovery_state == RECOVERED else RECOVERED
        ),
        directories=directories,
        eligible_leader_replicas=[] if partition.eligible_leader_replicas else None,
        last_known_elr=[] if partition.last_known_elr else None,
    )
