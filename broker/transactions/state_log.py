"""`__transaction_state`: finds the partition of a transactional id, appends to it, waits for it.

The topic is Kafka's, in name, partition count, configs, keys and values. An id belongs to the same
partition as in Kafka: the hash of the id modulo the number of partitions. A record is a batch of
its own and bypasses the append queue, as those of groups do: it is small, and its client waits for
the disk anyway. `write.caching` does not hold here: what counts is `durable_offset`. Records that
nothing waits for are written later (broker/transactions/late_records.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.error_mapping import error_code_of
from broker.groups.group_log import partition_of
from broker.metadata.topic_rules import TRANSACTION_TOPIC, NewTopic, TopicError
from broker.partitions.group_commit import GroupCommit
from broker.partitions.partition import Partition, Partitions
from broker.runtime.clock import Clock
from broker.topics import Topics
from broker.transactions.late_records import LateRecords
from broker.transactions.transaction import Transaction, Written
from broker.transactions.transaction_errors import TransactionError, refusal_of
from config.broker import BrokerConfig
from config.topic import SEGMENT_BYTES_MIN
from protocol.errors import ErrorCode
from protocol.records import Record, build
from protocol.transaction_records import (
    TransactionValue,
    encode_id,
    encode_value,
)
from storage.errors import BatchTooLarge, StorageError

# Kafka's request.timeout.ms: how long a record may take to become durable.
DURABLE_TIMEOUT_MS: Final = 30_000
END_BYTES_OVER: Final = 64  # by which the records that end a transaction may be larger
# The record of 32 partitions (`LATE_PLACES_MAX`) of topics with long names, and an id.
LATE_BYTES_MAX: Final = 16_384
LATE_NAME_MAX: Final = 1_000  # characters of an id


class StateLog:
    """The partitions of `__transaction_state`."""

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
        self.late = LateRecords(self._append_as_it_is, self._is_open_for)

    def count(self) -> int:
        """Return the topic's number of partitions; 0 if it does not exist."""
        topic = self._topics.by_name(TRANSACTION_TOPIC)
        return 0 if topic is None else len(topic.partitions)

    async def create(self) -> None:
        """Create the topic unless it exists. Raises TransactionError."""
        config = self._config
        segment_bytes = max(config.transaction_state_log_segment_bytes, SEGMENT_BYTES_MIN)
        wanted = NewTopic(
            name=TRANSACTION_TOPIC,
            partition_count=config.transaction_state_log_num_partitions,
            replication_factor=1,
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "segment.bytes": str(segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )
        try:
            outcome = (await self._topics.create([wanted]))[TRANSACTION_TOPIC]
        except (StorageError, TopicError) as error:
            code = error_code_of(error)
            raise TransactionError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{code.name}") from error
        if isinstance(outcome, TopicError) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise TransactionError(ErrorCode.COORDINATOR_NOT_AVAILABLE, outcome.message)

    def number_of(self, transactional_id: str) -> int:
        """Return the number of the partition of an id. The topic exists."""
        return partition_of(transactional_id, self.count())

    def partition(self, number: int) -> Partition:
        """Return a partition of the topic.

        Raises UnknownPartition if it does not exist, LogFailed if its log is offline.
        """
        return self._partitions.get(TRANSACTION_TOPIC, number)

    def is_open(self, number: int) -> bool:
        """Whether the log of a partition is open and has not failed."""
        partition = self._partitions.find(TRANSACTION_TOPIC, number)
        return partition is not None and partition.log.failed is None

    def coordinator_epoch(self, transactional_id: str) -> int:
        """Return the epoch that markers carry: that of the leader of the id's partition."""
        try:
            return self.partition(self.number_of(transactional_id)).log.leader_epoch
        except StorageError as error:
            raise refusal_of(error) from error

    def append(
        self, transactional_id: str, value: TransactionValue, *, is_bounded: bool = False
    ) -> Written:
        """Append the record of an id.

        If it `is_bounded`, it fits into `max.message.bytes`, and every later record of the same
        transaction does. Raises TransactionError if nothing was appended.
        """
        number = self.number_of(transactional_id)
        return self.append_all(number, [(transactional_id, value)], is_bounded=is_bounded)

    def append_all(
        self,
        number: int,
        records: Sequence[tuple[str, TransactionValue | None]],
        *,
        is_bounded: bool = False,
    ) -> Written:
        """Append records of ids of one partition, None for a tombstone, in one batch.

        They take the place of what is late for these ids.
        """
        now_ms = self._clock.now_ms()
        batch = build(
            [Record(0, now_ms, encode_id(one), encode_value(value)) for one, value in records]
        )
        try:
            partition = self.partition(number)
            if is_bounded and len(batch) > (size_max := _size_max(partition)):
                raise BatchTooLarge(len(batch), size_max)
            appended = partition.log.append_own(batch, now_ms)
        except StorageError as error:
            raise refusal_of(error) from error
        for one, _ in records:
            self.late.drop(one)
        self._commit.appended(partition)
        return Written(partition, appended.last_offset + 1)

    def has_room(self, transactional_id: str) -> bool:
        """Whether a small record of an id fits in any case, `is_bounded` as for `append`.

        Raises TransactionError if the log is not there.
        """
        try:
            partition = self.partition(self.number_of(transactional_id))
        except StorageError as error:
            raise refusal_of(error) from error
        is_long = len(transactional_id) > LATE_NAME_MAX
        return not is_long and _size_max(partition) >= LATE_BYTES_MAX

    def append_if_late(self, transaction: Transaction) -> None:
        """Append the record of a transaction now if it is late. Raises TransactionError."""
        if self.late.has(transaction):
            self._append_as_it_is(transaction)

    def _append_as_it_is(self, transaction: Transaction) -> None:
        transaction.written = self.append(transaction.transactional_id, transaction.value())

    def _is_open_for(self, transactional_id: str) -> bool:
        return self.is_open(self.number_of(transactional_id))

    async def durable(self, written: Written, timeout_ms: int = DURABLE_TIMEOUT_MS) -> None:
        """Return when a record is durable. Raises TransactionError if it may not be."""
        code = await self._commit.durable(written.partition, written.end_offset, timeout_ms)
        if code:
            raise TransactionError(ErrorCode.COORDINATOR_NOT_AVAILABLE, code.message)


def _size_max(partition: Partition) -> int:
    """Return the largest size of a record that begins a transaction, or lets it grow."""
    config = partition.log.config
    return min(config.max_message_bytes, config.segment_bytes_max) - END_BYTES_OVER
