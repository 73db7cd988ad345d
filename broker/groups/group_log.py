"""`__consumer_offsets`: finds the partition of a group, appends to it, and waits for the disk.

The topic is Kafka's, in name, partition count, configs, keys and values. A group belongs to the
same partition as in Kafka: the hash of its id modulo the number of partitions. The coordinator
reads that number at the start. As in Kafka, groups move to other partitions at the next start if
the topic has been given more of them.

An operation writes one batch. It bypasses the append queue: operations on groups are small, and
their clients wait for durability anyway.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from broker.error_mapping import error_code_of
from broker.groups.errors import GroupError, code_of_write
from broker.groups.group import GroupRecord
from broker.metadata.topic_rules import GROUP_TOPIC, NewTopic, TopicError
from broker.partitions.group_commit import GroupCommit
from broker.partitions.partition import Partition, Partitions
from broker.runtime.clock import Clock
from broker.topics import Topics
from config.broker import BrokerConfig
from config.topic import SEGMENT_BYTES_MIN
from protocol.errors import ErrorCode
from protocol.group_records import encode_key, encode_value
from protocol.records import Record, build
from storage.errors import StorageError
from storage.producers.producer_state import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE

_RECORD_BYTES_OVER = 32  # at least what a record needs beside key and value
_BATCH_BYTES_OVER = 128
_HASH_CACHE_SIZE = 16_384


def java_hash(text: str) -> int:
    """Return Java's String.hashCode: over UTF-16 units, as a signed 32-bit integer."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def java_length(text: str) -> int:
    """Return Java's String.length: the number of UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


@functools.lru_cache(_HASH_CACHE_SIZE)
def partition_of(group_id: str, count: int) -> int:
    """Return the partition of a group: Kafka's Utils.abs, for which the smallest int is 0."""
    value = java_hash(group_id)
    return 0 if value == -(1 << 31) else abs(value) % count


class Producer(NamedTuple):
    """The producer of a transaction."""

    producer_id: int
    epoch: int


class GroupLog:
    """The partitions of `__consumer_offsets`."""

    def __init__(
        self,
        topics: Topics,
        partitions: Partitions,
        commit: GroupCommit,
        config: BrokerConfig,
        clock: Clock,
    ) -> None:
        self._topics = topics
        self._partitions = partitions
        self._commit = commit
        self._config = config
        self._clock = clock

    def count(self) -> int:
        """Return the topic's number of partitions; 0 if it does not exist."""
        topic = self._topics.by_name(GROUP_TOPIC)
        return 0 if topic is None else len(topic.partitions)

    async def create(self) -> None:
        """Create the topic unless it exists. Raises GroupError."""
        config = self._config
        wanted = NewTopic(
            name=GROUP_TOPIC,
            partition_count=config.offsets_topic_num_partitions,
            replication_factor=1,
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(max(config.offsets_topic_segment_bytes, SEGMENT_BYTES_MIN)),
            },
        )
        try:
            outcome = (await self._topics.create([wanted]))[GROUP_TOPIC]
        except (StorageError, TopicError) as error:
            raise GroupError(code_of_write(error_code_of(error)), str(error)) from error
        if isinstance(outcome, TopicError) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE, outcome.message)

    def partition(self, number: int) -> Partition:
        """Return a partition of the topic. Raises UnknownPartition if it does not exist."""
        return self._partitions.get(GROUP_TOPIC, number)

    def append(self, number: int, records: Sequence[GroupRecord]) -> int:
        """Append `records` as one batch; return the end offset to wait for.

        Raises GroupError if nothing was appended.
        """
        return self.append_batch(number, self.batch_of(records))

    def batch_of(
        self, records: Sequence[GroupRecord], producer: Producer | None = None
    ) -> bytearray:
        """Return `records` as one batch. May run in a thread.

        With a `producer` they are part of its transaction. As in Kafka, such a batch has sequence
        0, whatever the transaction has written before.
        """
        now_ms = self._clock.now_ms()
        return build(
            [Record(0, now_ms, encode_key(key), encode_value(value)) for key, value in records],
            codec=self._config.offsets_topic_compression_codec,
            producer_id=NO_PRODUCER_ID if producer is None else producer.producer_id,
            producer_epoch=NO_PRODUCER_EPOCH if producer is None else producer.epoch,
            base_sequence=NO_SEQUENCE if producer is None else 0,
            transactional=producer is not None,
        )

    def append_batch(self, number: int, batch: bytearray) -> int:
        """Append a batch of `batch_of`; as `append`."""
        now_ms = self._clock.now_ms()
        try:
            partition = self.partition(number)
            size_max = partition.log.config.max_message_bytes
            if len(batch) > size_max:
                raise GroupError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"{len(batch)} bytes for {GROUP_TOPIC}-{number}, whose max.message.bytes"
                    f" is {size_max}",
                )
            appended = partition.log.append_own(batch, now_ms)
        except StorageError as error:
            raise GroupError(code_of_write(error_code_of(error)), str(error)) from error
        self._commit.appended(partition)
        return appended.last_offset + 1

    def pieces(self, number: int, records: Iterable[GroupRecord]) -> list[list[GroupRecord]]:
        """Split records into lists that each fit into one batch."""
        config = self.partition(number).log.config
        size_max = min(config.max_message_bytes, config.segment_bytes_max) - _BATCH_BYTES_OVER
        pieces: list[list[GroupRecord]] = [[]]
        size = 0
        for key, value in records:
            record_bytes = (
                len(encode_key(key)) + len(encode_value(value) or b"") + _RECORD_BYTES_OVER
            )
            if pieces[-1] and size + record_bytes > size_max:
                pieces.append([])
                size = 0
            pieces[-1].append((key, value))
            size += record_bytes
        return pieces

    def when_durable(
        self,
        number: int,
        end_offset: int | None,
        done: Callable[[ErrorCode], None],
        *,
        on_disk: bool = False,
    ) -> None:
        """Call `done` when the partition is durable up to `end_offset`; None: its current end.

        With `on_disk` that is the disk, also with write.caching. `done` gets NONE, or the error
        code for the group's client.
        """
        try:
            partition = self.partition(number)
        except StorageError as error:
            done(code_of_write(error_code_of(error)))
            return
        wanted = partition.log.end_offset if end_offset is None else end_offset
        self._commit.wait(
            partition,
            wanted,
            self._config.offsets_commit_timeout_ms,
            lambda code: done(code_of_write(code)),
            on_disk=on_disk,
        )
