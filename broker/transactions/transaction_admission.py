"""Finds transactions, and admits what belongs to them: batches, offsets, and partitions.

Requests for an id are refused with:

    COORDINATOR_LOAD_IN_PROGRESS   transactions are being loaded, and held against the logs
    NOT_COORDINATOR                `__transaction_state` does not exist yet, or the broker stops
    COORDINATOR_NOT_AVAILABLE      the log of the id has failed or is offline, or has no room
    CONCURRENT_TRANSACTIONS        the transaction is being ended, or waits for a log that may say
                                   how it has ended

Check and append happen in one turn of the loop: `admit` decides about a batch, and its caller
appends it before anything else runs, so no batch enters a log for a transaction that has ended. A
batch that waits in a queue is admitted again at its turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final, Protocol

from broker.metadata.topic_rules import GROUP_TOPIC
from broker.partitions.append_queue import AppendQueue
from broker.runtime.clock import MS_NS, Clock
from broker.runtime.turns import InTurns
from broker.transactions.batch_admission import (
    PRODUCE_ADDS_VERSION,
    BatchAdmission,
    refusal_of_batch,
)
from broker.transactions.endings import Endings
from broker.transactions.reopening import is_closed, reopen
from broker.transactions.state_log import DURABLE_TIMEOUT_MS
from broker.transactions.transaction import Place, Transaction
from broker.transactions.transaction_errors import TransactionError
from broker.transactions.transaction_step import TV2
from broker.transactions.transaction_store import TransactionStore
from config.broker import BrokerConfig
from protocol.errors import ErrorCode
from protocol.record_batch import BatchHeader

# The versions of Produce and of TxnOffsetCommit whose clients know TRANSACTION_ABORTABLE; later
# ones add their partitions to the transaction (KIP-890).
PRODUCE_ABORTABLE_VERSION: Final = 11
OFFSETS_ADD_VERSION: Final = 5
OFFSETS_ABORTABLE_VERSION: Final = 4

PLACES_PER_TURN: Final = 2_000  # of the loop


class StartLoading(Protocol):
    """Whether what a start has to load is loaded."""

    def check(self, number: int) -> None:
        """Raise TransactionError if the ids of a partition are not served."""
        ...

    def check_all(self) -> None:
        """Raise TransactionError while a list of all ids would be incomplete."""
        ...

    def check_all_read(self) -> None:
        """Raise TransactionError if there may be ids that could not be read."""
        ...

    def look_again(self) -> None:
        """Load what the disk did not give, if it may by now."""
        ...

    def give_up(self, transaction: Transaction) -> None:
        """Let a transaction go that waits for a log: an operator aborts it."""
        ...

    async def looked_at(self) -> None:
        """Wait for the load, if a clean stop needs it."""
        ...

    def stop(self) -> None:
        """End the load: the broker stops."""
        ...


class _Line:
    """The requests that wait for one transaction, in their order."""

    __slots__ = ("count", "turn")

    def __init__(self) -> None:
        self.count = 0
        self.turn = asyncio.Lock()  # lets those that wait through in their order


class TransactionAdmission:
    """The transactions of this broker, and what they admit."""

    def __init__(
        self, store: TransactionStore, endings: Endings, config: BrokerConfig, clock: Clock
    ) -> None:
        self.store = store
        self.endings = endings
        self.config = config
        self.clock = clock
        self.loading: StartLoading | None = None  # None: there was nothing to load
        self._is_stopped = False
        self._lines: dict[Transaction, _Line] = {}

    @property
    def waiting_count(self) -> int:
        """How many requests wait for a transaction to end."""
        return sum(line.count for line in self._lines.values())

    def stop(self) -> None:
        """Refuse requests from now on; those that were begun are answered, and the load goes on."""
        self._is_stopped = True

    async def looked_at(self) -> None:
        """Wait until what a crash has left is looked at, as far as it can be."""
        if self.loading is not None:
            await self.loading.looked_at()

    def stop_loading(self) -> None:
        """End the load: what it has not looked at is left to the next start."""
        if self.loading is not None:
            self.loading.stop()

    def look_again(self) -> None:
        """Load the partitions of the log that were offline, or could not be read."""
        if self.loading is not None and not self._is_stopped:
            self.loading.look_again()

    def is_available(self, transactional_id: str) -> bool:
        """Whether the log of an id is open and has not failed."""
        log = self.store.log
        return not log.count() or log.is_open(log.number_of(transactional_id))

    def check_served(self, transactional_id: str) -> None:
        """Raise TransactionError if requests for an id are refused at present."""
        if not transactional_id:
            raise TransactionError(ErrorCode.INVALID_REQUEST)
        log = self.store.log
        if self._is_stopped or not log.count():
            raise TransactionError(ErrorCode.NOT_COORDINATOR)
        number = log.number_of(transactional_id)
        if self.loading is not None:
            self.loading.check(number)
        if not log.is_open(number):
            raise TransactionError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def check_running(self) -> None:
        """Raise TransactionError once the broker stops."""
        if self._is_stopped:
            raise TransactionError(ErrorCode.NOT_COORDINATOR)

    def find(self, transactional_id: str) -> Transaction | None:
        """Return a transaction, None for an unknown id. Raises TransactionError."""
        self.check_served(transactional_id)
        return self.store.by_id.get(transactional_id)

    def all(self) -> Iterator[Transaction]:
        """Yield every transaction; the ids must not change meanwhile. Raises TransactionError."""
        self.check_all_loaded()
        yield from self.store.by_id.values()

    def check_all_loaded(self) -> None:
        """Raise TransactionError while a list of all ids would be incomplete for a moment."""
        if self.loading is not None:
            self.loading.check_all()

    def check_all_read(self) -> None:
        """Raise TransactionError if there may be ids that could not be read."""
        if self.loading is not None:
            self.loading.check_all_read()

    def by_producer_id(self, producer_id: int) -> Transaction | None:
        """Return the transaction whose producer has an id now."""
        return self.store.by_producer_id.get(producer_id)

    def _get(self, transactional_id: str) -> Transaction:
        transaction = self.find(transactional_id)
        if transaction is None:
            raise TransactionError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return transaction

    # -- Admitting --------------------------------------------------------------------------------

    def admit_all(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        wanted: Mapping[str, Iterable[int]],
    ) -> None:
        """Add the partitions of one request, by topic, in one record. Raises TransactionError."""
        transaction = self._get(transactional_id)
        transaction.check_producer(producer_id, epoch)
        if is_closed(transaction):
            raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS)
        step = transaction.add_step(wanted, self.clock.now_ms(), TV2)
        if step is not None:
            self.store.add(transaction, step)

    def verify(
        self, transactional_id: str, producer_id: int, epoch: int, topic: str, partition: int
    ) -> None:
        """Check that a partition is in the open transaction of a producer.

        Raises TransactionError: TRANSACTION_ABORTABLE if not, and those of the producer.
        """
        transaction = self._get(transactional_id)
        transaction.check_producer(producer_id, epoch)
        is_written = transaction.awaited is None or transaction.awaited.is_durable
        if not (is_written and transaction.is_open_in(topic, partition)):
            raise TransactionError(ErrorCode.TRANSACTION_ABORTABLE)

    async def unverified(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        wanted: Mapping[str, Iterable[int]],
    ) -> dict[Place, ErrorCode]:
        """Return the code of each partition that is not in the open transaction.

        Raises TransactionError if none is looked for.
        """
        transaction = self._get(transactional_id)
        transaction.check_producer(producer_id, epoch)
        codes = {}
        places = ((topic, number) for topic, numbers in wanted.items() for number in numbers)
        async for place in InTurns(places, PLACES_PER_TURN):
            if not transaction.is_open_in(*place):
                codes[place] = ErrorCode.TRANSACTION_ABORTABLE
        return codes

    def admit(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        topic: str,
        partition: int,
        version: int,
    ) -> ErrorCode:
        """Return NONE if a transactional batch may be appended, in this turn of the loop.

        `version` is that of Produce; with the topic of groups' offsets, of TxnOffsetCommit. New
        versions add the partition themselves, and the record comes later, if at all: a start finds
        an added partition without its record.
        """
        is_offsets = topic == GROUP_TOPIC
        adds = version >= (OFFSETS_ADD_VERSION if is_offsets else PRODUCE_ADDS_VERSION)
        try:
            if adds:
                self.admit_all(transactional_id, producer_id, epoch, {topic: (partition,)})
            else:
                self.verify(transactional_id, producer_id, epoch, topic, partition)
        except TransactionError as error:
            return _of_batch(error.code, version, is_offsets=is_offsets, adds=adds)
        return ErrorCode.NONE

    def admit_batch(
        self, transactional_id: str, header: BatchHeader, topic: str, partition: int, version: int
    ) -> None:
        """As `admit`, for a batch that comes alone. Raises BatchRefused."""
        code = self.admit(
            transactional_id, header.producer_id, header.producer_epoch, topic, partition, version
        )
        if code:
            raise refusal_of_batch(code)

    def batches(self, transactional_id: str, version: int, appends: AppendQueue) -> BatchAdmission:
        """Return the way into logs for the batches of a Produce request of `version`."""
        return BatchAdmission(transactional_id, version, self, appends)

    def is_free(self, transactional_id: str) -> bool:
        """Whether an implicit add need not wait (`line_up`)."""
        transaction = self.store.by_id.get(transactional_id)
        return transaction is None or not (
            transaction in self._lines or transaction.is_ending or is_closed(transaction)
        )

    def line_up(self, transactional_id: str) -> Coroutine[None, None, None] | None:
        """Return what to await before an implicit add; None if it need not wait.

        Where Kafka looks again every 20 ms and may then answer CONCURRENT_TRANSACTIONS, requests
        wait here for the end of the transaction before, and go on in their order. Each waits as
        long as in Kafka, however many are before it; and for the disk no longer than any request.
        """
        if self.is_free(transactional_id):
            return None
        transaction = self.store.by_id[transactional_id]
        line = self._lines.get(transaction)
        if line is None:
            line = self._lines[transaction] = _Line()
        line.count += 1
        return self._wait(transaction, line, self.clock.monotonic_ns())

    async def _wait(self, transaction: Transaction, line: _Line, arrived_ns: int) -> None:
        try:
            async with line.turn:
                left_ms = self._left_ms(
                    arrived_ns, self.config.add_partitions_to_txn_retry_backoff_max_ms
                )
                await self.endings.until_free(transaction, left_ms / 1000)
                left_ms = self._left_ms(arrived_ns, DURABLE_TIMEOUT_MS)
                if left_ms and is_closed(transaction):
                    with suppress(TransactionError):  # the add is refused
                        await reopen(transaction, self.store.log, self.clock.now_ms(), left_ms)
        finally:
            line.count -= 1
            if not line.count:
                del self._lines[transaction]

    def _left_ms(self, since_ns: int, timeout_ms: int) -> int:
        return max(0, timeout_ms - (self.clock.monotonic_ns() - since_ns) // MS_NS)


def _of_batch(code: ErrorCode, version: int, *, is_offsets: bool, adds: bool) -> ErrorCode:
    """Return the code that the sender of a batch gets.

    Clients whose requests do not add partitions do not expect CONCURRENT_TRANSACTIONS here, and
    Java's and kafka-python's end for it. As in Kafka, they get an error after which they retry.
    """
    if code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code == ErrorCode.CONCURRENT_TRANSACTIONS and not adds:
        if is_offsets:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NOT_ENOUGH_REPLICAS
    abortable = OFFSETS_ABORTABLE_VERSION if is_offsets else PRODUCE_ABORTABLE_VERSION
    if code == ErrorCode.TRANSACTION_ABORTABLE and version < abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
