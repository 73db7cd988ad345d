"""How a transaction ends: the order of its writes (docs/decisions/0073, docs/transactions.md).

    close ── data durable ── Prepare, markers ── all durable ── readers see it ── answer ── Complete

- From its first step the transaction takes nothing more (`is_ending`): neither a partition, nor a
  batch that waited in a queue.
- A commit begins when what it commits is on the disk: usually it is, since producers waited for it.
  Without that (acks=1, `write.caching`), one more round of flushes comes first.
- An end that raises the epoch (TV2, and each end by the coordinator itself) appends Prepare and all
  markers, and flushes all logs side by side: producer id and epoch of a marker name this decision
  for ever, so each of these writes may survive a crash without the others.
- An end of TV1 has the epoch of its data, and its markers say nothing of the decision. So Prepare
  is durable before the first marker is appended.
- Complete, and whatever comes after it, erase Prepare. So they come once every marker is durable.
  The answer does not wait for the record Complete. It is written a little later, unless the next
  record of the id replaces it (broker/transactions/late_records.py).

Failures. Before Prepare is appended, nothing has changed: a commit with a failed log among its
partitions is refused, and so is any end for which the disk has no room. Later the outcome stands:
a partition whose log fails or has no room does not hold up the answer. Its marker is owed: the
transaction stays in Prepare*, and is tried again every second and at the next start. If the log of
the coordinator fails, the client is told to ask again; a start decides by what is on the disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, NamedTuple

from broker.runtime import owners
from broker.runtime.clock import Clock
from broker.runtime.metrics import Metrics
from broker.runtime.owners import Owner
from broker.runtime.turns import InTurns
from broker.transactions.markers import Markers, MarkerWriter
from broker.transactions.transaction import LastEnd, Place, Transaction
from broker.transactions.transaction_errors import TransactionError
from broker.transactions.transaction_states import EndReason, TransactionState
from broker.transactions.transaction_step import TV2
from broker.transactions.transaction_store import TransactionStore
from protocol.control_records import Marker
from protocol.errors import ErrorCode
from protocol.transaction_records import NO_PRODUCER_ID

logger = logging.getLogger("barnabas.transactions")

PLACES_PER_TURN: Final = 5_000  # of the loop
OWED_AT_A_TIME: Final = 50
WAIT_SECONDS: Final = 1.0  # for ends that no request waits for, before the next ones begin


class EndPlan(NamedTuple):
    """What is to become of a transaction, and why.

    `bumps`: the epoch is raised; `next_producer_id` is needed if no epoch is left.
    """

    is_commit: bool
    bumps: bool
    reason: EndReason
    next_producer_id: int = NO_PRODUCER_ID


class Endings:
    """Ends transactions, and keeps those whose markers are owed."""

    def __init__(
        self,
        store: TransactionStore,
        writer: MarkerWriter,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._store = store
        self._writer = writer
        self._clock = clock
        self._metrics = metrics
        self._markers: dict[Transaction, Markers] = {}
        self._owed: dict[Transaction, None] = {}  # those of `_markers` that an end has left
        self._waiting: dict[Transaction, asyncio.Future[None]] = {}
        self._beside: set[asyncio.Task[None]] = set()
        self._after: dict[Transaction, Callable[[], Coroutine[Any, Any, None]]] = {}

    async def end(self, transaction: Transaction, plan: EndPlan) -> tuple[int, int]:
        """End a transaction that is not being ended; return its next producer id and epoch.

        Returns when all that can be written is durable and readers see it. Raises TransactionError:
        TRANSACTION_ABORTABLE for a commit that a failed log prevents, COORDINATOR_NOT_AVAILABLE,
        CONCURRENT_TRANSACTIONS if it must wait for a log by now.
        """
        assert not transaction.is_busy, f"{transaction.transactional_id} is being ended"
        transaction.is_ending = True
        try:
            places = await self._writer.look_at(transaction, is_commit=plan.is_commit)
            if transaction.is_held:  # a log has opened meanwhile, which may say how it ended
                raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS)
            ids = self._prepare(transaction, plan, places)
            await self._carry_out(transaction, parallel=plan.bumps)
        finally:
            self._leave(transaction)
        return ids

    async def resume(self, transaction: Transaction, places: Iterable[Place]) -> None:
        """Go on with a transaction in Prepare* after a start: `places` may lack its marker.

        Its record may be new, and not durable. Raises TransactionError as `end` does.
        """
        assert not transaction.is_ending, "a start comes first"
        transaction.is_ending = True
        try:
            kept: dict[Place, None] = {}
            async for place in InTurns(places, PLACES_PER_TURN):
                kept[place] = None
            self._keep_markers(transaction, kept, only_open=True)
            await self._carry_out(transaction, parallel=False)
        finally:
            self._leave(transaction)

    @property
    def running_count(self) -> int:
        """How many transactions are being ended just now."""
        return sum(transaction.is_ending for transaction in self._markers)

    async def retry(self) -> None:
        """Try again to write what is owed."""
        owed = list(self._owed)
        for start in range(0, len(owed), OWED_AT_A_TIME):
            await self.run_beside(map(self._retry, owed[start : start + OWED_AT_A_TIME]))

    async def _retry(self, transaction: Transaction) -> None:
        if transaction.is_ending or transaction not in self._markers:
            return
        transaction.is_ending = True
        try:
            await self._carry_out(transaction, parallel=False)
        except TransactionError as error:
            logger.debug(
                "%(transactional_id)s: not ended yet: %(error)s",
                {"transactional_id": transaction.transactional_id, "error": error},
            )
        finally:
            self._leave(transaction)

    async def run_beside(self, ends: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Run ends that no request waits for; return when they are over, or after a moment.

        A log that is stuck holds up its own transactions, and not those that come after them.
        """
        tasks = [self._spawn(one) for one in ends]
        if tasks:
            await asyncio.wait(tasks, timeout=WAIT_SECONDS)

    def _spawn(self, end: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        name = "the end of a transaction"
        return owners.spawn(Owner.TRANSACTION, end, name, among=self._beside)

    def when_complete(
        self, transaction: Transaction, go_on: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Call `go_on` in the turn in which a transaction in Prepare* completes, and run the rest.

        Before any request finds the transaction complete.
        """
        self._after[transaction] = go_on

    async def finish(self) -> None:
        """Wait for the ends that no request waits for."""
        while self._beside:
            await asyncio.wait(self._beside)

    async def until_free(self, transaction: Transaction, timeout_seconds: float) -> None:
        """Return when a transaction is no longer being ended, or after the timeout."""
        if transaction.is_ending:
            free = self._waiting.get(transaction)
            if free is None:
                free = self._waiting[transaction] = asyncio.get_running_loop().create_future()
            await asyncio.wait((free,), timeout=timeout_seconds)

    def missing_of(self, transaction: Transaction) -> Iterable[Place]:
        """Return the partitions whose marker a transaction in Prepare* lacks."""
        markers = self._markers.get(transaction)
        return () if markers is None else (*markers.missing, *markers.appended)

    # -- Before the decision ----------------------------------------------------------------------

    def _prepare(
        self, transaction: Transaction, plan: EndPlan, places: dict[Place, None]
    ) -> tuple[int, int]:
        """Write the decision; return the producer id and epoch after it."""
        now_ms = self._clock.now_ms()
        step = transaction.end_step(
            now_ms,
            is_commit=plan.is_commit,
            bumps=plan.bumps,
            new_producer_id=plan.next_producer_id,
        )
        self._store.write(transaction, step)
        transaction.last_end = LastEnd(plan.is_commit, plan.reason, now_ms)
        if plan.is_commit:
            self._metrics.transactions_committed += 1
        else:
            self._metrics.transactions_aborted += 1
        self._keep_markers(transaction, places, only_open=False)
        if step.next_producer_id != NO_PRODUCER_ID:
            return step.next_producer_id, 0
        return step.producer_id, step.epoch

    def _keep_markers(
        self, transaction: Transaction, places: dict[Place, None], *, only_open: bool
    ) -> None:
        marker = Marker(
            producer_id=transaction.producer_id,
            producer_epoch=transaction.epoch,
            is_commit=transaction.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch=self._store.log.coordinator_epoch(transaction.transactional_id),
        )
        self._markers[transaction] = Markers(
            marker, places, only_open=only_open, is_raised=transaction.client_version >= TV2
        )

    # -- After it ---------------------------------------------------------------------------------

    async def _carry_out(self, transaction: Transaction, *, parallel: bool) -> None:
        """Write what is missing of a decided end; in `parallel` with the decision itself."""
        markers = self._markers[transaction]
        prepared = transaction.written
        if prepared is not None and not parallel:
            await self._store.log.durable(prepared)
        await self._writer.append_missing(markers)
        await self._writer.settle_durable(markers, prepared)
        if not markers.missing and not markers.appended:
            self._complete(transaction)

    def _complete(self, transaction: Transaction) -> None:
        """Complete: nothing is missing any more. The record may come later."""
        del self._markers[transaction]
        self._store.complete(transaction, transaction.complete_step(self._clock.now_ms()))
        go_on = self._after.pop(transaction, None)
        if go_on is not None:
            self._spawn(go_on())

    def _leave(self, transaction: Transaction) -> None:
        """Let waiting requests go on: an end has come as far as it could."""
        transaction.is_ending = False
        free = self._waiting.pop(transaction, None)
        if free is not None and not free.done():
            free.set_result(None)
        if transaction in self._markers:
            self._owed[transaction] = None
        else:
            self._owed.pop(transaction, None)
        self._metrics.transactions_owed_now = len(self._owed)
