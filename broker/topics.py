"""Topics as they come and go while the broker runs: the controller's word, waited for and done.

The controller appends records and says which end offset of the metadata log to wait for
(`broker.metadata.controller` draws the order of the steps); the waiting, the partitions that
handlers see, and everyone who waits on a partition that goes away, are here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from broker.append_queue import AppendQueue
from broker.clock import Clock
from broker.group_commit import GroupCommit
from broker.metadata.controller import ConfigChange, Controller
from broker.metadata.growth import MorePartitions
from broker.metadata.image import TopicInfo
from broker.metadata.topic_rules import NewTopic, TopicError
from broker.partition import Partition, Partitions
from broker.purgatory import Purgatory
from config.topic import TopicConfig
from protocol.errors import ErrorCode
from storage.errors import LogFailed, StorageError, UnknownPartition

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
        partitions: Partitions,
        metadata_partition: Partition,
        commit: GroupCommit,
        appends: AppendQueue,
        purgatory: Purgatory,
        clock: Clock,
    ) -> None:
        self._controller = controller
        self._partitions = partitions
        self._metadata_partition = metadata_partition
        self._commit = commit
        self._appends = appends
        self._purgatory = purgatory
        self._clock = clock
        self._listeners: list[Callable[[str, TopicInfo | None], None]] = []

    def listen(self, listener: Callable[[str, TopicInfo | None], None]) -> None:
        """Call `listener(name, topic)` when one was created or enlarged; None when deleted."""
        self._listeners.append(listener)

    def by_name(self, name: str) -> TopicInfo | None:
        """Return the topic of that name, or None."""
        return self._controller.image.topics.get(name)

    def by_id(self, topic_id: bytes) -> TopicInfo | None:
        """Return the topic of that id, or None."""
        return self._controller.image.topics_by_id.get(topic_id)

    def all(self) -> list[TopicInfo]:
        """Return every topic."""
        return list(self._controller.image.topics.values())

    def config_of(self, topic: TopicInfo) -> TopicConfig:
        """Return the broker's defaults with the topic's own values over them."""
        return self._controller.config_of(topic)

    def open_all(self) -> None:
        """Open the log of every partition that we lead: at start, before anyone is served."""
        for topic in self.all():
            for _ in self._open_logs(topic):
                pass

    async def open_offline(self) -> None:
        """Try again to open the logs that could not be opened."""
        for name in dict.fromkeys(name for name, _ in self._partitions.offline()):
            topic = self.by_name(name)
            if topic is not None:
                await self._open([topic])

    def _open_logs(self, topic: TopicInfo) -> Iterator[Partition]:
        """Open what is not open of `topic`, one at a step; what cannot be opened is offline."""

        def failed(number: int, error: OSError | StorageError) -> None:
            failure = LogFailed(f"{topic.name}-{number}", f"cannot be opened: {error}")
            if self._partitions.set_offline(topic.name, number, failure):
                logger.error("%s. It is offline, and tried again every second.", failure)

        for log in self._controller.open_logs(topic, failed):
            yield self._partitions.add(log)

    def validate(self, new_topics: Sequence[NewTopic]) -> dict[str, TopicInfo | TopicError]:
        """Return what `create` would say, and create nothing."""
        now_ms = self._clock.now_ms()
        return self._controller.create_topics(new_topics, now_ms, validate_only=True).results

    async def create(self, new_topics: Sequence[NewTopic]) -> dict[str, TopicInfo | TopicError]:
        """Create topics, each with an outcome of its own, in the order in which Kafka answers.

        Returns when those created are durable and can be produced to. Raises LogFailed, or
        TopicError if the metadata log cannot be made durable.
        """
        created = self._controller.create_topics(new_topics, self._clock.now_ms())
        topics = [outcome for outcome in created.results.values() if isinstance(outcome, TopicInfo)]
        if topics:
            await self._durable(created.end_offset)
        await self._open(topics)
        for topic in topics:
            logger.info("created topic %s with %d partitions", topic.name, len(topic.partitions))
        return created.results

    def validate_growth(self, asked: Sequence[MorePartitions]) -> dict[str, TopicInfo | TopicError]:
        """Return what `grow` would say, and change nothing."""
        now_ms = self._clock.now_ms()
        return self._controller.create_partitions(asked, now_ms, validate_only=True).results

    async def grow(self, asked: Sequence[MorePartitions]) -> dict[str, TopicInfo | TopicError]:
        """Add partitions to topics, each with an outcome of its own.

        Returns when those added are durable and can be produced to. Raises LogFailed, or
        TopicError if the metadata log cannot be made durable.
        """
        grown = self._controller.create_partitions(asked, self._clock.now_ms())
        topics = [outcome for outcome in grown.results.values() if isinstance(outcome, TopicInfo)]
        if topics:
            await self._durable(grown.end_offset)
        await self._open(topics)
        for topic in topics:
            logger.info("topic %s has %d partitions now", topic.name, len(topic.partitions))
        return grown.results

    async def _open(self, topics: Iterable[TopicInfo]) -> None:
        """Open what is not open of `topics`; the loop gets its turns meanwhile."""
        opened = 0
        for topic in topics:
            for _ in self._open_logs(topic):
                opened += 1
                if opened % DIRECTORIES_PER_TURN == 0:
                    await asyncio.sleep(0)
            self._changed(topic.name, topic)

    def _changed(self, name: str, topic: TopicInfo | None) -> None:
        for listener in self._listeners:
            listener(name, topic)

    async def delete(self, name: str) -> None:
        """Delete a topic. Raises TopicError if there is none of that name, LogFailed."""
        topic, end_offset = self._controller.delete_topic(name, self._clock.now_ms())
        await self._durable(end_offset)
        for info in topic.partitions:
            partition = self._partitions.remove(name, info.partition)
            if partition is not None:
                self._appends.drop(partition, UnknownPartition(name, info.partition))
                self._commit.drop(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                self._purgatory.release_all(partition)
        self._controller.drop_logs(topic)
        self._changed(name, None)
        logger.info("deleted topic %s with %d partitions", name, len(topic.partitions))

    async def record_configs(self, changes: Sequence[ConfigChange]) -> None:
        """Record changes of configs; return when they are durable. Raises LogFailed, TopicError."""
        await self._durable(self._controller.set_configs(changes, self._clock.now_ms()))

    async def next_producer_ids(self) -> range:
        """Return a block of producer ids that is recorded and durable."""
        block = self._controller.next_producer_id_block(self._clock.now_ms())
        await self._durable(block.end_offset)
        return range(block.start, block.start + block.count)

    async def record(self, records: Sequence[Any]) -> None:
        """Write `records` to the metadata log, and return when they are durable.

        For changes that concern the image alone: no log is made, opened or dropped. Raises
        LogFailed, or TopicError if the metadata log cannot be made durable.
        """
        await self._durable(self._controller.metadata_log.append(records, self._clock.now_ms()))

    async def _durable(self, end_offset: int) -> None:
        code = await self._commit.durable(self._metadata_partition, end_offset, METADATA_TIMEOUT_MS)
        if code:
            raise TopicError(code, "the metadata log could not be made durable")
