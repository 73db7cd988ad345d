"""Records of `__transaction_state` that nothing waits for: written a little later, or never.

A Complete says what Prepare and its durable markers say already: a start that finds these completes
the transaction. An Ongoing for data that come beside it says what these data say: a start that
finds them goes on with the transaction. So no client need wait until such a record is in the log,
and a producer that takes its next step within `PAUSE_SECONDS` needs no such record at all: the next
one of its id takes its place, as compaction would have it. Of short transactions of TV2, one after
the other, the log gets only the decisions.

    implicit add, end ── add ─┬─ another record of the id ── drop
                              └─ PAUSE_SECONDS, twice at most, or the stop ── written

Whatever is appended for an id drops what is late for it, in the same turn of the loop, so the last
record of an id in the log is never older than one before it. What cannot be written, since the disk
is full, is tried again after the others; a log that has failed takes no record before the next
start, which completes the transactions itself. At most one record an id is late.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from broker.runtime import owners
from broker.runtime.owners import Owner
from broker.runtime.turns import InTurns
from broker.transactions.transaction import Transaction
from broker.transactions.transaction_errors import TransactionError

logger = logging.getLogger("barnabas.transactions")

PAUSE_SECONDS: Final = 0.1
RECORDS_PER_TURN: Final = 50  # of the loop


class LateRecords:
    """The transactions whose last record is not in the log yet.

    `append` writes the record of a transaction as it is, and drops it here. `is_open` returns
    whether the log of an id takes records at all.
    """

    __slots__ = ("_append", "_has_left", "_is_open", "_is_stopping", "_is_timed", "_old", "_young")

    def __init__(
        self, append: Callable[[Transaction], object], is_open: Callable[[str], bool]
    ) -> None:
        self._append = append
        self._is_open = is_open
        self._young: dict[str, Transaction] = {}  # by transactional id
        self._old: dict[str, Transaction] = {}  # those that have waited for one pause
        self._is_timed = False
        self._is_stopping = False
        self._has_left = False

    @property
    def count(self) -> int:
        """How many records are not written yet."""
        return len(self._young) + len(self._old)

    def add(self, transaction: Transaction) -> None:
        """Write the record of a transaction later; while the broker stops, now."""
        if self._has_left:
            return
        self.drop(transaction.transactional_id)  # the record between could not be written
        self._young[transaction.transactional_id] = transaction
        if self._is_stopping:
            self._write(transaction)
        else:
            self._time()

    def has(self, transaction: Transaction) -> bool:
        """Whether the record of a transaction is not written yet."""
        name = transaction.transactional_id
        return self._old.get(name) is transaction or self._young.get(name) is transaction

    def drop(self, transactional_id: str) -> None:
        """Forget what is late for an id: another record has taken its place."""
        self._young.pop(transactional_id, None)
        self._old.pop(transactional_id, None)

    async def finish(self) -> None:
        """Write everything, since the broker stops, and from now on each record at once."""
        self._is_stopping = True
        late = [*self._old.values(), *self._young.values()]
        async for transaction in InTurns(late, RECORDS_PER_TURN):
            if self.has(transaction):
                self._write(transaction)

    def leave(self) -> None:
        """Write nothing from now on: the logs are being closed. A start writes what is late."""
        self._has_left = True
        self._young.clear()
        self._old.clear()

    def _time(self) -> None:
        if not (self._is_timed or self._is_stopping):
            self._is_timed = True
            owners.later(Owner.TRANSACTION, PAUSE_SECONDS, self._pass)

    def _pass(self) -> None:
        """Write what has waited for a whole pause: a busy producer's records are gone by then."""
        self._is_timed = False
        try:
            self._write_old()
        finally:
            if self.count:
                self._time()

    def _write_old(self) -> None:
        for name in list(self._old)[:RECORDS_PER_TURN]:
            # What cannot be written waits for another pause, behind those that can.
            self._young[name] = transaction = self._old.pop(name)
            if not self._write(transaction):
                return
        if self._old:
            self._is_timed = True
            owners.soon(Owner.TRANSACTION, self._pass)
        else:
            self._old, self._young = self._young, {}

    def _write(self, transaction: Transaction) -> bool:
        """Write a record; return whether it need not be tried again."""
        name = transaction.transactional_id
        try:
            self._append(transaction)
        except TransactionError as error:
            if not self._is_open(name):  # a start completes it
                self.drop(name)
                return True
            logger.debug(
                "%(transactional_id)s: the state of its transaction is recorded later: %(error)s",
                {"transactional_id": name, "error": error},
            )
            return False
        return True
