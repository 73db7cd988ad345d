"""Topics as they come and go while the broker runs: the controller's word made directories.

Creating: the controller checks the request and appends the records to the metadata log, the
partitions' directories are made, and the answer waits until the metadata is durable. A crash in
between loses nothing: at start every partition of the metadata gets its directory if it has none.

Deleting: the records are appended and durable first, then everyone who waits on the partitions is
answered, and the directories are renamed and later removed (`LogManager.delete_log`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from broker.append_queue import AppendQueue
from broker.group_commit import GroupCommit
from broker.metadata.controller import Controller
from broker.metadata.image import PartitionInfo, TopicInfo
from broker.metadata.topic_rules import NewTopic, TopicError
from broker.partition import Partition, Partitions
from broker.purgatory import Purgatory
from config.topic import TopicConfig
from protocol.errors import ErrorCode
from storage.errors import UnknownPartition
from storage.log_manager import LogManager

logger = logging.getLogger("barnabas.topics")

# How long an administrative change may take to become durable before its client is told so.
METADATA_TIMEOUT_MS = 30_000
# After so many directories the loop gets a turn: making one costs some 100 µs.
DIRECTORIES_PER_TURN = 20


class Topics:
    """Creates, finds and deletes topics."""

    def __init__(
        self,
        controller: Controller,
        logs: LogManager,
        partitions: Partitions,
        metadata_partition: Partition,
        commit: GroupCommit,
        appends: AppendQueue,
        purgatory: Purgatory,
        topic_defaults: TopicConfig,
    ) -> None:
        self._controller = controller
        self._logs = logs
        self._partitions = partitions
        self._metadata_partition = metadata_partition
        self._commit = commit
        self._appends = appends
        self._purgatory = purgatory
        self._defaults = topic_defaults

    def by_name(self, name: str) -> TopicInfo | None:
        """Return the topic of that name, or None."""
        return self._controller.image.topics.get(name)

    def by_id(self, topic_id: bytes) -> TopicInfo | None:
        """Return the topic of that id, or None."""
        return self._controller.image.topics_by_id.get(topic_id)

    def all(self) -> list[TopicInfo]:
        """Return every topic."""
        return list(self._controller.image.topics.values())

    def open_all(self) -> None:
        """Open the log of every partition of the metadata: at start, before anyone is served."""
        for topic in self.all():
            config = self.config_of(topic)
            for partition in topic.partitions:
                self._open(topic, partition, config)

    async def create(self, new_topics: Sequence[NewTopic]) -> list[TopicInfo | TopicError]:
        """Create topics; each has its own outcome. Returns when they are durable."""
        outcomes = self._controller.create_topics(new_topics)
        opened = 0
        for outcome in outcomes:
            if isinstance(outcome, TopicError):
                continue
            config = self.config_of(outcome)
            for partition in outcome.partitions:
                self._open(outcome, partition, config)
                opened += 1
                if opened % DIRECTORIES_PER_TURN == 0:
                    await asyncio.sleep(0)
            logger.info(
                "created topic %s with %d partitions", outcome.name, len(outcome.partitions)
            )
        await self.metadata_durable()
        return outcomes

    async def delete(self, name: str) -> None:
        """Delete a topic. Raises TopicError if there is none of that name."""
        topic = self.by_name(name)
        self._controller.delete_topic(name)
        assert topic is not None, "the controller has deleted it"
        await self.metadata_durable()
        for info in topic.partitions:
            partition = self._partitions.remove(name, info.partition)
            if partition is None:
                continue
            self._appends.drop(partition, UnknownPartition(name, info.partition))
            self._commit.drop(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self._purgatory.release_all(partition)
            self._logs.delete_log(name, info.partition)
        logger.info("deleted topic %s with %d partitions", name, len(topic.partitions))

    async def metadata_durable(self) -> None:
        """Wait until what the metadata log holds is durable. Raises TopicError if it cannot be."""
        code = await self._commit.durable(
            self._metadata_partition, self._metadata_partition.log.end_offset, METADATA_TIMEOUT_MS
        )
        if code:
            raise TopicError(code, "the metadata log could not be made durable")

    async def next_producer_ids(self) -> range:
        """Return a block of producer ids that is recorded and durable."""
        block = self._controller.next_producer_id_block()
        await self.metadata_durable()
        return block

    def config_of(self, topic: TopicInfo) -> TopicConfig:
        """Return the broker's defaults with the topic's overrides."""
        return self._defaults.with_overrides(topic.configs) if topic.configs else self._defaults

    def _open(self, topic: TopicInfo, info: PartitionInfo, config: TopicConfig) -> None:
        log = self._logs.open_log(
            topic.name, info.partition, topic.topic_id, config, info.leader_epoch, create=True
        )
        self._partitions.add(log)
