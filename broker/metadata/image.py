"""The state of the cluster according to its metadata records: topics, configs, levels, quotas.

`ClusterImage` is the result of reading the metadata log from its beginning. `apply` takes one
record at a time, in the order of the log, and does what Kafka's controller does with it
(TopicsDelta, PartitionRegistration.merge, ConfigurationsDelta). The image opens no files, reads no
clock and sends nothing. A record that contradicts the image (a partition of an unknown topic, a
second topic of the same name) raises `ImageError`: the log is damaged or another program made it,
and a broker that continued would serve the wrong topics.

Epochs move as in Kafka: every PARTITION_CHANGE adds one to the partition epoch, and one that names
a leader, even the same leader, adds one to the leader epoch.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Final

from broker.metadata.acl_image import AclImage
from broker.metadata.image_error import ImageError
from broker.metadata.quota_image import QuotaImage
from broker.metadata.records_io import UnknownRecord
from broker.metadata.scram_image import ScramImage
from protocol.acl_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from protocol.metadata_records import (
    NO_LEADER_CHANGE,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from protocol.quota_records import ClientQuotaRecord
from protocol.scram_records import RemoveUserScramCredentialRecord, UserScramCredentialRecord

# ConfigResource.Type in Kafka; on disk: never renumber.
CONFIG_TOPIC: Final = 2
CONFIG_BROKER: Final = 4

RECOVERY_STATE_UNCHANGED: Final = -1
RECOVERED: Final = 0
NO_OP: Final = 20  # NO_OP_RECORD: a heartbeat, nothing to keep
MIGRATING_DIRECTORY: Final = bytes(16)  # DirectoryId.MIGRATING: "not known yet"


@dataclass(slots=True)
class PartitionInfo:
    """One partition. Never changed in place, nor are its lists: it is replaced by a copy."""

    partition: int
    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: list[bytes]  # one directory id a replica, in their order
    leader_recovery_state: int = RECOVERED
    adding_replicas: list[int] = field(default_factory=list)
    removing_replicas: list[int] = field(default_factory=list)
    eligible_leader_replicas: list[int] = field(default_factory=list)
    last_known_elr: list[int] = field(default_factory=list)

    def directory_of(self, node_id: int) -> bytes:
        """Return the directory id of that node's replica; zero when none is recorded."""
        if node_id in self.replicas:
            index = self.replicas.index(node_id)
            if index < len(self.directories):
                return self.directories[index]
        return MIGRATING_DIRECTORY


@dataclass(slots=True)
class TopicInfo:
    """One topic: its partitions by number, and the configs that were set on it."""

    name: str
    topic_id: bytes
    partitions: list[PartitionInfo] = field(default_factory=list)
    configs: dict[str, str] = field(default_factory=dict)


class ClusterImage:
    """The state that the metadata log describes, by name and by id."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicInfo] = {}
        self.topics_by_id: dict[bytes, TopicInfo] = {}
        self.broker_configs: dict[str, dict[str, str]] = {}  # "" holds the cluster-wide defaults
        self.other_configs: dict[tuple[int, str], dict[str, str]] = {}  # (type, name): kept, unused
        self.quotas = QuotaImage()
        self.feature_levels: dict[str, int] = {}
        self.next_producer_id = 0
        self.acls = AclImage()
        self.scram = ScramImage()
        self.broker_epochs: dict[int, int] = {}
        self.kept: list[UnknownRecord | RegisterBrokerRecord] = []  # for snapshots, in their order
        self.skipped: dict[int, int] = {}  # record type -> how many had no meaning here
        self._collisions: dict[str, set[str]] = {}

    @property
    def partition_count(self) -> int:
        """Partitions of all topics."""
        return sum(len(topic.partitions) for topic in self.topics.values())

    def capture(self) -> ClusterImage:
        """Return a copy that another thread can read while this one changes the image.

        A µs or two for each topic; its partitions are shared.
        """
        captured = copy(self)
        captured.topics = {
            name: TopicInfo(name, topic.topic_id, topic.partitions[:], topic.configs.copy())
            for name, topic in self.topics.items()
        }
        captured.topics_by_id = {}
        captured.broker_configs = {name: own.copy() for name, own in self.broker_configs.items()}
        captured.other_configs = {key: own.copy() for key, own in self.other_configs.items()}
        captured.acls = self.acls.capture()
        captured.quotas = self.quotas.capture()
        captured.feature_levels = self.feature_levels.copy()
        captured.kept = self.kept[:]
        captured.scram = self.scram.capture()
        return captured

    def topic_colliding_with(self, name: str) -> str | None:
        """Return a topic whose name differs from `name` in `.` and `_` only, or None.

        As in Kafka, names without either character never collide, and neither with themselves.
        """
        others = self._collisions.get(name.replace(".", "_"), set()) - {name}
        return min(others) if others else None

    def note_name(self, name: str) -> None:
        """Remember a topic's name for `topic_colliding_with`."""
        if "." in name or "_" in name:
            self._collisions.setdefault(name.replace(".", "_"), set()).add(name)

    def add_topic(self, topic: TopicInfo) -> None:
        """Do what `apply` does with all records of a new topic. Raises ImageError."""
        if topic.name in self.topics:
            raise ImageError(f"topic {topic.name} is created a second time, but was not removed")
        if topic.topic_id in self.topics_by_id:
            raise ImageError(f"topic id {topic.topic_id.hex()} belongs to two topics")
        topic.configs = self.other_configs.pop((CONFIG_TOPIC, topic.name), {}) | topic.configs
        self.topics[topic.name] = self.topics_by_id[topic.topic_id] = topic
        self.note_name(topic.name)

    def apply(self, record: Any) -> None:
        """Change the image as `record` says. Raises ImageError; the image is then unusable."""
        if isinstance(record, UnknownRecord):
            if record.record_type != NO_OP:
                self.kept.append(record)
            self.skipped[record.record_type] = self.skipped.get(record.record_type, 0) + 1
            return
        _APPLY[type(record)](self, record)

    def _topic(self, record: Any) -> TopicInfo:
        topic = self.topics_by_id.get(record.topic_id)
        if topic is None:
            raise ImageError(f"{type(record).__name__} of unknown topic id {record.topic_id.hex()}")
        return topic

    def _apply_topic(self, record: TopicRecord) -> None:
        self.add_topic(TopicInfo(record.name, bytes(record.topic_id)))

    def _apply_remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self._topic(record)
        del self.topics_by_id[topic.topic_id], self.topics[topic.name]
        unified = topic.name.replace(".", "_")
        if unified in self._collisions:
            self._collisions[unified].discard(topic.name)
            if not self._collisions[unified]:
                del self._collisions[unified]

    def _apply_partition(self, record: PartitionRecord) -> None:
        topic = self._topic(record)
        partition = PartitionInfo(
            partition=record.partition_id,
            replicas=list(record.replicas),
            isr=list(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            directories=[bytes(directory) for directory in record.directories],
            leader_recovery_state=record.leader_recovery_state,
            adding_replicas=list(record.adding_replicas),
            removing_replicas=list(record.removing_replicas),
            eligible_leader_replicas=list(record.eligible_leader_replicas or ()),
            last_known_elr=list(record.last_known_elr or ()),
        )
        if record.partition_id < len(topic.partitions):
            topic.partitions[record.partition_id] = partition
        elif record.partition_id == len(topic.partitions):
            topic.partitions.append(partition)
        else:
            raise ImageError(
                f"{topic.name}: partition {record.partition_id} follows "
                f"{len(topic.partitions)} partitions"
            )

    def _apply_partition_change(self, record: PartitionChangeRecord) -> None:
        topic = self._topic(record)
        if not 0 <= record.partition_id < len(topic.partitions):
            raise ImageError(f"{topic.name} has no partition {record.partition_id} to change")
        partition = topic.partitions[record.partition_id] = copy(
            topic.partitions[record.partition_id]
        )
        if record.leader != NO_LEADER_CHANGE:
            partition.leader = record.leader
            partition.leader_epoch += 1
        if record.leader_recovery_state != RECOVERY_STATE_UNCHANGED:
            partition.leader_recovery_state = record.leader_recovery_state
        for name in _CHANGEABLE_LISTS:
            value = getattr(record, name)
            if value is not None:
                setattr(partition, name, list(value))
        partition.partition_epoch += 1

    def _apply_config(self, record: ConfigRecord) -> None:
        if record.resource_type == CONFIG_TOPIC and record.resource_name in self.topics:
            configs = self.topics[record.resource_name].configs
        elif record.resource_type == CONFIG_BROKER:
            configs = self.broker_configs.setdefault(record.resource_name, {})
        else:
            key = (record.resource_type, record.resource_name)
            configs = self.other_configs.setdefault(key, {})
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value

    def _apply_client_quota(self, record: ClientQuotaRecord) -> None:
        self.quotas.apply(record)

    def _apply_feature_level(self, record: FeatureLevelRecord) -> None:
        if record.feature_level:
            self.feature_levels[record.name] = record.feature_level
        else:
            self.feature_levels.pop(record.name, None)

    def _apply_acl(self, record: AccessControlEntryRecord | RemoveAccessControlEntryRecord) -> None:
        self.acls.apply(record)

    def _apply_producer_ids(self, record: ProducerIdsRecord) -> None:
        if record.next_producer_id < self.next_producer_id:
            raise ImageError(
                f"next producer id goes back from {self.next_producer_id} "
                f"to {record.next_producer_id}"
            )
        self.next_producer_id = record.next_producer_id

    def _apply_register_broker(self, record: RegisterBrokerRecord) -> None:
        self.broker_epochs[record.broker_id] = record.broker_epoch
        self.kept.append(record)

    def _apply_user(self, record: UserScramCredentialRecord) -> None:
        self.scram.upsert(record)

    def _apply_remove_user(self, record: RemoveUserScramCredentialRecord) -> None:
        if not self.scram.remove(record):
            raise ImageError(
                f"user {record.name} has no credential for mechanism {record.mechanism} to remove"
            )

    def _apply_clear_elr(self, record: ClearElrRecord) -> None:
        topics = list(self.topics.values())
        if record.topic_name:
            if record.topic_name not in self.topics:
                raise ImageError(f"ClearElrRecord of unknown topic {record.topic_name}")
            topics = [self.topics[record.topic_name]]
        for topic in topics:
            for number, partition in enumerate(topic.partitions):
                if partition.eligible_leader_replicas or partition.last_known_elr:
                    topic.partitions[number] = replace(
                        partition,
                        partition_epoch=partition.partition_epoch + 1,
                        eligible_leader_replicas=[],
                        last_known_elr=[],
                    )


_CHANGEABLE_LISTS: Final = (
    "isr",
    "replicas",
    "removing_replicas",
    "adding_replicas",
    "directories",
    "eligible_leader_replicas",
    "last_known_elr",
)

_APPLY: Final[dict[type[Any], Any]] = {
    TopicRecord: ClusterImage._apply_topic,  # noqa: SLF001
    RemoveTopicRecord: ClusterImage._apply_remove_topic,  # noqa: SLF001
    PartitionRecord: ClusterImage._apply_partition,  # noqa: SLF001
    PartitionChangeRecord: ClusterImage._apply_partition_change,  # noqa: SLF001
    ConfigRecord: ClusterImage._apply_config,  # noqa: SLF001
    ClientQuotaRecord: ClusterImage._apply_client_quota,  # noqa: SLF001
    FeatureLevelRecord: ClusterImage._apply_feature_level,  # noqa: SLF001
    ProducerIdsRecord: ClusterImage._apply_producer_ids,  # noqa: SLF001
    AccessControlEntryRecord: ClusterImage._apply_acl,  # noqa: SLF001
    RemoveAccessControlEntryRecord: ClusterImage._apply_acl,  # noqa: SLF001
    RegisterBrokerRecord: ClusterImage._apply_register_broker,  # noqa: SLF001
    ClearElrRecord: ClusterImage._apply_clear_elr,  # noqa: SLF001
    UserScramCredentialRecord: ClusterImage._apply_user,  # noqa: SLF001
    RemoveUserScramCredentialRecord: ClusterImage._apply_remove_user,  # noqa: SLF001
}
