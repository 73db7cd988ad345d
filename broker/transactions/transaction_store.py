"""All transactions of this broker, by id and by producer id, and their log: changed together.

`write` is the way to change a transaction: it appends the record, then lets the transaction take
the step. An operation that cannot be written has changed nothing. What a start finds without its
record is taken first and written later: Complete, which follows from the record before and from
durable markers (`complete`), and an Ongoing whose data come beside it (`add`).

The number of ids is bounded (`barnabas.transactional.ids.max`) and counted: clients that make up a
new id for each start would otherwise fill the memory until the ids expire. So is the number of
partitions in one transaction: by the size of its record, which the coordinator must be able to
write again when the transaction ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.runtime.metrics import Metrics
from broker.transactions.state_log import StateLog
from broker.transactions.transaction import Transaction
from broker.transactions.transaction_errors import RecordTooLarge, TransactionError
from broker.transactions.transaction_states import TransactionState
from broker.transactions.transaction_step import TransactionStep
from protocol.errors import ErrorCode

NAMED_MAX: Final = 20  # transactions that cannot be ended, at a time

# What is written later is small, so that nothing but the disk can refuse it then.
LATE_PLACES_MAX: Final = 32

_ADMITTING: Final = (TransactionState.EMPTY, TransactionState.ONGOING)


class TransactionStore:
    """The transactions that this broker coordinates."""

    def __init__(self, log: StateLog, metrics: Metrics, ids_max: int) -> None:
        self.log = log
        self.by_id: dict[str, Transaction] = {}
        self.by_producer_id: dict[int, Transaction] = {}
        self.open: dict[Transaction, None] = {}  # Ongoing
        self._metrics = metrics
        self._ids_max = ids_max
        self._named: set[Transaction] = set()  # for `is_news`

    def check_room(self) -> None:
        """Raise TransactionError (POLICY_VIOLATION) if there may not be another id."""
        if len(self.by_id) >= self._ids_max:
            self._metrics.transactional_ids_refused += 1
            raise TransactionError(
                ErrorCode.POLICY_VIOLATION,
                f"There are {len(self.by_id)} transactional ids, the most that"
                " barnabas.transactional.ids.max allows. Use the ids again, or raise the limit.",
            )

    def write(self, transaction: Transaction, step: TransactionStep) -> None:
        """Append the record of `step`, and take it. Raises TransactionError: nothing changed.

        What begins or grows is bounded in size. What ends is not: it was admitted.
        """
        value = transaction.value_after(step)
        try:
            written = self.log.append(
                transaction.transactional_id, value, is_bounded=step.state in _ADMITTING
            )
        except RecordTooLarge:
            self._metrics.transactions_too_large += 1
            raise
        self._take(transaction, step)
        transaction.written = written

    def add(self, transaction: Transaction, step: TransactionStep) -> None:
        """Take a step that adds partitions, whose data come in this turn of the loop.

        The record comes later, if at all: a start that finds the data adds their partitions. That
        of a large transaction is written now. Raises TransactionError: nothing changed.
        """
        if self._is_small(transaction, step) and self.log.has_room(transaction.transactional_id):
            self._take(transaction, step)
            self.log.late.add(transaction)
        else:
            self.write(transaction, step)

    def _is_small(self, transaction: Transaction, step: TransactionStep) -> bool:
        if len(transaction.partitions) + len(step.added) > LATE_PLACES_MAX:  # topics
            return False
        count = transaction.partition_count + sum(map(len, step.added.values()))
        return count <= LATE_PLACES_MAX

    def complete(self, transaction: Transaction, step: TransactionStep) -> None:
        """Take a step to Complete*; all markers are durable. Its record comes later, if at all."""
        self._take(transaction, step)
        self.log.late.add(transaction)

    def _take(self, transaction: Transaction, step: TransactionStep) -> None:
        self._named.discard(transaction)
        self.by_producer_id.pop(transaction.producer_id, None)
        transaction.take(step)
        self.put(transaction)

    def put(self, transaction: Transaction) -> None:
        """Keep a transaction as it is now; it may have been kept before."""
        self.by_id[transaction.transactional_id] = transaction
        self.by_producer_id[transaction.producer_id] = transaction
        if transaction.state is TransactionState.ONGOING:
            self.open[transaction] = None
        else:
            self.open.pop(transaction, None)
        self._count()

    def is_news(self, transaction: Transaction) -> bool:
        """Whether the log shall say that a transaction cannot be ended: once until its next record.

        Of many, it says so of the first.
        """
        if transaction in self._named or len(self._named) >= NAMED_MAX:
            return False
        self._named.add(transaction)
        return True

    def take_out(self, transaction: Transaction) -> None:
        """Forget a transaction: another one of the same id is put in its place."""
        self.by_producer_id.pop(transaction.producer_id, None)
        self.open.pop(transaction, None)
        self._named.discard(transaction)

    def remove(self, number: int, expired: Sequence[Transaction]) -> None:
        """Write tombstones for ids of one partition of the log, in one batch, and forget them.

        Raises TransactionError: nothing changed.
        """
        self.log.append_all(number, [(one.transactional_id, None) for one in expired])
        for transaction in expired:
            del self.by_id[transaction.transactional_id]
            self.by_producer_id.pop(transaction.producer_id, None)
        self._count()

    def clear(self) -> None:
        """Forget every transaction: the broker stops."""
        self.by_id.clear()
        self.by_producer_id.clear()
        self.open.clear()
        self._count()

    def _count(self) -> None:
        self._metrics.transactional_ids_now = len(self.by_id)
        self._metrics.transactions_open_now = len(self.open)
