"""The judge of transactions: what read_committed sees, against what their clients were told.

    whole       the records of a transaction, in all topics, are seen at the end or none is; so are
                its offsets, which the judge of groups compares (`settle`)
    answered    what was answered as committed is seen, what was answered as aborted is not
    early       nobody saw a record before its commit was asked for, or one that is not committed
    fenced      when a producer was answered, the ones before it with its id can do nothing more
    ids         no two producers were answered the same id and epoch
    late        none is open for longer than its timeout and two looks at the clock (`LateWatch`)
    hanging     at the end all are ended (`clients.settled`)

A batch with acks=1, or in a log with write.caching, may be lost before its transaction is
committed, by a power cut or a disk that fails. It is judged only in histories without them, and
where the same broker has taken the batch and committed the transaction: it makes all durable first.
It did so if it answered, and if no other broker was asked to commit.

What DeleteRecords has deleted, and what compaction may have removed for a later record that is
committed, need not be seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from tests.simulation.record import Record
from tests.simulation.transaction_events import (
    ABORTED_CODE,
    Instance,
    Outcome,
    Transaction,
    Written,
)
from tests.support.history_checker import Key, record_key

if TYPE_CHECKING:
    from broker.server import Broker

LISTED_MAX: Final = 12
MS: Final = 1_000_000
DRIFT_MIN: Final = 0.9  # of the broker's wall clock
GRACE_MS: Final = 2_000
FLUSHES_MAX: Final = 30  # that the end of a transaction may wait for, beside others

Seen = Mapping[Key, Mapping[bytes, int]]  # the committed values of a partition, and their offsets


def judge(record: Record, seen: Seen, *, may_lose: bool) -> list[str]:
    """Object to what clients saw. `seen`: the committed values at the end, and their offsets.

    `may_lose`: the power was cut, or the disk failed. Partitions that are not in `seen` are not
    judged.
    """
    found: list[str] = []
    for one in record.transactions:
        sure = _sure(one, record, seen, may_lose=may_lose)
        name = f"{one.who}, epoch {one.epoch} of {one.transactional_id}"
        found += [f"{name}: {what}" for what in _whole(one, sure, seen)]
        found += [f"{name}: {what}" for what in _fenced(one, record.instances, seen)]
    found += _early(record, seen)
    found += _ids(record.instances)
    more = len(found) - LISTED_MAX
    return [*found[:LISTED_MAX], *([f"and {more} more"] if more > 0 else [])]


def settle(record: Record, seen: Seen, *, may_lose: bool) -> None:
    """Note for the offsets of each transaction what its records tell of its end."""
    for one in record.transactions:
        if one.outcome is Outcome.OPEN:
            for event in one.offsets:
                event.answered(event.ended_ns, ABORTED_CODE)
        elif one.outcome is Outcome.UNKNOWN:
            sure = _sure(one, record, seen, may_lose=may_lose)
            if sure:
                is_seen = any(_is_seen(written, seen) for written in sure)
                for event in one.offsets:
                    event.answered(event.ended_ns, 0 if is_seen else ABORTED_CODE)


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


def _sure(one: Transaction, record: Record, seen: Seen, *, may_lose: bool) -> list[Written]:
    """Return the batches that must share the transaction's end."""
    return [
        written
        for written in one.written
        if written.base is not None
        and written.key in seen
        and not _may_be_removed(written, record, seen)
        and (
            not may_lose
            or (written.acks == -1 and written.key not in record.volatile)
            or _is_decided_in(one, written.life)
        )
    ]


def _is_decided_in(one: Transaction, life: int | None) -> bool:
    """Whether the transaction, if it is committed, was so by the broker of that life."""
    return life is not None and (life == one.life or one.commit_lives == {life})


def _may_be_removed(written: Written, record: Record, seen: Seen) -> bool:
    """Whether a record of the batch is not seen, and may have been removed."""
    assert written.base is not None
    here = seen[written.key]
    return any(
        value not in here and _is_removed(written.key, value, offset, record, here)
        for offset, value in enumerate(written.values, written.base)
    )


def _is_removed(
    key: Key, value: bytes, offset: int, record: Record, here: Mapping[bytes, int]
) -> bool:
    if offset < max(record.trims.get(key, ()), default=0):
        return True
    own = record_key(value)
    return key in record.compacted and any(
        at > offset and record_key(other) == own for other, at in here.items()
    )


def _is_seen(written: Written, seen: Seen) -> bool:
    return any(value in seen.get(written.key, ()) for value in written.values)


def _said(written: Written) -> str:
    return f"{written.key[0]}-{written.key[1]} at {written.base}"


def _whole(one: Transaction, sure: Iterable[Written], seen: Seen) -> Iterator[str]:
    there = [written for written in one.written if _is_seen(written, seen)]
    missing = [
        written
        for written in sure
        if not all(value in seen[written.key] for value in written.values)
    ]
    if one.outcome is Outcome.COMMITTED and missing:
        yield f"{one.outcome}, and {_said(missing[0])} is not seen"
    elif one.outcome in (Outcome.ABORTED, Outcome.OPEN) and there:
        yield f"{one.outcome}, and {_said(there[0])} is seen"
    elif one.outcome is Outcome.UNKNOWN and there and missing:
        yield f"torn: {_said(there[0])} is seen, {_said(missing[0])} is not"


def _fenced(one: Transaction, instances: Iterable[Instance], seen: Seen) -> Iterator[str]:
    """Object to what a producer did after the answer to a later one."""
    later = [
        other
        for other in instances
        if other.is_init
        and other.transactional_id == one.transactional_id
        and (other.producer_id, other.epoch) > (one.producer_id, one.epoch)
    ]
    if not later:
        return
    first = min(later, key=lambda other: other.answered_ns)
    what = f"after {first.who} was answered epoch {first.epoch}"
    if one.outcome is Outcome.COMMITTED and (one.done_asked_ns or 0) > first.answered_ns:
        yield f"committed {what}"
    for written in one.written:
        if written.first_asked_ns > first.answered_ns and _is_seen(written, seen):
            yield f"{_said(written)} was written {what}, and is committed"


def _early(record: Record, seen: Seen) -> Iterator[str]:
    writers = {
        (written.key, value): (one, written)
        for one in record.transactions
        for written in one.written
        for value in written.values
    }
    for read in record.committed_reads:
        may_be_removed = bool(record.trims.get(read.key)) or read.key in record.compacted
        for value in read.values:
            if (read.key, value) not in writers:
                continue
            one, written = writers[read.key, value]
            is_sure = written.base is not None or not may_be_removed
            what = f"{read.who} saw {value[:40]!r} of {read.key} at {read.at_ns} ns"
            if one.commit_asked_ns is None or read.at_ns < one.commit_asked_ns:
                yield f"{what}, whose commit was not asked for"
            elif (
                read.key in seen
                and value not in seen[read.key]
                and is_sure
                and (written.base is None or not _may_be_removed(written, record, seen))
            ):
                yield f"{what}, which is not committed"


def _ids(instances: Iterable[Instance]) -> Iterator[str]:
    known: dict[tuple[int, int], Instance] = {}
    for one in instances:
        before = known.setdefault((one.producer_id, one.epoch), one)
        is_same = before.who == one.who and (one.is_again or before is one)
        if not is_same:
            ids = f"producer {one.producer_id}, epoch {one.epoch}"
            yield f"{before.who} and {one.who} are both {ids}"


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
