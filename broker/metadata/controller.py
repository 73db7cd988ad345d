"""The controller: creates and removes topics, takes leadership, gives out producer ids.

Every change is a batch of records in the metadata log, applied to the image at once. It has
happened for others only when the log is durable up to the end offset that each method returns:

    create    append ── wait until durable ── open the logs ── answer
    grow      append ── wait until durable ── open the logs ── answer
    delete    append ── wait until durable ── drop the logs ── answer
    ids       append ── wait until durable ── hand out

So nothing can be produced to a topic that a power cut could still undo, no directory goes away
for a removal that could be undone, and no producer id can be given out twice. A crash after a
creation became durable leaves a topic without directories: the next start makes them. One after a
removal leaves directories without a topic: they are reported as strays by the log manager and left
alone. Waiting, opening and dropping are `broker.topics`; where each topic is on its way says
`broker.metadata.topic_life`, and its name stays taken until it has ended.

What is led from the start on is decided by `broker.metadata.leadership`.

The checks of a request to create topics are in `broker.metadata.topic_rules`, those of one for
more partitions in `broker.metadata.growth`. Waiting, answering
and the choice of error per API version are the handlers' part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from broker.metadata.growth import MorePartitions, added_replicas
from broker.metadata.image import (
    CONFIG_TOPIC,
    PartitionInfo,
    TopicInfo,
)
from broker.metadata.leadership import Leadership, leadership_change, may_be_elsewhere
from broker.metadata.metadata_log import RECORDS_PER_BATCH, MetadataLog
from broker.metadata.topic_config import checked_topic_config, usable_topic_config
from broker.metadata.topic_life import TopicEvent, TopicLife, TopicLives, TopicState
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

NO_BROKER_EPOCH: Final = -1
PRODUCER_IDS_PER_BLOCK: Final = 1_000  # Kafka's ProducerIdsBlock
_RESERVED_TOPIC_IDS: Final = (bytes(16), bytes(15) + b"\x01")  # ZERO_UUID, METADATA_TOPIC_ID


class Plan(NamedTuple):
    """What a request to create or enlarge topics comes to, and the records that make it so."""

    results: dict[str, TopicInfo | TopicError]
    records: Sequence[Any]  # which say what `results` and `added` have: tested by a replay
    added: Mapping[str, Sequence[PartitionInfo]] | None = None  # to topics that exist


class Created(NamedTuple):
    """What became of a request to create or enlarge topics, by name in the order of the answer."""

    results: dict[str, TopicInfo | TopicError]
    end_offset: int  # to wait for, before the logs are opened and the answer


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
        self._placement = placement
        self._node_id = placement.node_id
        self._directory_id = directory_id
        self._has_directory = has_directory
        self._random_bytes = random_bytes
        self.lives = TopicLives()
        self._led: set[tuple[bytes, int]] = set()

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
            self.lives.begin(topic)
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

    def create_topics(self, topics: Sequence[NewTopic], now_ms: int) -> Created:
        """Plan and record new topics. Raises LogFailed when nothing was created."""
        return self.record(self.plan_topics(topics), now_ms)

    def record(self, plan: Plan, now_ms: int, batch: bytearray | None = None) -> Created:
        """Do what was planned, in one atomic batch of records; `encode_batch` may have made it.

        Between the plan and this, no topic may have been planned or removed. Raises LogFailed
        when nothing was done.
        """
        if plan.records:
            apply = partial(self._do, plan)
            self.metadata_log.append(plan.records, now_ms, batch, apply=apply)
        return Created(plan.results, self.metadata_log.end_offset)

    def _do(self, plan: Plan) -> None:
        """Put what the plan has made into the image: of ten thousand records in a few ms."""
        for topic in plan.results.values():
            if not isinstance(topic, TopicInfo):
                continue
            if plan.added is None:
                added: Sequence[PartitionInfo] = topic.partitions
                self.image.add_topic(topic)
                self.lives.begin(topic)
            else:
                added = plan.added[topic.name]
                topic.partitions += added
                self.lives.of(topic).move(TopicEvent.GROWN)
            self._led |= {(topic.topic_id, info.partition) for info in added}

    def plan_topics(self, topics: Sequence[NewTopic]) -> Plan:
        """Check new topics, each by itself, and change nothing.

        A topic that cannot be created has a TopicError in the results and hinders no other,
        unless the request is too large as a whole.
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
        return Plan(results, records)

    def create_topic(
        self,
        name: str,
        now_ms: int,
        *,
        partition_count: int = -1,
        configs: Mapping[str, str | None] | None = None,
    ) -> tuple[TopicInfo, int]:
        """Create one topic; return it and the end offset to wait for before its logs.

        Raises TopicError, LogFailed.
        """
        asked = NewTopic(name=name, partition_count=partition_count, configs=configs or {})
        created = self.create_topics([asked], now_ms)
        result = created.results[name]
        if isinstance(result, TopicError):
            raise result
        return result, created.end_offset

    def config_of(self, topic: TopicInfo) -> TopicConfig:
        """Return the configuration of a topic: the broker's defaults under its own values.

        A value that cannot be used (Kafka may have accepted it) leaves the default in place.
        """
        return usable_topic_config(self.topic_defaults, topic.configs)[0]

    def delete_topic(self, name: str, now_ms: int) -> tuple[TopicInfo, int]:
        """Remove one topic; return it and the end offset to wait for before its logs go.

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
            for topic in gone:
                self.lives.of(topic).move(TopicEvent.REMOVED)
        return self.metadata_log.end_offset

    def forget(self, life: TopicLife) -> None:
        """Free the name of a topic that is deleted: its logs are dropped."""
        for partition in life.topic.partitions:
            self._led.discard((life.topic.topic_id, partition.partition))
        self.lives.end(life)

    def _plan(self, topic: NewTopic) -> tuple[TopicInfo, list[Any]]:
        """Check one topic and return it with the records that make it."""
        life = self.lives.of_name(topic.name)
        if life is not None and life.is_in_doubt:
            raise TopicError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The metadata log failed before topic '{topic.name}' was durable.",
            )
        check_new_name(topic.name, self.image)
        if life is not None:
            raise TopicError(
                ErrorCode.KAFKA_STORAGE_ERROR
                if life.state is TopicState.UNDECIDED
                else ErrorCode.REQUEST_TIMED_OUT,
                f"The removal of an older topic '{topic.name}' is not finished.",
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
        info.partitions = self._new_partitions(0, replicas)
        records += _partition_records(topic_id, info.partitions)
        return info, records

    def _new_partitions(self, first: int, replicas: Iterable[list[int]]) -> list[PartitionInfo]:
        return [
            PartitionInfo(number, nodes, nodes, nodes[0], 0, 0, [self._directory_id] * len(nodes))
            for number, nodes in enumerate(replicas, first)
        ]

    def create_partitions(self, topics: Sequence[MorePartitions], now_ms: int) -> Created:
        """Plan and record more partitions. Raises LogFailed when nothing was added."""
        return self.record(self.plan_partitions(topics), now_ms)

    def plan_partitions(self, topics: Sequence[MorePartitions]) -> Plan:
        """Check which partitions can be added to topics, and change nothing.

        A topic that cannot grow has a TopicError in the results and hinders no other.
        """
        counts = Counter(asked.name for asked in topics)
        results: dict[str, TopicInfo | TopicError] = {
            name: TopicError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            for name, count in counts.items()
            if count > 1
        }
        records: list[PartitionRecord] = []
        partitions: dict[str, Sequence[PartitionInfo]] = {}
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
            new = partitions[asked.name] = self._new_partitions(len(topic.partitions), added)
            records += _partition_records(topic.topic_id, new)
        return Plan(results, records, partitions)

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


def _partition_records(
    topic_id: bytes, partitions: Iterable[PartitionInfo]
) -> Iterator[PartitionRecord]:
    for info in partitions:
        yield PartitionRecord(
            partition_id=info.partition,
            topic_id=topic_id,
            replicas=info.replicas,
            isr=info.isr,
            leader=info.leader,
            leader_epoch=info.leader_epoch,
            partition_epoch=info.partition_epoch,
            directories=info.directories,
        )


def _no_such_topic() -> TopicError:
    return TopicError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
    )
