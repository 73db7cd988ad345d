"""Offsets of transactions in a rig: pending ones, and the marker that ends them.

The coordinator of transactions is left out: a marker is appended by hand, and the groups are told.
"""

from broker.groups.coordinator import Coordinator
from broker.groups.group_log import Producer
from broker.metadata.topic_rules import GROUP_TOPIC
from protocol.control_records import Marker
from protocol.group_records import OffsetCommitKey, OffsetCommitValue
from tests.support.broker_rig import Rig

EPOCH = 3


def pend(
    rig: Rig, *wanted: tuple[str, int, int], group: str = "g", producer: int = 9
) -> tuple[int, int]:
    """Append pending (topic, partition, offset) each; return the group's partition and its end."""
    now_ms = rig.clock.now_ms()
    records = [
        (
            OffsetCommitKey(group=group, topic=topic, partition=number),
            OffsetCommitValue(offset=offset, commit_timestamp=now_ms),
        )
        for topic, number, offset in wanted
    ]
    groups = rig.services.groups
    batch = groups.log.batch_of(records, Producer(producer, EPOCH))
    return groups.append_pending(group, producer, records, batch)


def end(rig: Rig, *, commits: bool, group: str = "g", producer: int = 9) -> None:
    """End the transaction of a producer in the partition of a group."""
    rig.services.groups.transaction_ended(
        *mark(rig, commits=commits, group=group, producer=producer)
    )


def mark(
    rig: Rig, *, commits: bool, group: str = "g", producer: int = 9
) -> tuple[int, Marker, int]:
    """Append the marker only; return the number of the partition, the marker and its offset."""
    groups: Coordinator = rig.services.groups
    number = groups.partition_of(group)
    now_ms = rig.clock.now_ms()
    log = rig.services.partitions.get(GROUP_TOPIC, number).log
    marker = Marker(producer, EPOCH, commits, 0)
    return number, marker, log.append_marker(marker, now_ms).base_offset


async def durable(rig: Rig) -> None:
    """Return when all that was written to the groups' log is durable."""
    for number in range(rig.services.groups.log.count()):
        partition = rig.services.partitions.get(GROUP_TOPIC, number)
        await rig.services.commit.durable(partition, partition.log.end_offset, 10_000)
