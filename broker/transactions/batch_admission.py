"""How the batches of one Produce request get into logs: a transactional one if it is admitted.

The transaction is asked in the turn of the loop in which the batch is appended, so that nothing
comes between. That is the turn of the request, or a later one if the batch has to wait for a slow
disk or for a thread that opens it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from broker.error_mapping import BatchRefused
from broker.metadata.topic_rules import INTERNAL_TOPICS
from broker.partitions.append_queue import AppendQueue
from broker.partitions.partition import Partition, Partitions
from broker.topics import Topics
from broker.transactions.transaction_errors import TransactionError
from protocol.errors import ErrorCode
from protocol.messages.produce import TopicProduceData
from protocol.record_batch import HEADER_SIZE, read_header
from storage.log import Appended

# Producers know none of a coordinator's errors in this answer. As in Kafka, they retry after this.
OF_A_COORDINATOR: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_ENOUGH_REPLICAS,
}


# The version of Produce from which the request adds its partitions to the transaction (KIP-890).
PRODUCE_ADDS_VERSION: Final = 12


class Admits(Protocol):
    """The coordinator, as a batch asks it."""

    def admit(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        topic: str,
        partition: int,
        version: int,
    ) -> ErrorCode:
        """Return NONE if a batch may be appended, in this turn of the loop."""
        ...

    def admit_all(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        wanted: Mapping[str, Iterable[int]],
    ) -> None:
        """Add partitions, by topic, in one record. Raises TransactionError."""
        ...


class BatchAdmission:
    """The way of the batches of a request that names a transactional id."""

    __slots__ = ("_added", "_appends", "_transactional_id", "_transactions", "_version")

    def __init__(
        self,
        transactional_id: str,
        version: int,
        transactions: Admits,
        appends: AppendQueue,
    ) -> None:
        self._transactional_id = transactional_id
        self._version = version  # of Produce
        self._transactions = transactions
        self._appends = appends
        self._added: set[tuple[str, int, int, int]] = set()  # in this turn: place, producer, epoch

    def add_together(
        self, topics: Iterable[TopicProduceData], known: Topics, partitions: Partitions
    ) -> None:
        """Add the partitions of all transactional batches of a request in one record.

        What cannot be added is refused when it comes to its batch. So are batches for topics that
        belong to a coordinator: the end of the transaction must not write a marker there. What was
        added is not asked about again until `end_turn`, in this turn of the loop.
        """
        if self._version < PRODUCE_ADDS_VERSION:
            return
        wanted: dict[tuple[int, int], dict[str, list[int]]] = {}
        for topic in topics:
            found = known.by_name(topic.name) if topic.name else known.by_id(topic.topic_id)
            if found is None or found.name in INTERNAL_TOPICS:
                continue
            for data in topic.partition_data:
                records = data.records
                if not isinstance(records, memoryview) or len(records) < HEADER_SIZE:
                    continue
                header = read_header(records)
                is_ours = header.is_transactional and header.producer_id >= 0
                if is_ours and partitions.has(found.name, data.index):
                    producer = (header.producer_id, header.producer_epoch)
                    wanted.setdefault(producer, {}).setdefault(found.name, []).append(data.index)
        for (producer_id, epoch), places in wanted.items():
            with suppress(TransactionError):
                self._transactions.admit_all(self._transactional_id, producer_id, epoch, places)
                self._added.update(
                    (topic, number, producer_id, epoch)
                    for topic, numbers in places.items()
                    for number in numbers
                )

    def end_turn(self) -> None:
        """Ask again about each batch that was not appended in this turn."""
        self._added.clear()

    def append_to(
        self, partition: Partition, records: memoryview
    ) -> Callable[[memoryview, int], Appended]:
        """Return what appends the batch `records`, prepared or as it is, at its turn.

        It raises BatchRefused, and what `Log.append` raises.
        """
        if len(records) < HEADER_SIZE or not read_header(records).is_transactional:
            return partial(self._appends.append, partition)
        return partial(self._append, partition)

    def _append(self, partition: Partition, batch: memoryview, now_ms: int) -> Appended:
        header = read_header(batch)
        log = partition.log
        place = log.topic, log.partition, header.producer_id, header.producer_epoch
        if header.producer_id >= 0 and place not in self._added:  # without an id the log refuses it
            code = self._transactions.admit(
                self._transactional_id,
                header.producer_id,
                header.producer_epoch,
                log.topic,
                log.partition,
                self._version,
            )
            if code:
                raise refusal_of_batch(code)
        version = 2 if self._version >= PRODUCE_ADDS_VERSION else 1
        return self._appends.append(partition, batch, now_ms, version)


def refusal_of_batch(code: ErrorCode) -> BatchRefused:
    """Return what refuses a batch that its transaction does not admit."""
    return BatchRefused(OF_A_COORDINATOR.get(code, code))
