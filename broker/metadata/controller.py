"""The controller: creates and removes topics, takes leadership, gives out producer ids.

Every change is a batch of records in the metadata log, applied to the image at once. It has
happened for others only when the log is durable up to the end offset that each method returns:

    create    append ── wait until durable ── open_logs ── answer
    grow      append ── wait until durable ── open_logs ── answer
    delete    append ── wait until durable ── drop_logs ── answer
    ids       append ── wait until durable ── hand out

So nothing can be produced to a topic that a power cut could still undo, no directory goes away
for a removal that could be undone, and no producer id can be given out twice. A crash between the
append and `open_logs` leaves a topic without directories: the next start makes them. One between
the append and `drop_logs` leaves directories without a topic: they are reported as strays by the
log manager and left alone. While a topic is between the two, its name stays taken.

What is led from the start on is decided by `broker.metadata.leadership`.

The checks of a request to create topics are in `broker.metadata.topic_rules`, those of one for
more partitions in `broker.metadata.growth`. Waiting, answering
and the choice of error per API version are the handlers' part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from broker.metadata.growth import MorePartitions, added_replicas
from broker.metadata.image import (
    CONFIG_TOPIC,
    PartitionInfo,
    TopicInfo,
)
from broker.metadata.leadership import Leadership, leadership_change, may_be_elsewhere
from broker.metadata.metadata_log import RECORDS_PER_BATCH, MetadataLog
from broker.metadata.topic_config import checked_topic_config, usable_topic_config
from broker.metadata.topic_rules import (
    NewTopic,
    Placement,
    TopicError,
    check_new_name,
    check_partition_total,
    check_record_total,
    duplicate_names,
    partition_replicas,
)
from config.topic import TopicConfig
from protocol.errors import ErrorCode
from protocol.metadata_records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from storage.errors import StorageError, UnknownPartition

if TYPE_CHECKING:
    from storage.log import Log

NO_BROKER_EPOCH: Final = -1
PRODUCER_IDS_PER_BLOCK: Final = 1_000  # Kafka's ProducerIdsBlock
_RESERVED_TOPIC_IDS: Final = (bytes(16), bytes(15) + b"\x01")  # ZERO_UUID, METADATA_TOPIC_ID


class Logs(Protocol):
    """What the controller needs of the log manager."""

    def open_log(
        self,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: TopicConfig,
        leader_epoch: int,
        *,
        create: bool = False,
    ) -> Log:
        """Open a partition's log, or create it."""

    def delete_log(self, topic: str, partition: int) -> str:
        """Close a partition's log and rename its directory away."""


class Created(NamedTuple):
    """What became of a request to create or enlarge topics, by name in the order of the answer."""

    results: dict[str, TopicInfo | TopicError]
    end_offset: int  # to wait for, before `open_logs` and the answer


class ConfigChange(NamedTuple):
    """New values of a resource's configs, None for those that go; `kind` is ConfigResource.Type."""

    kind: int
    name: str
    values: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class ProducerIds:
    """A block of producer ids, of which `start` is the first."""

    start: int
    count: int
    end_offset: int  # to wait for, before the first is handed out


class Controller:
    """Everything that changes the metadata of this one-node cluster."""

    def __init__(
        self,
        metadata_log: MetadataLog,
        logs: Logs,
        *,
        placement: Placement,
        topic_defaults: TopicConfig,
        directory_id: bytes,
        has_directory: Callable[[str, int], bool],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        """`has_directory(topic, partition)` looks on the disk; `random_bytes` makes topic ids."""
        self.metadata_log = metadata_log
        self.image = metadata_log.image
        self.topic_defaults = topic_defaults
        self._logs = logs
        self._placement = placement
        self._node_id = placement.node_id
        self._directory_id = directory_id
        self._has_directory = has_directory
        self._random_bytes = random_bytes
        self._dropping: dict[str, TopicInfo] = {}
        self._led: set[tuple[bytes, int]] = set()
        self._opened: set[tuple[bytes, int]] = set()

    @property
    def broker_epoch(self) -> int:
        """The epoch of Kafka's last registration of this node in the directory, or -1.

        A clean stop's marker that carries it makes Kafka's next start a clean one (KIP-966).
        """
        return self.image.broker_epochs.get(self._node_id, NO_BROKER_EPOCH)

    # -- Leadership ---------------------------------------------------------------------------

    def take_leadership(self, now_ms: int, *, unclean: bool) -> Leadership:
        """Lead what is ours; `unclean` says that the last run did not end by a clean stop.

        To be called once, at start, before any log but the metadata log is opened: it fixes the
        epochs that their batches are stamped with. Configs of topics that cannot be used are
        added to the metadata log's warnings. Raises LogFailed.
        """
        result = Leadership(self.metadata_log.end_offset)
        changes: list[PartitionChangeRecord] = []
        for topic in self.image.topics.values():
            for partition in topic.partitions:
                name = f"{topic.name}-{partition.partition}"
                if self._node_id not in partition.replicas:
                    result.not_ours.append(name)
                elif self._is_elsewhere(topic, partition):
                    result.elsewhere.append(name)
                else:
                    result.led.append((topic, partition))
                    change = leadership_change(
                        topic.topic_id,
                        partition,
                        self._node_id,
                        self._directory_id,
                        unclean=unclean,
                    )
                    if change is not None:
                        changes.append(change)
        if unclean or changes:
            self.metadata_log.begin_epoch(now_ms)
        for start in range(0, len(changes), RECORDS_PER_BATCH):
            self.metadata_log.append(changes[start : start + RECORDS_PER_BATCH], now_ms)
        self._led = {(topic.topic_id, partition.partition) for topic, partition in result.led}
        self._report_configs()
        result.changed_count = len(changes)
        result.end_offset = self.metadata_log.end_offset
        return result

    def _report_configs(self) -> None:
        for topic in self.image.topics.values():
            for reason in usable_topic_config(self.topic_defaults, topic.configs)[1]:
                self.metadata_log.warnings.append(
                    f"topic {topic.name}: {reason}: the default is used instead"
                )

    def leads(self, topic: TopicInfo, partition: int) -> bool:
        """Whether this broker leads a partition of the image."""
        return (topic.topic_id, partition) in self._led

    def _is_elsewhere(self, topic: TopicInfo, partition: PartitionInfo) -> bool:
        if not may_be_elsewhere(partition, self._node_id, self._directory_id):
            return False
        return not self._has_directory(topic.name, partition.partition)

    # -- Topics -------------------------------------------------------------------------------

    def create_topics(
        self, topics: Sequence[NewTopic], now_ms: int, *, validate_only: bool = False
    ) -> Created:
        """Create topics, each by itself, in one atomic batch of records.

        A topic that cannot be created has a TopicError in the results and hinders no other,
        unless the request is too large as a whole. Raises LogFailed when nothing was created.
        """
        results: dict[str, TopicInfo | TopicError] = {}
        records: list[Any] = []
        duplicates = duplicate_names(topics)
        single = [topic for topic in topics if topic.name not in duplicates]
        try:
            check_partition_total(single, self._placement.default_partition_count)
            for topic in single:
                try:
                    info, new_records = self._plan(topic)
                except TopicError as error:
                    results[topic.name] = error
                else:
                    results[topic.name] = info
                    records += new_records
            check_record_total(len(records))
        except TopicError as error:  # of the whole request
            results = dict.fromkeys((topic.name for topic in single), error)
            records = []
        for name in duplicates:
            results[name] = TopicError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        if records and not validate_only:
            self.metadata_log.append(records, now_ms)
            for name, result in results.items():
                if isinstance(result, TopicInfo):
                    results[name] = topic_made = self.image.topics[name]
                    self._led |= {
                        (topic_made.topic_id, partition.partition)
                        for partition in topic_made.partitions
                    }
        return Created(results, self.metadata_log.end_offset)

    def create_topic(
        self,
        name: str,
        now_ms: int,
        *,
        partition_count: int = -1,
        configs: Mapping[str, str | None] | None = None,
    ) -> tuple[TopicInfo, int]:
        """Create one topic; return it and the end offset to wait for before `open_logs`.

        Raises TopicError, LogFailed.
        """
        asked = NewTopic(name=name, partition_count=partition_count, configs=configs or {})
        created = self.create_topics([asked], now_ms)
        result = created.results[name]
        if isinstance(result, TopicError):
            raise result
        return result, created.end_offset

    def open_logs(
        self, topic: TopicInfo, failed: Callable[[int, OSError | StorageError], None] | None = None
    ) -> Iterator[Log]:
        """Open or create the logs of `topic` that we lead and that are not open, one at a step.

        An iterator, so that a caller may do other work between the partitions of a large topic.
        It ends early when the topic is removed meanwhile. Calls `failed` with the number of a
        partition that cannot be opened, and why; without it, raises. The partitions that are not
        open then are opened by the next call or start.
        """
        for partition in topic.partitions:
            if self.image.topics_by_id.get(topic.topic_id) is not topic:
                return
            config = self.config_of(topic)  # it may change between two steps
            key = (topic.topic_id, partition.partition)
            if key in self._led and key not in self._opened:
                self._opened.add(key)
                try:
                    log = self._open_log(topic, partition, config)
                except (OSError, StorageError) as error:
                    if failed is None:
                        raise
                    failed(partition.partition, error)
                else:
                    yield log

    def _open_log(self, topic: TopicInfo, partition: PartitionInfo, config: TopicConfig) -> Log:
        try:
            return self._logs.open_log(
                topic.name,
                partition.partition,
                topic.topic_id,
                config,
                partition.leader_epoch,
                create=True,
            )
        except BaseException:
            self._opened.discard((topic.topic_id, partition.partition))
            raise

    def config_of(self, topic: TopicInfo) -> TopicConfig:
        """Return the configuration of a topic: the broker's defaults under its own values.

        A value that cannot be used (Kafka may have accepted it) leaves the default in place.
        """
        return usable_topic_config(self.topic_defaults, topic.configs)[0]

    def delete_topic(self, name: str, now_ms: int) -> tuple[TopicInfo, int]:
        """Remove one topic; return it and the end offset to wait for before `drop_logs`.

        Raises TopicError, LogFailed.
        """
        topic = self.image.topics.get(name)
        if topic is None:
            raise _no_such_topic()
        return topic, self.delete_topics([topic], now_ms)

    def delete_topics(self, topics: Iterable[TopicInfo], now_ms: int) -> int:
        """Remove topics of the image in one batch; return the end offset to wait for."""
        gone = list(topics)
        if gone:
            records = [RemoveTopicRecord(topic_id=topic.topic_id) for topic in gone]
            self.metadata_log.append(records, now_ms)
            self._dropping |= {topic.name: topic for topic in gone}
        return self.metadata_log.end_offset

    def drop_logs(self, topic: TopicInfo) -> None:
        """Rename the logs of a removed topic away; its name may then be used again.

        Raises the first of what deleting a log raised, after trying all; what is left then is a
        stray of the next start.
        """
        self._dropping.pop(topic.name, None)
        failure: Exception | None = None
        for partition in topic.partitions:
            if not self.leads(topic, partition.partition):
                continue
            self._led.discard((topic.topic_id, partition.partition))
            self._opened.discard((topic.topic_id, partition.partition))
            try:
                self._logs.delete_log(topic.name, partition.partition)
            except UnknownPartition:
                continue  # removed before it was opened
            except (OSError, StorageError) as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _plan(self, topic: NewTopic) -> tuple[TopicInfo, list[Any]]:
        """Check one topic and return it with the records that make it."""
        check_new_name(topic.name, self.image)
        if topic.name in self._dropping:
            raise TopicError(
                ErrorCode.TOPIC_ALREADY_EXISTS,
                f"Topic '{topic.name}' already exists: its removal is not finished.",
            )
        configs = checked_topic_config(self.topic_defaults, topic.configs)
        replicas = partition_replicas(topic, self._placement)
        topic_id = self._new_topic_id()
        records: list[Any] = [TopicRecord(name=topic.name, topic_id=topic_id)]
        records += [
            ConfigRecord(
                resource_type=CONFIG_TOPIC, resource_name=topic.name, name=name, value=value
            )
            for name, value in sorted(configs.items())
        ]
        info = TopicInfo(topic.name, topic_id, configs=configs)
        for number, nodes in enumerate(replicas):
            directories = [self._directory_id] * len(nodes)
            info.partitions.append(PartitionInfo(number, nodes, nodes, nodes[0], 0, 0, directories))
            records.append(self._new_partition(topic_id, number, nodes))
        return info, records

    def _new_partition(self, topic_id: bytes, number: int, nodes: list[int]) -> PartitionRecord:
        return PartitionRecord(
            partition_id=number,
            topic_id=topic_id,
            replicas=nodes,
            isr=nodes,
            leader=nodes[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=[self._directory_id] * len(nodes),
        )

    def create_partitions(
        self, topics: Sequence[MorePartitions], now_ms: int, *, validate_only: bool = False
    ) -> Created:
        """Add partitions to topics, in one atomic batch of records.

        A topic that cannot grow has a TopicError in the results and hinders no other. Raises
        LogFailed when nothing was added.
        """
        counts = Counter(asked.name for asked in topics)
        results: dict[str, TopicInfo | TopicError] = {
            name: TopicError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            for name, count in counts.items()
            if count > 1
        }
        records: list[PartitionRecord] = []
        for asked in topics:
            if counts[asked.name] > 1:
                continue
            topic = self.image.topics.get(asked.name)
            if topic is None:
                results[asked.name] = _no_such_topic()
                continue
            try:
                added = added_replicas(topic, asked, self._placement, record_count=len(records))
            except TopicError as error:
                results[asked.name] = error
                continue
            results[asked.name] = topic
            records += [
                self._new_partition(topic.topic_id, number, nodes)
                for number, nodes in enumerate(added, len(topic.partitions))
            ]
        if records and not validate_only:
            self.metadata_log.append(records, now_ms)
            self._led |= {(record.topic_id, record.partition_id) for record in records}
        return Created(results, self.metadata_log.end_offset)

    def _new_topic_id(self) -> bytes:
        """A random UUID (RFC 9562, version 4) that Kafka would give out too.

        Kafka gives none whose Base64 form begins with a dash, which tools take for an option.
        """
        while True:
            raw = bytearray(self._random_bytes(16))
            raw[6] = raw[6] & 0x0F | 0x40
            raw[8] = raw[8] & 0x3F | 0x80
            topic_id = bytes(raw)
            begins_with_dash = topic_id[0] >> 2 == 62  # `-` is digit 62 of base64url
            if topic_id in _RESERVED_TOPIC_IDS or begins_with_dash:
                continue
            if topic_id not in self.image.topics_by_id:
                return topic_id

    # -- Configs ------------------------------------------------------------------------------

    def set_configs(self, changes: Iterable[ConfigChange], now_ms: int) -> int:
        """Record changes that were checked, in one batch; return the end offset to wait for.

        Raises TopicError when a request makes too many records, LogFailed.
        """
        records = [
            ConfigRecord(
                resource_type=change.kind, resource_name=change.name, name=name, value=value
            )
            for change in changes
            for name, value in change.values.items()
        ]
        check_record_total(len(records))
        if records:
            self.metadata_log.append(records, now_ms)
        return self.metadata_log.end_offset

    # -- Producer ids -------------------------------------------------------------------------

    def next_producer_id_block(self, now_ms: int) -> ProducerIds:
        """Reserve the next block of producer ids. Raises LogFailed."""
        start = self.image.next_producer_id
        record = ProducerIdsRecord(
            broker_id=self._node_id,
            broker_epoch=self.broker_epoch,
            next_producer_id=start + PRODUCER_IDS_PER_BLOCK,
        )
        end_offset = self.metadata_log.append([record], now_ms)
        return ProducerIds(start, PRODUCER_IDS_PER_BLOCK, end_offset)


def _no_such_topic() -> TopicError:
    return TopicError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
    )
