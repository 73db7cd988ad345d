"""What an implicit add waits for after a transaction of TV1.

An implicit add (Produce from version 12, TxnOffsetCommit from 5) lets data in at once: the record
Ongoing goes to the disk beside them, and either may outlive the other. A start that finds the data
alone takes them for the current transaction, in all states but one. At an epoch for which the last
record is Complete of TV1, Kafka may have left a transaction that it has decided, so there the data
are left to the operator (`broker.transactions.reconcile`, rule 6).

So before the first implicit add after such a Complete, the id gets one more record, Empty at the
same epoch, and data come once that is durable. Nothing else changes: the id stays in Complete for
its clients, and a repeated EndTxn gets its answer. Only producers of both versions pay for this.
"""

from __future__ import annotations

from broker.transactions.state_log import StateLog
from broker.transactions.transaction import Transaction
from broker.transactions.transaction_states import TransactionState
from broker.transactions.transaction_step import TV2, TransactionStep
from protocol.transaction_records import NO_TIMESTAMP, TransactionValue

_COMPLETE = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


def is_closed(transaction: Transaction) -> bool:
    """Whether data must not come before the record that begins their transaction."""
    if _is_complete_of_tv1(transaction):
        return True
    return transaction.awaited is not None and not transaction.awaited.is_durable


def _is_complete_of_tv1(transaction: Transaction) -> bool:
    is_of_tv1 = transaction.state in _COMPLETE and transaction.client_version < TV2
    return is_of_tv1 and not transaction.is_reopened


async def reopen(transaction: Transaction, log: StateLog, now_ms: int, timeout_ms: int) -> None:
    """Return when data may come. Raises TransactionError, at the latest after `timeout_ms`."""
    if transaction.is_busy:
        return
    if _is_complete_of_tv1(transaction):
        transaction.awaited = log.append(transaction.transactional_id, _empty(transaction, now_ms))
        transaction.is_reopened = True  # until its next record, of whatever version
    if transaction.awaited is not None:
        await log.durable(transaction.awaited, timeout_ms)


def _empty(transaction: Transaction, now_ms: int) -> TransactionValue:
    return transaction.value_after(
        TransactionStep(
            state=TransactionState.EMPTY,
            producer_id=transaction.producer_id,
            epoch=transaction.epoch,
            last_epoch=transaction.last_epoch,
            timeout_ms=transaction.timeout_ms,
            updated_ms=now_ms,
            started_ms=NO_TIMESTAMP,
            client_version=TV2,
        )
    )
