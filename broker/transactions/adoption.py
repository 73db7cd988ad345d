"""Lets the coordinator take over the stored ids: each as the record and the logs say together.

    reconcile ── put, write what differs ── all of it durable ── finish what is prepared ── serve

What a marker has decided is on the disk in that marker alone until its Prepare is durable. So the
logs keep the markers that their opening has found (`Log.settle_replayed`) until then: a second
crash meets the same evidence as the first.

A decision that comes before another one of the same id is finished first: the record of the later
one would erase it. If a partition cannot take its marker now, the later one waits until it can.

A transaction may have 100,000 partitions, and to judge it takes 0.3 s then: a thread does it.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Iterable, MutableMapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from broker.metadata.producer_ids import ProducerIds
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.clock import Clock
from broker.runtime.turns import InTurns
from broker.transactions.endings import Endings
from broker.transactions.evidence import Evidence
from broker.transactions.reconcile import Decision, LeftOpen, each_place, reconcile
from broker.transactions.transaction import Transaction
from broker.transactions.transaction_errors import TransactionError
from broker.transactions.transaction_states import TransactionState
from broker.transactions.transaction_store import TransactionStore
from config.broker import BrokerConfig
from protocol.transaction_records import TransactionValue
from storage.errors import StorageError

logger = logging.getLogger("barnabas.transactions")

IDS_PER_TURN: Final = 200  # of the loop, at about 10 µs each
ENDED_AT_A_TIME: Final = 64
NAMED_MAX: Final = 20  # lines of the log
PLACES_ON_THE_LOOP: Final = 3_000  # of a transaction, at about 3 µs each

_COMPLETE: Final = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


class Adoption:
    """Takes over ids; `judged` are the producer ids that they own or have owned."""

    def __init__(
        self,
        store: TransactionStore,
        endings: Endings,
        producer_ids: ProducerIds,
        evidence: Evidence,
        config: BrokerConfig,
        clock: Clock,
        pool: BlockingPool,
    ) -> None:
        self.judged: set[int] = set()
        self.left: list[LeftOpen] = []
        self._store = store
        self._endings = endings
        self._producer_ids = producer_ids
        self._evidence = evidence
        self._unwritten: set[Transaction] = set()  # what the logs say of them was not written
        self._deciding: set[str] = set()  # ids with a decision that waits for the one before it
        self._is_read_only = config.barnabas_read_only
        self._clock = clock
        self._pool = pool

    @property
    def has_unwritten(self) -> bool:
        """Whether a record could not be written, and no later one of its id is durable either."""
        return any(one.written is None or not one.written.is_durable for one in self._unwritten)

    @property
    def is_safe(self) -> bool:
        """Whether all that was decided anew is durable: no marker is its only evidence."""
        return not (self.has_unwritten or self._deciding)

    async def adopt(self, values: MutableMapping[str, TransactionValue]) -> None:
        """Take over the ids with these records, but for those that are known already.

        Empties `values` on the way: to free many records in one step would hold up the loop.
        Returns when they are what they would be without a crash, as far as their logs can be
        written. A read-only broker takes the records as they are.
        """
        prepared: list[tuple[Transaction, Decision]] = []
        written: list[Transaction] = []
        async for transactional_id in InTurns(list(values), IDS_PER_TURN):
            value = values.pop(transactional_id)
            if transactional_id not in self._store.by_id:
                judge = partial(self._reconcile, value, self._evidence, self._clock.now_ms())
                is_large = _place_count(value, self._evidence) > PLACES_ON_THE_LOOP
                judged = await self._pool.run(judge) if is_large else judge()
                decision = await self._decided(value, judged)
                transaction = self._put(transactional_id, value, decision.stages[0])
                if transaction.written is not None:
                    written.append(transaction)
                if transaction.state.is_prepared:
                    prepared.append((transaction, decision))
        if self._is_read_only:
            return
        async for transaction in InTurns(written, IDS_PER_TURN):
            await self._until_durable(transaction)
        for start in range(0, len(prepared), ENDED_AT_A_TIME):
            some = prepared[start : start + ENDED_AT_A_TIME]
            await self._endings.run_beside(self._finish(*one) for one in some)

    async def judge(self, transaction: Transaction, evidence: Evidence, *, may_go_on: bool) -> bool:
        """Hold an id that is served, and held, against its logs; return whether it is replaced.

        Unless it `may_go_on`, only a decision counts. Returns when that is carried out.
        """
        value, count = transaction.value(), len(self.left)
        # Not in a thread: other logs may open meanwhile, and say something else.
        judged = self._reconcile(value, evidence, self._clock.now_ms())
        decision = await self._decided(value, judged)
        new, self.left[count:] = self.left[count:], []
        stage = decision.stages[0]
        if not (may_go_on or _is_prepared(stage)):
            return False
        self.name(new)
        _name_torn(transaction, evidence)
        if stage is value:
            return False
        self._store.take_out(transaction)
        other = self._put(transaction.transactional_id, value, stage)
        other.last_end, other.awaited = transaction.last_end, transaction.awaited
        await self._until_durable(other)
        await self._finish(other, decision)
        return True

    def _reconcile(self, value: TransactionValue, evidence: Evidence, now_ms: int) -> Decision:
        if self._is_read_only:
            return Decision((value,))
        return reconcile(value, evidence, now_ms)

    async def _decided(self, value: TransactionValue, decision: Decision) -> Decision:
        """Take note of a decision, and return it with all that it needs."""
        if self._is_read_only:
            return decision
        self.judged |= {value.producer_id, value.previous_producer_id, value.next_producer_id}
        self.left += decision.left
        if not decision.lacks_producer_id:
            return decision
        *before, last = decision.stages
        try:
            last = replace(last, next_producer_id=await self._producer_ids.next())
        except StorageError as error:  # the next InitProducerId gets one
            logger.warning(
                "no producer id for a transaction that has used up its own: %(error)s",
                {"error": error},
            )
        return replace(decision, stages=(*before, last))

    def _put(
        self, transactional_id: str, stored: TransactionValue, stage: TransactionValue
    ) -> Transaction:
        transaction = Transaction.of_value(transactional_id, stage)
        if _differs(stage, stored):
            try:
                transaction.written = self._store.log.append(transactional_id, stage)
            except TransactionError as error:
                self._is_unsafe(transaction, error)
        self._store.put(transaction)
        return transaction

    def _is_unsafe(self, transaction: Transaction, error: TransactionError) -> None:
        self._unwritten.add(transaction)
        logger.error(
            "%(transactional_id)s: what its partitions say of its transaction is not written yet."
            " If the broker stops before, the next start finds it again: %(error)s",
            {"transactional_id": transaction.transactional_id, "error": error},
        )

    async def _until_durable(self, transaction: Transaction) -> None:
        if transaction.written is not None:
            try:
                await self._store.log.durable(transaction.written)
            except TransactionError as error:
                self._is_unsafe(transaction, error)

    async def _finish(self, transaction: Transaction, decision: Decision, number: int = 0) -> None:
        """Carry out what is decided, from a stage on: `transaction` is at that."""
        stage, *later = decision.stages[number:]
        if any(map(_is_prepared, later)):
            self._deciding.add(transaction.transactional_id)  # perhaps only a marker says so
        else:
            self._deciding.discard(transaction.transactional_id)
        if not _is_prepared(stage):
            return
        try:
            await self._endings.resume(transaction, each_place(stage))
        except TransactionError as error:
            logger.warning(
                "%(transactional_id)s: its transaction is decided, and not ended in every"
                " partition yet: %(error)s",
                {"transactional_id": transaction.transactional_id, "error": error},
            )
        if not later:
            return
        go_on = partial(self._go_on, transaction, decision, number + 1)
        if transaction.state.is_prepared:  # the rest is owed
            self._endings.when_complete(transaction, go_on)
        else:
            await go_on()

    def _go_on(
        self, transaction: Transaction, decision: Decision, number: int
    ) -> Coroutine[Any, Any, None]:
        """Begin another stage, in the turn of the loop of the Complete before it."""
        self._store.by_producer_id.pop(transaction.producer_id, None)
        before, stage = decision.stages[number - 1 : number + 1]
        following = self._put(transaction.transactional_id, before, stage)
        following.is_held = transaction.is_held  # a late log may know of what follows, too
        return self._finish_following(following, decision, number)

    async def _finish_following(
        self, following: Transaction, decision: Decision, number: int
    ) -> None:
        await self._until_durable(following)
        await self._finish(following, decision, number)

    def name_what_is_left(self, *, are_all_read: bool) -> None:
        """Log the open transactions that no rule ends, and those of producers without an id."""
        self.name(self.left + list(self._unowned() if are_all_read else ()))

    def name(self, left: Sequence[LeftOpen]) -> None:
        """Log open transactions that no rule ends."""
        for producer_id, part in left[:NAMED_MAX]:
            logger.warning(
                "%(topic)s-%(partition)d: the transaction of producer %(producer_id)d, epoch"
                " %(producer_epoch)d, is open from offset %(offset)d on, and __transaction_state"
                " does not say how it ended: another broker has left it. Readers of committed"
                " records do not get past it. End it by hand: barnabas transactions find-hanging",
                {
                    "topic": part.place[0],
                    "partition": part.place[1],
                    "producer_id": producer_id,
                    "producer_epoch": part.epoch,
                    "offset": part.first_offset,
                },
            )
        if len(left) > NAMED_MAX:
            logger.warning(
                "and %(transactions)d more open transactions like these",
                {"transactions": len(left) - NAMED_MAX},
            )

    def _unowned(self) -> Iterable[LeftOpen]:
        for producer_id, of_it in self._evidence.producers.items():
            if producer_id not in self.judged:
                for part in of_it.open:
                    yield LeftOpen(producer_id, part)


def _name_torn(transaction: Transaction, evidence: Evidence) -> None:
    """Log the partitions in which the transaction that has ended last ended the other way."""
    if transaction.state in _COMPLETE:
        is_commit = transaction.state is TransactionState.COMPLETE_COMMIT
        for ended in evidence.of(transaction.producer_id).ended:
            is_last = ended.epoch == transaction.epoch and ended.closed_epoch == ended.epoch - 1
            if is_last and ended.is_commit != is_commit:
                logger.error(
                    "%(transactional_id)s: its transaction of epoch %(producer_epoch)d is torn:"
                    " %(outcome)s in %(topic)s-%(partition)d, which was offline when the broker"
                    " started, and %(outcome_elsewhere)s in its other partitions",
                    {
                        "transactional_id": transaction.transactional_id,
                        "producer_epoch": ended.closed_epoch,
                        "outcome": "committed" if ended.is_commit else "aborted",
                        "topic": ended.place[0],
                        "partition": ended.place[1],
                        "outcome_elsewhere": "committed" if is_commit else "aborted",
                    },
                )


def _place_count(value: TransactionValue, evidence: Evidence) -> int:
    """Return how many partitions a record names, and logs know its producers in."""
    listed = sum(len(topic.partition_ids) for topic in value.transaction_partitions or ())
    ids = {value.producer_id, value.previous_producer_id, value.next_producer_id}
    return listed + sum(evidence.open_count(one) for one in ids)


def _is_prepared(stage: TransactionValue) -> bool:
    return TransactionState(stage.transaction_status).is_prepared


def _differs(stage: TransactionValue, stored: TransactionValue) -> bool:
    """Whether a stage is to be written.

    That a Prepare has fewer partitions to end is no change. Neither is an id that is retired: at
    the next start, what was left to the operator may have been ended.
    """
    state = TransactionState(stage.transaction_status)
    if stage is stored or state is TransactionState.EMPTY:
        return False
    if not state.is_prepared:
        return True
    return (stage.producer_id, stage.producer_epoch, state) != (
        stored.producer_id,
        stored.producer_epoch,
        stored.transaction_status,
    )
