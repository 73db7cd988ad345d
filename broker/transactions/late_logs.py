"""Logs that open only after the start, and transactions that wait for what these say.

A start judges each transaction by the logs (`broker.transactions.adoption`). A log that the disk
did not give then is tried again every second. It may have the only marker of a decision that was
lost, or data whose record was lost. Until then another end of the transaction would tear it:

    at the start       a transaction that is open in such a partition is held: nobody ends it
    when a log opens   its evidence is taken, and the ids of its producers are held, in the turn of
                       the loop in which clients find the log
    then               each of them is judged as at a start, by what its logs say by now

Requests for a held id are refused with CONCURRENT_TRANSACTIONS, and no time ends it. It is let go
when it is judged: when all its partitions have been looked at, or their topics deleted, or a marker
has decided. An operator who does not want to wait aborts the transaction, at his own risk.

The log keeps its markers until what they say is durable, as those of a start do.

The record that added the partition may be lost as well, so such a log may know of any transaction
of TV2. All that were open are held for `PATIENCE_SECONDS`: a disk that falters gives the log when
it is asked again. They are not held for longer, for one damaged log would then stop them all. What
was missing is mended afterwards, where it can be: data of the epoch before the id's last decision
get that one's outcome.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import Final

from broker.partitions.partition import Partitions
from broker.runtime.clock import SECOND_NS, Clock
from broker.runtime.turns import InTurns
from broker.transactions.adoption import NAMED_MAX, Adoption
from broker.transactions.evidence import (
    Evidence,
    OpenPart,
    Place,
    ProducerEvidence,
    gather,
)
from broker.transactions.reconcile import LeftOpen
from broker.transactions.transaction import EPOCH_LAST, Transaction
from broker.transactions.transaction_step import TV2
from broker.transactions.transaction_store import TransactionStore
from protocol.transaction_records import NO_PRODUCER_ID
from storage.errors import StorageError
from storage.log import Log

logger = logging.getLogger("barnabas.transactions")

IDS_PER_TURN: Final = 500  # of the loop
JUDGED_PER_TURN: Final = 100  # at some 60 µs each, or more with many partitions
PATIENCE_SECONDS: Final = 10


class LateLogs:
    """The logs that a start could not look at, and the transactions that are held for them."""

    def __init__(
        self,
        store: TransactionStore,
        partitions: Partitions,
        adoption: Adoption,
        clock: Clock,
        unseen: Iterable[Place],
    ) -> None:
        """`unseen` are the partitions whose logs the start could not look at."""
        self._store = store
        self._partitions = partitions
        self._adoption = adoption
        self._clock = clock
        self._unseen = set(unseen)
        self._patient_until_ns = clock.monotonic_ns()
        self._logs: list[Log] = []  # they keep the markers that their opening has found
        self._evidence: dict[int, ProducerEvidence] = {}
        self._held: dict[Transaction, bool] = {}  # whether all that is known was judged
        self._patient: set[Transaction] = set()  # of them, those that wait for any log
        self._all_judged = True

    @property
    def is_waiting(self) -> bool:
        """Whether anything is to be judged, now or later."""
        return bool(self._logs or self._held)

    def opened(self, log: Log) -> None:
        """Take the evidence of a log before clients find it, in the same turn of the loop."""
        self._unseen.discard((log.topic, log.partition))
        found = gather([log]).producers
        if not found:
            log.settle_replayed()
            return
        self._logs.append(log)
        self._all_judged = False
        for producer_id, of_it in found.items():
            known = self._evidence.setdefault(producer_id, ProducerEvidence())
            known.open.extend(of_it.open)
            known.ended.extend(of_it.ended)
        self._hold_owners()

    async def hold(self, transactional_ids: Collection[str]) -> None:
        """Hold those of the ids that cannot be judged yet: they were loaded, and are not served."""
        self._follow()
        self._hold_owners()
        if transactional_ids:
            self._patient_until_ns = self._clock.monotonic_ns() + PATIENCE_SECONDS * SECOND_NS
        may_come = self._may_come()
        held_count = 0
        async for transactional_id in InTurns(transactional_ids, IDS_PER_TURN):
            transaction = self._store.by_id.get(transactional_id)
            if transaction is None or transaction not in self._store.open:
                continue
            unseen = self._unseen_of(transaction)
            if unseen is None and may_come and transaction.client_version >= TV2:
                self._hold(transaction, is_judged=transaction not in self._held)
                self._patient.add(transaction)
            if unseen is not None:
                self._hold(transaction, is_judged=transaction not in self._held)
                held_count += 1
                if held_count <= NAMED_MAX:
                    logger.warning(
                        "%(transactional_id)s: its transaction is open in %(topic)s-%(partition)d,"
                        " which is offline and may know how it ended. So it is neither ended nor"
                        " timed out until that partition can be opened or its topic is deleted. To"
                        " abort it all the same: barnabas transactions abort %(transactional_id)s",
                        {
                            "transactional_id": transactional_id,
                            "topic": unseen[0],
                            "partition": unseen[1],
                        },
                    )
        if held_count > NAMED_MAX:
            logger.warning(
                "and %(transactions)d more transactions like these",
                {"transactions": held_count - NAMED_MAX},
            )

    def _hold(self, transaction: Transaction, *, is_judged: bool = False) -> None:
        transaction.is_held = True
        self._held[transaction] = is_judged

    def _follow(self) -> None:
        """Hold what has taken the place of held transactions: a later stage of the same id."""
        for former in list(self._held):
            current = self._store.by_id.get(former.transactional_id)
            if current is not former:
                self._let_go(former)
                if current is not None and current.is_held:
                    self._hold(current)

    def _hold_owners(self) -> None:
        """Hold the ids whose producers the late logs know."""
        unowned = set()
        for producer_id, of_it in self._evidence.items():
            owner = self._store.by_producer_id.get(producer_id)
            if owner is not None:
                self._hold(owner)
            elif any(part.epoch == 0 or part.epoch >= EPOCH_LAST for part in of_it.open):
                unowned.add(producer_id)
        if unowned:  # the id may have gone over from this producer id, or is about to go to it
            for one in self._store.by_id.values():
                if one.previous_producer_id in unowned or one.next_producer_id in unowned:
                    self._hold(one)

    def _unseen_of(self, transaction: Transaction) -> Place | None:
        """Return a partition of a transaction that nobody could look at; None if there is none."""
        if self._unseen:
            for place in transaction.places():
                if place in self._unseen:
                    if self._partitions.is_offline(*place) or self._partitions.has(*place):
                        return place
                    self._unseen.discard(place)  # its topic was deleted
        return None

    def _may_come(self) -> bool:
        """Whether a log may still open soon that says something of any transaction."""
        if self._clock.monotonic_ns() >= self._patient_until_ns:
            return False
        return any(self._partitions.is_offline(*place) for place in self._unseen)

    def give_up(self, transaction: Transaction) -> None:
        """Let a transaction go that waits for a log: an operator aborts it."""
        if self._held.get(transaction) and self._unseen_of(transaction) is not None:
            self._let_go(transaction)

    def _let_go(self, transaction: Transaction) -> None:
        transaction.is_held = False
        self._patient.discard(transaction)
        del self._held[transaction]

    async def judge(self) -> None:
        """Judge what is held, and let it go if nothing more can come."""
        self._all_judged = True
        if not self._may_come():
            self._patient.clear()
        async for transaction in InTurns(list(self._held), JUDGED_PER_TURN):
            if transaction not in self._held:
                continue  # given up meanwhile
            is_former = self._store.by_id.get(transaction.transactional_id) is not transaction
            if is_former or transaction.is_busy_ending:
                self._all_judged = False  # first that decision, or what follows it (`_follow`)
                continue
            is_whole = self._unseen_of(transaction) is None and transaction not in self._patient
            if self._held[transaction] and not is_whole:
                continue  # nobody has written to its logs since it was judged
            self._held[transaction] = True  # unless another log opens meanwhile
            replaced = await self._adoption.judge(
                transaction, self._evidence_of(transaction), may_go_on=is_whole
            )
            if replaced:  # what still refers to the former one finds it held for ever
                self._patient.discard(transaction)
                self._held.pop(transaction, None)
            elif is_whole and self._held.get(transaction):
                self._let_go(transaction)

    def _evidence_of(self, transaction: Transaction) -> Evidence:
        """Return what the logs say by now of the producers of an id."""
        ids = (
            transaction.producer_id,
            transaction.previous_producer_id,
            transaction.next_producer_id,
        )
        producers = {}
        for producer_id in ids:
            if producer_id == NO_PRODUCER_ID:
                continue
            late = self._evidence.get(producer_id) or ProducerEvidence()
            places = dict.fromkeys(transaction.places())
            places.update(dict.fromkeys(part.place for part in late.open))
            parts = [self._open_part(producer_id, place) for place in places]
            producers[producer_id] = ProducerEvidence(
                [part for part in parts if part is not None], late.ended
            )
        seen = frozenset(place for place in transaction.places() if place not in self._unseen)
        return Evidence(producers, seen)

    def _open_part(self, producer_id: int, place: Place) -> OpenPart | None:
        try:
            log = self._partitions.get(*place).log
        except StorageError:
            return None
        first_offset = log.first_open_offset_of(producer_id)
        if first_offset < 0:
            return None
        return OpenPart(place, log.producers.entries[producer_id].epoch, first_offset)

    def let_logs_go(self) -> None:
        """Let go of the markers of late logs, once nothing depends on them.

        To be called when all ids that can be loaded were loaded and judged.
        """
        if not (self._logs and self._all_judged and self._adoption.is_safe):
            return
        self._adoption.name(self._unowned())
        logs, self._logs, self._evidence = self._logs, [], {}
        for log in logs:
            log.settle_replayed()

    def _unowned(self) -> list[LeftOpen]:
        return [
            LeftOpen(producer_id, part)
            for producer_id, of_it in self._evidence.items()
            if producer_id not in self._adoption.judged
            for part in of_it.open
        ]
