"""The transaction coordinator: gives out epochs, adds partitions, and ends transactions.

This broker coordinates every transactional id, since it is the only one. What it refuses, and how
batches get into a transaction, is in transaction_admission.py; the rules of an id are in
transaction.py, the end of a transaction in endings.py, and what time ends in timeouts.py.

An answer is given when the record that it rests on is durable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from broker.metadata.producer_ids import ProducerIds
from broker.runtime import owners
from broker.runtime.clock import Clock
from broker.runtime.owners import Owner
from broker.transactions.endings import Endings, EndPlan
from broker.transactions.transaction import Transaction
from broker.transactions.transaction_admission import TransactionAdmission
from broker.transactions.transaction_errors import TransactionError, refusal_of
from broker.transactions.transaction_states import EndReason, TransactionState
from broker.transactions.transaction_step import TV1
from broker.transactions.transaction_store import TransactionStore
from config.broker import BrokerConfig
from protocol.errors import ErrorCode
from protocol.transaction_records import NO_PRODUCER_ID
from storage.errors import StorageError

logger = logging.getLogger("barnabas.transactions")

END_BUMPS_VERSION: Final = 5  # of EndTxn
END_ABORTABLE_VERSION: Final = 4


class TransactionCoordinator(TransactionAdmission):
    """All transactional ids of this broker."""

    def __init__(
        self,
        store: TransactionStore,
        endings: Endings,
        producer_ids: ProducerIds,
        config: BrokerConfig,
        clock: Clock,
    ) -> None:
        super().__init__(store, endings, config, clock)
        self._producer_ids = producer_ids
        self._creating = asyncio.Lock()
        self._aborting: set[asyncio.Task[None]] = set()

    async def ensure_log(self) -> None:
        """Create `__transaction_state` if it does not exist. Raises TransactionError."""
        async with self._creating:
            if not (self.store.log.count() or self.config.barnabas_read_only):
                await self.store.log.create()

    # -- InitProducerId ---------------------------------------------------------------------------

    async def init(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: tuple[int, int] | None,
        *,
        by_operator: bool = False,
    ) -> tuple[int, int]:
        """Return the producer id and epoch for an instance that begins; it fences those before.

        `expected` is the id and epoch that the producer has; `by_operator`: there is none, and what
        is open shall end. Raises TransactionError.
        """
        if not 0 < timeout_ms <= self.config.transaction_max_timeout_ms:
            raise TransactionError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        new_id = NO_PRODUCER_ID
        while True:
            transaction = self.find(transactional_id)
            if transaction is None:
                self.store.check_room()
            else:
                if by_operator and self.loading is not None:
                    self.loading.give_up(transaction)
                transaction.check_init(expected)
                if transaction.state is TransactionState.ONGOING:
                    reason = EndReason.OPERATOR if by_operator else EndReason.FENCED
                    self._begin_abort(transaction, reason)
                    raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS)
            wants_id = transaction is None or transaction.wants_producer_id(expected)
            if not wants_id or new_id != NO_PRODUCER_ID:
                break
            new_id = await self._next_producer_id()  # meanwhile all may have changed
        if transaction is None:
            transaction = Transaction(transactional_id, new_id, timeout_ms)
        step = transaction.init_step(expected, timeout_ms, self.clock.now_ms(), new_id)
        self.store.write(transaction, step)
        await self._durable(transaction)
        return step.producer_id, step.epoch

    async def _next_producer_id(self) -> int:
        """Return a new producer id. Raises TransactionError if none can be written."""
        try:
            return await self._producer_ids.next()
        except StorageError as error:
            raise refusal_of(error) from error

    async def _durable(self, transaction: Transaction) -> None:
        if transaction.written is not None:
            await self.store.log.durable(transaction.written)

    # -- Adding partitions ------------------------------------------------------------------------

    async def add(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        wanted: Mapping[str, Iterable[int]],
    ) -> None:
        """Add partitions of topics for a client that asks for it, and wait for the record.

        Raises TransactionError.
        """
        transaction = self._get(transactional_id)
        transaction.check_producer(producer_id, epoch)
        step = transaction.add_step(wanted, self.clock.now_ms(), TV1)
        is_begun = transaction.state is not TransactionState.ONGOING
        if step is None:  # perhaps an implicit add was first
            self.store.log.append_if_late(transaction)
        else:
            self.store.write(transaction, step)
            if is_begun:
                transaction.awaited = transaction.written  # data do not come before the answer
        await self._durable(transaction)

    # -- Ending -----------------------------------------------------------------------------------

    async def end(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        *,
        is_commit: bool,
        version: int,
    ) -> tuple[int, int]:
        """End a transaction for an EndTxn of `version`; return the next producer id and epoch.

        Raises TransactionError.
        """
        bumps = version >= END_BUMPS_VERSION
        transaction = self._get(transactional_id)
        if not transaction.check_end(producer_id, epoch, is_commit=is_commit, bumps=bumps):
            ids = transaction.producer_id, transaction.epoch
            await self._durable(transaction)
            return ids
        plan = EndPlan(is_commit=is_commit, bumps=bumps, reason=EndReason.CLIENT)
        try:
            return await self._end(transaction, plan)
        except TransactionError as error:
            is_known = error.code != ErrorCode.TRANSACTION_ABORTABLE
            if is_known or version >= END_ABORTABLE_VERSION:
                raise
            raise TransactionError(ErrorCode.INVALID_TXN_STATE, str(error)) from error

    async def abort(self, transaction: Transaction, reason: EndReason) -> None:
        """Abort an open transaction as a whole. Raises TransactionError."""
        if transaction.is_busy:
            raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS)
        await self._end(transaction, EndPlan(is_commit=False, bumps=True, reason=reason))

    async def _end(self, transaction: Transaction, plan: EndPlan) -> tuple[int, int]:
        if plan.bumps and transaction.is_exhausted:
            transaction.is_ending = True  # closed before the first await
            try:
                plan = plan._replace(next_producer_id=await self._next_producer_id())
            finally:
                transaction.is_ending = False
            if transaction.is_held:  # a log has opened meanwhile, which may say how it ended
                raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return await self.endings.end(transaction, plan)

    def _begin_abort(self, transaction: Transaction, reason: EndReason) -> None:
        async def run() -> None:
            if transaction.is_busy:
                return  # by another request of the same turn of the loop
            try:
                await self.abort(transaction, reason)
            except TransactionError as error:
                if self.store.is_news(transaction):
                    logger.warning(
                        "%(transactional_id)s: not aborted: %(error)s",
                        {"transactional_id": transaction.transactional_id, "error": error},
                    )

        name = f"the abort of {transaction.transactional_id}"
        owners.spawn(Owner.TRANSACTION, run(), name, among=self._aborting)

    async def finish(self) -> None:
        """End the load, and wait for the ends that no request waits for."""
        self.stop_loading()
        while self._aborting:
            await asyncio.wait(self._aborting)
        await self.endings.finish()
        await self.store.log.late.finish()

    def leave(self) -> None:
        """Write nothing that no request waits for: the logs are being closed."""
        self.stop_loading()
        self.store.log.late.leave()
