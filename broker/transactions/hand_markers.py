"""Markers that do not come from this broker's coordinator: an operator's, through WriteTxnMarkers.

Kafka writes such a marker and tells its coordinator nothing. The transaction is then torn: its
producer commits, and in one partition it is aborted. Here the coordinator has a say:

    the broker stops                            NOT_COORDINATOR
    some ids could not be read                  COORDINATOR_NOT_AVAILABLE, unless another id has
                                                the producer: one of them may have it
    epoch above that of the id's producer       INVALID_PRODUCER_EPOCH: a start would take it for
                                                the coordinator's own decision
    the transaction is being ended              CONCURRENT_TRANSACTIONS
    below it, and it is open in the partition   INVALID_PRODUCER_EPOCH: an earlier one was meant
    it is open in the partition, and aborted    the whole transaction is aborted
    it is open in the partition, and committed  INVALID_TXN_STATE: only its producer commits it

Any other marker is written, as in Kafka: for a producer id that no transactional id has now, and
where nothing is open. So what another broker has left can be ended. The partition's own rules
(`Log.check_marker`) come first. All is checked in the turn of the loop in which the marker is
appended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.error_mapping import BatchRefused, error_code_of
from broker.metadata.topic_rules import GROUP_TOPIC, TRANSACTION_TOPIC
from broker.partitions.append_queue import AppendQueue
from broker.partitions.group_commit import GroupCommit
from broker.partitions.partition import AppendOutcome, Partition, Partitions
from broker.transactions.markers import GroupOffsets
from broker.transactions.transaction import Place, Transaction
from broker.transactions.transaction_coordinator import TransactionCoordinator
from broker.transactions.transaction_errors import TransactionError
from broker.transactions.transaction_states import EndReason, TransactionState
from protocol.control_records import Marker
from protocol.errors import ErrorCode
from storage.errors import StorageError
from storage.log import Appended


class HandMarkers:
    """Writes the markers of one request."""

    def __init__(
        self,
        transactions: TransactionCoordinator,
        partitions: Partitions,
        commit: GroupCommit,
        appends: AppendQueue,
        groups: Callable[[], GroupOffsets],
        settled: Callable[[Partition], None],
    ) -> None:
        self._transactions = transactions
        self._partitions = partitions
        self._commit = commit
        self._appends = appends
        self._groups = groups
        self._settled = settled  # wakes the fetches of a partition
        self._ended: set[tuple[Marker, Place]] = set()  # with a transaction that was aborted whole

    async def write(self, marker: Marker, version: int, place: Place) -> ErrorCode:
        """Write a marker of transaction version `version`; return its code once it is durable."""
        if (marker, place) in self._ended:
            return ErrorCode.NONE
        if place[0] == TRANSACTION_TOPIC:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            return ErrorCode.INVALID_REQUEST
        try:
            partition = self._partitions.get(*place)
            opened = self._check(partition, marker, version)
            if opened is not None:
                return await self._abort_whole(opened, marker)
            return await self._append(partition, marker, version)
        except (BatchRefused, StorageError) as error:
            return error_code_of(error)
        except TransactionError as error:
            return error.code

    def _check(self, partition: Partition, marker: Marker, version: int) -> Transaction | None:
        """Return the transaction that the marker would tear; None if it may be written.

        Raises StorageError, TransactionError.
        """
        self._transactions.check_running()  # a request may name any number of partitions
        log = partition.log
        log.check_marker(marker, version=version)
        self._transactions.check_all_loaded()
        owner = self._transactions.by_producer_id(marker.producer_id)
        if owner is None:
            self._transactions.check_all_read()
            return None
        if marker.producer_epoch > owner.epoch:
            raise TransactionError(ErrorCode.INVALID_PRODUCER_EPOCH)
        if owner.is_busy:
            raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS)
        is_open = owner.is_open_in(log.topic, log.partition) or (
            owner.state is TransactionState.ONGOING
            and log.first_open_offset_of(marker.producer_id) >= 0
        )
        if not is_open:
            return None
        if marker.producer_epoch < owner.epoch:
            raise TransactionError(ErrorCode.INVALID_PRODUCER_EPOCH)
        if marker.is_commit:
            raise TransactionError(ErrorCode.INVALID_TXN_STATE)
        return owner

    async def _abort_whole(self, transaction: Transaction, marker: Marker) -> ErrorCode:
        places = list(transaction.places())
        await self._transactions.abort(transaction, EndReason.OPERATOR)
        self._ended.update((marker, place) for place in places)
        return ErrorCode.NONE

    async def _append(self, partition: Partition, marker: Marker, version: int) -> ErrorCode:
        told: asyncio.Future[AppendOutcome] = asyncio.get_running_loop().create_future()

        def check() -> None:
            try:
                torn = self._check(partition, marker, version)
            except TransactionError as error:
                raise BatchRefused(error.code) from error
            if torn is not None:  # it was begun while the marker waited
                raise BatchRefused(ErrorCode.CONCURRENT_TRANSACTIONS)

        self._appends.append_marker(partition, marker, told.set_result, check)
        outcome = await told
        if not isinstance(outcome, Appended):
            return error_code_of(outcome)
        offset = outcome.base_offset
        codes: asyncio.Future[list[ErrorCode]] = asyncio.get_running_loop().create_future()
        self._commit.durable_together([(partition, offset + 1)], codes.set_result)
        (code,) = await codes
        if code == ErrorCode.NONE:
            log = partition.log
            log.settle(offset)
            if log.topic == GROUP_TOPIC:
                self._groups().transaction_ended(log.partition, marker, offset)
            self._settled(partition)
        return code
