"""The judge of transactions: what read_committed sees, against what their clients were told.

`tests.support.transaction_checker` compares the two. Besides:

    offsets     of a transaction end as its records do: the judge of groups compares (`settle`)
    late        none is open for longer than its timeout and two looks at the clock (`LateWatch`)
    hanging     at the end all are ended (`clients.settled`)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.simulation.record import Record
from tests.simulation.transaction_events import ABORTED_CODE
from tests.support import transaction_checker
from tests.support.history_checker import Key
from tests.support.transaction_checker import Seen, is_seen, sure_of
from tests.support.transaction_history import Outcome, TransactionHistory

if TYPE_CHECKING:
    from broker.server import Broker

LISTED_MAX: Final = 12
MS: Final = 1_000_000
DRIFT_MIN: Final = 0.9  # of the broker's wall clock
GRACE_MS: Final = 2_000
FLUSHES_MAX: Final = 30  # that the end of a transaction may wait for, beside others


def judge(record: Record, seen: Seen, *, may_lose: bool) -> list[str]:
    """Object to what clients saw, as `transaction_checker.check`."""
    found = [
        one.detail for one in transaction_checker.check(_history(record), seen, may_lose=may_lose)
    ]
    more = len(found) - LISTED_MAX
    return [*found[:LISTED_MAX], *([f"and {more} more"] if more > 0 else [])]


def _history(record: Record) -> TransactionHistory:
    return TransactionHistory(
        record.transactions,
        record.instances,
        record.committed_reads,
        volatile=record.volatile,
        compacted=record.compacted,
        trims=record.trims,
    )


def settle(record: Record, seen: Seen, *, may_lose: bool) -> None:
    """Note for the offsets of each transaction what its records tell of its end."""
    history = _history(record)
    for one in record.transactions:
        if one.outcome is Outcome.OPEN:
            for event in one.offsets:
                event.answered(event.ended_ns, ABORTED_CODE)
        elif one.outcome is Outcome.UNKNOWN:
            sure = sure_of(one, history, seen, may_lose=may_lose)
            if sure:
                is_there = any(is_seen(written, seen) for written in sure)
                for event in one.offsets:
                    event.answered(event.ended_ns, 0 if is_there else ABORTED_CODE)


def not_committed(record: Record, seen: Seen) -> tuple[set[tuple[Key, bytes]], set[bytes]]:
    """Return what compaction removes whatever its key: values that are not committed, by partition.

    The second are those among them that may be committed all the same, and be removed for a later
    record.
    """
    found: set[tuple[Key, bytes]] = set()
    unknown: set[bytes] = set()
    for one in record.transactions:
        if one.outcome is Outcome.COMMITTED:
            continue
        for written in one.written:
            for value in written.values:
                if value not in seen.get(written.key, ()):
                    found.add((written.key, value))
                    if one.outcome is Outcome.UNKNOWN:
                        unknown.add(value)
    return found, unknown


class LateWatch:
    """Watches how long transactions are open in one life of a broker."""

    def __init__(self, broker: Broker, fsync_ns: int) -> None:
        self.found: list[str] = []
        self._broker = broker
        self._since_ns: dict[tuple[str, int, int, int], int] = {}
        self._grace_ns = GRACE_MS * MS + FLUSHES_MAX * fsync_ns
        config = broker._assembly.services.config
        self._look_ms = config.transaction_abort_timed_out_transaction_cleanup_interval_ms

    def look(self, now_ns: int) -> None:
        """Note what is open, and what has been so for too long."""
        services = self._broker._assembly.services
        if self.found or not services.has_transactions:
            return
        since_ns: dict[tuple[str, int, int, int], int] = {}
        for one in services.transactions.store.open:
            place = one.transactional_id, one.producer_id, one.epoch, one.started_ms
            since_ns[place] = began_ns = self._since_ns.get(place, now_ns)
            bound_ns = (one.timeout_ms + 2 * self._look_ms) * MS / DRIFT_MIN + self._grace_ns
            if now_ns - began_ns > bound_ns:
                ms = (now_ns - began_ns) // MS
                self.found.append(
                    f"{one.transactional_id}, epoch {one.epoch} is open for {ms} ms, "
                    f"its timeout is {one.timeout_ms} ms"
                )
        self._since_ns = since_ns
