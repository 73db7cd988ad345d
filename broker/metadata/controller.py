"""The controller: creates and removes topics, takes leadership, reserves producer ids.

Every change is one batch of records in the metadata log, applied to the image immediately. It
counts for clients only when the log is durable up to the end offset that each method returns:

    create    append ── wait until durable ── open the logs ── answer
    grow      append ── wait until durable ── open the logs ── answer
    delete    append ── wait until durable ── drop the logs ── answer
    ids       append ── wait until durable ── hand out

So a power cut cannot undo a topic that has been produced to, or a removal whose directories are
gone, and no producer id is issued twice. A crash after a creation became durable leaves a topic
without directories: the next start creates them. A crash after a removal leaves directories without
a topic: the next start deletes them (`storage.strays`). `broker.topics` waits, opens and drops.
`broker.metadata.topic_life` has the state of each topic; a name stays taken until its topic's life
has ended.

`broker.metadata.leadership` decides which partitions this broker leads.
`broker.metadata.topic_plans` turns a request for topics or partitions into records. Waiting,
answering and the choice of error for each API version belong to the handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from broker.metadata.image import PartitionInfo, TopicInfo
from broker.metadata.leadership import TakenLeadership, leadership_change, may_be_elsewhere
from broker.metadata.metadata_log import RECORDS_PER_BATCH, MetadataLog
from broker.metadata.topic_config import TopicConfigs
from broker.metadata.topic_life import TopicEvent, TopicLife, TopicLives
from broker.metadata.topic_plans import Plan, TopicPlanner, no_such_topic
from broker.metadata.topic_rules import Placement, TopicError, check_record_total
from config.topic import TopicConfig
from protocol.metadata_records import (
    ConfigRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
)

NO_BROKER_EPOCH: Final = -1
PRODUCER_IDS_PER_BLOCK: Final = 1_000  # Kafka's ProducerIdsBlock


class Created(NamedTuple):
    """The outcome of a request to create or enlarge topics, by name in the order of the answer."""

    results: dict[str, TopicInfo | TopicError]
    end_offset: int  # to wait for, before the logs are opened and the answer


class ConfigChange(NamedTuple):
    """New values of a resource's configs, None for those that go; `kind` is ConfigResource.Type."""

    kind: int
    name: str
    values: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class ProducerIdsBlock:
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
        is_blocked: Callable[[str], bool],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        """`has_directory(topic, partition)` looks on the disk; `random_bytes` makes topic ids.

        `is_blocked(topic)`: no partition of that name may be recorded (`TopicPlanner`).
        """
        self.metadata_log = metadata_log
        self.image = metadata_log.image
        self.topic_configs = TopicConfigs(topic_defaults)
        self._node_id = placement.node_id
        self._directory_id = directory_id
        self._has_directory = has_directory
        self.lives = TopicLives()
        self.planner = TopicPlanner(
            self.image,
            self.lives,
            self.topic_configs,
            placement,
            directory_id,
            random_bytes,
            is_blocked,
        )
        self._led: set[tuple[bytes, int]] = set()

    @property
    def broker_epoch(self) -> int:
        """The epoch of Kafka's last registration of this node in the directory, or -1.

        A clean stop's marker that carries it makes Kafka's next start a clean one (KIP-966).
        """
        return self.image.broker_epochs.get(self._node_id, NO_BROKER_EPOCH)

    # -- Leadership ---------------------------------------------------------------------------

    def take_leadership(self, now_ms: int, *, unclean: bool) -> TakenLeadership:
        """Take leadership of our partitions; `unclean`: the last run did not stop cleanly.

        To be called once, at start, before any log but the metadata log is opened: it fixes the
        epochs that their batches are stamped with. Configs of topics that cannot be used are
        added to the metadata log's warnings. Raises LogFailed.
        """
        result = TakenLeadership(self.metadata_log.end_offset)
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
            for reason in self.topic_configs.unusable(topic):
                self.metadata_log.warnings.append(
                    f"topic {topic.name}: {reason}; using the default"
                )

    def leads(self, topic: TopicInfo, partition: int) -> bool:
        """Whether this broker leads a partition of the image."""
        return (topic.topic_id, partition) in self._led

    def _is_elsewhere(self, topic: TopicInfo, partition: PartitionInfo) -> bool:
        if not may_be_elsewhere(partition, self._node_id, self._directory_id):
            return False
        return not self._has_directory(topic.name, partition.partition)

    # -- Topics -------------------------------------------------------------------------------

    def record(self, plan: Plan, now_ms: int, batch: bytearray | None = None) -> Created:
        """Carry out a plan in one atomic batch of records; `encode_batch` may have made it.

        Between the plan and this, no topic may have been planned or removed. Raises LogFailed
        when nothing was done.
        """
        if plan.records:
            apply = partial(self._do, plan)
            self.metadata_log.append(plan.records, now_ms, batch, apply=apply)
        return Created(plan.results, self.metadata_log.end_offset)

    def _do(self, plan: Plan) -> None:
        """Put the planned topics into the image: ten thousand records in a few ms."""
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

    def delete_topic(self, name: str, now_ms: int) -> tuple[TopicInfo, int]:
        """Remove one topic; return it and the end offset to wait for before its logs go.

        Raises TopicError, LogFailed.
        """
        topic = self.image.topics.get(name)
        if topic is None:
            raise no_such_topic()
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

    def next_producer_id_block(self, now_ms: int) -> ProducerIdsBlock:
        """Reserve the next block of producer ids. Raises LogFailed."""
        start = self.image.next_producer_id
        record = ProducerIdsRecord(
            broker_id=self._node_id,
            broker_epoch=self.broker_epoch,
            next_producer_id=start + PRODUCER_IDS_PER_BLOCK,
        )
        end_offset = self.metadata_log.append([record], now_ms)
        return ProducerIdsBlock(start, PRODUCER_IDS_PER_BLOCK, end_offset)
