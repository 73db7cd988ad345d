"""A snapshot of the metadata, as Kafka writes it: an image turned back into records, and bytes.

    control batch    snapshot header; the voters, if Kafka keeps them in records (KIP-853)
    data batch, …    the records of the image, up to 1,000 a batch
    control batch    snapshot footer

Offsets count from 0, all batches have the epoch of the last record that the snapshot stands for
(KIP-630; Kafka: RecordsSnapshotWriter, MetadataImage.write). First come the feature levels, then
the records that have no meaning here, then topics with their partitions, configs, client quotas,
producer ids, ACLs, users.

Nothing is lost that only Kafka understands: records of types without a meaning here, and the
registrations of brokers, are in the snapshot as they were in the log, and in their order. Only
NO_OP records, which say nothing, are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from broker.metadata.features import METADATA_VERSION
from broker.metadata.image import CONFIG_BROKER, CONFIG_TOPIC, ClusterImage, PartitionInfo
from broker.metadata.image_loading import CONTROL_KEY
from broker.metadata.records_io import UnknownRecord, encode_record
from protocol.kafka.codec import encode_message
from protocol.metadata_records import (
    ConfigRecord,
    ControlRecordType,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    TopicRecord,
)
from protocol.records import Record, build

RECORDS_PER_BATCH: Final = 1_000
_CONTROL_VERSION: Final = 0


def image_records(image: ClusterImage) -> list[Any]:
    """Return the records that make an empty image what `image` is now."""
    found: list[Any] = [
        FeatureLevelRecord(name=name, feature_level=level)
        for name, level in sorted(
            image.feature_levels.items(), key=lambda item: (item[0] != METADATA_VERSION, item[0])
        )
    ]
    found += image.kept
    for topic in image.topics.values():
        found.append(TopicRecord(name=topic.name, topic_id=topic.topic_id))
        found += [_partition_record(topic.topic_id, partition) for partition in topic.partitions]
        found += _config_records(CONFIG_TOPIC, topic.name, topic.configs)
    for name, configs in image.broker_configs.items():
        found += _config_records(CONFIG_BROKER, name, configs)
    for (resource_type, name), configs in image.other_configs.items():
        found += _config_records(resource_type, name, configs)
    found += image.quotas.records()
    if image.next_producer_id:
        found.append(ProducerIdsRecord(broker_id=-1, next_producer_id=image.next_producer_id))
    found += image.acls.records()
    found += image.scram.records()
    return found


def _partition_record(topic_id: bytes, partition: PartitionInfo) -> PartitionRecord:
    return PartitionRecord(
        partition_id=partition.partition,
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        eligible_leader_replicas=partition.eligible_leader_replicas or None,
        last_known_elr=partition.last_known_elr or None,
    )


def _config_records(
    resource_type: int, name: str, configs: Mapping[str, str]
) -> Iterator[ConfigRecord]:
    for key, value in configs.items():
        yield ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)


def snapshot_bytes(
    records: Iterable[Any], voters: Mapping[int, Record], *, epoch: int, timestamp_ms: int
) -> bytes:
    """Return the file that holds `records`; `timestamp_ms` is when the last of them was written.

    `voters` are the control records of Kafka's voters, by type, if there are any.
    """
    header = SnapshotHeaderRecord(last_contained_log_timestamp=timestamp_ms)
    first = [
        _control(ControlRecordType.SNAPSHOT_HEADER, header, timestamp_ms),
        *(Record(0, timestamp_ms, kept.key, kept.value) for _, kept in sorted(voters.items())),
    ]
    last = [_control(ControlRecordType.SNAPSHOT_FOOTER, SnapshotFooterRecord(), timestamp_ms)]
    data = bytearray()
    next_offset = 0
    for batch, is_control in _batches(first, records, last, timestamp_ms):
        data += build(batch, base_offset=next_offset, leader_epoch=epoch, control=is_control)
        next_offset += len(batch)
    return bytes(data)


def _batches(
    first: Sequence[Record], records: Iterable[Any], last: Sequence[Record], timestamp_ms: int
) -> Iterator[tuple[Sequence[Record], bool]]:
    yield first, True
    rest = iter(records)
    while taken := list(islice(rest, RECORDS_PER_BATCH)):
        yield [Record(0, timestamp_ms, None, _frame(record)) for record in taken], False
    yield last, True


def _frame(record: Any) -> bytes:
    return record.frame if isinstance(record, UnknownRecord) else encode_record(record)


def _control(kind: ControlRecordType, message: Any, timestamp_ms: int) -> Record:
    key = CONTROL_KEY.pack(_CONTROL_VERSION, kind)
    return Record(0, timestamp_ms, key, encode_message(message, _CONTROL_VERSION))
