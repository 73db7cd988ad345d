"""What time ends: transactions that were open for too long, and ids that nobody uses.

A transaction counts from the start in its record, so the time that the broker was down counts as
well. From the first look on, a monotonic clock counts: the wall clock may be set. Its abort raises
the epoch: the producer that comes too late is told so at its next request. An id that was idle for
`transactional.id.expiration.ms` gets a tombstone; open transactions and those whose markers are
owed never expire.

Both go through all transactions in turns of the loop. Neither waits for a disk that is stuck.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import Final

from broker.runtime.metrics import Metrics
from broker.runtime.turns import InTurns
from broker.transactions.transaction import Transaction
from broker.transactions.transaction_coordinator import TransactionCoordinator
from broker.transactions.transaction_errors import TransactionError
from broker.transactions.transaction_states import EndReason

logger = logging.getLogger("barnabas.transactions")

LOOKED_AT_PER_TURN: Final = 1_000
ABORTS_AT_A_TIME: Final = 64
TOMBSTONES_PER_BATCH: Final = 200
TOMBSTONE_BYTES_PER_BATCH: Final = 512 * 1024  # of ids: an id may have 32 KiB, a batch 1 MiB
CHARACTER_BYTES_MAX: Final = 4


async def abort_late(coordinator: TransactionCoordinator, metrics: Metrics) -> None:
    """Abort the open transactions whose timeout has passed."""
    late = [
        transaction
        async for transaction in InTurns(list(coordinator.store.open), LOOKED_AT_PER_TURN)
        if _is_due(coordinator, transaction)
    ]
    for start in range(0, len(late), ABORTS_AT_A_TIME):
        some = late[start : start + ABORTS_AT_A_TIME]
        await coordinator.endings.run_beside(_abort(coordinator, metrics, one) for one in some)


def _is_due(coordinator: TransactionCoordinator, transaction: Transaction) -> bool:
    clock = coordinator.clock
    return transaction.is_due(clock.now_ms(), clock.monotonic_ns())


async def _abort(
    coordinator: TransactionCoordinator, metrics: Metrics, transaction: Transaction
) -> None:
    if not _is_due(coordinator, transaction):
        return  # it ended while the others were looked at
    producer_id, epoch = transaction.producer_id, transaction.epoch
    try:
        coordinator.check_served(transaction.transactional_id)  # held against the logs first
        await coordinator.abort(transaction, EndReason.TIMEOUT)
    except TransactionError as error:
        if coordinator.store.is_news(transaction):
            logger.warning(
                "%(transactional_id)s: its transaction has timed out, and is not aborted yet:"
                " %(error)s",
                {"transactional_id": transaction.transactional_id, "error": error},
            )
        return
    metrics.transactions_timed_out += 1
    logger.info(
        "%(transactional_id)s: aborted the transaction of producer %(producer_id)d, epoch"
        " %(producer_epoch)d: it was open for more than %(timeout_ms)d ms",
        {
            "transactional_id": transaction.transactional_id,
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "timeout_ms": transaction.timeout_ms,
        },
    )


async def expire_ids(coordinator: TransactionCoordinator, metrics: Metrics) -> None:
    """Forget the ids that nobody has used for `transactional.id.expiration.ms`."""
    store = coordinator.store
    expiration_ms = coordinator.config.transactional_id_expiration_ms
    expired: dict[int, list[Transaction]] = defaultdict(list)
    async for transaction in InTurns(list(store.by_id.values()), LOOKED_AT_PER_TURN):
        if transaction.is_expired(coordinator.clock.now_ms(), expiration_ms):
            expired[store.log.number_of(transaction.transactional_id)].append(transaction)
    for number, transactions in expired.items():
        while transactions:
            now_ms = coordinator.clock.now_ms()
            some = [
                one
                for one in _taken_out(transactions)
                if one.is_expired(now_ms, expiration_ms)  # it may have been used meanwhile
            ]
            if not some:
                continue
            try:
                store.remove(number, some)
            except TransactionError as error:
                logger.warning(
                    "%(transactional_ids)d transactional ids are not forgotten yet: %(error)s",
                    {"transactional_ids": len(some), "error": error},
                )
                break
            metrics.transactional_ids_expired += len(some)
            await asyncio.sleep(0)


def _taken_out(transactions: list[Transaction]) -> list[Transaction]:
    """Take out as many ids as have tombstones that fit into one batch.

    To free all of them at the end, in one step, would hold up the loop.
    """
    taken: list[Transaction] = []
    size = 0
    while transactions and len(taken) < TOMBSTONES_PER_BATCH and size < TOMBSTONE_BYTES_PER_BATCH:
        taken.append(transactions.pop())
        size += CHARACTER_BYTES_MAX * len(taken[-1].transactional_id)
    return taken
