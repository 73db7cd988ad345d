"""The panel's part for transactions: when their judge looks, and at what."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tests.simulation.clients.settled import UNSOUND, end_transactions, read_committed
from tests.simulation.judges import quiet, transactions
from tests.simulation.judges.transactions import LateWatch
from tests.simulation.plan import SLOW_FSYNC_NS
from tests.support.history_checker import Key

if TYPE_CHECKING:
    from tests.simulation.context import Context
    from tests.simulation.life import Life

JUDGE: Final = "transactions"


class TransactionPanel:
    """Asks the judge of transactions in its time; see the module."""

    def __init__(self, context: Context, objects: Callable[[str, list[str]], None]) -> None:
        self._context = context
        self._object = objects
        self._watch: LateWatch | None = None
        self._seen: dict[Key, dict[bytes, int]] = {}

    def life_serves(self, life: Life) -> None:
        """Watch how transactions end, and how long they are open, unless the disk holds them up."""
        plan = self._context.plan
        self._context.disk.ends.is_there = life.broker._assembly.services.partitions.has
        kinds = {fault.kind for fault in plan.faults}
        if not kinds & {"slow disk", "slow log at an end", "stuck disk"}:
            self._watch = LateWatch(life.broker, plan.shape.fsync_ns)

    def look(self) -> None:
        """Look at what is open. A broker that stops looks at no clock."""
        life = self._context.life
        is_stopping = life is not None and life.told_to_stop_ns
        if self._watch is not None and not is_stopping and not self._context.injected & UNSOUND:
            self._watch.look(self._context.world.now_ns)

    def life_is_over(self, life: Life) -> None:
        """Stop watching.

        A stop that does not wait for what a crash has left, because it is hurried or the disk is
        slow, leaves it to the next start, and says so.
        """
        if self._watch is not None:
            self._object(JUDGE, self._watch.found)
        self._watch = None
        is_slow = self._context.plan.shape.fsync_ns >= SLOW_FSYNC_NS
        is_cut_short = is_slow or bool(self._context.injected & {quiet.SLOW, quiet.HURRY})
        if life.has_served and life.told_to_stop_ns and is_cut_short:
            logs = [one.log for one in life.broker._assembly.services.partitions.all()]
            firsts = [(log.unsettled_from, log.opened_at) for log in logs]
            if any(first is not None and first < opened_at for first, opened_at in firsts):
                self._context.injected.add(quiet.OWED)

    async def finale(self) -> None:
        """End all transactions, and read what is committed."""
        self._object(JUDGE, await end_transactions(self._context))
        self._seen = await read_committed(self._context)

    def verdict(self) -> None:
        """Judge the history; the judge of groups comes after this."""
        may_lose = bool(self._context.power_cuts_ns or self._context.injected & UNSOUND)
        record = self._context.record
        self._object(JUDGE, self._context.disk.ends.found)
        self._object(JUDGE, transactions.judge(record, self._seen, may_lose=may_lose))
        transactions.settle(record, self._seen, may_lose=may_lose)
        record.not_committed, record.maybe_committed = transactions.not_committed(
            record, self._seen
        )
