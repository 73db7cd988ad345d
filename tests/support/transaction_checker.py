"""The checker of transactional histories: what was told and seen, against what is committed.

    torn            of the records of one transaction some are seen, and others are not
    lost-commit     what was answered as committed is not seen
    aborted-read    what was aborted, or never committed, is seen
    fenced-write    when a producer was answered, the ones before it with its id did something more
    early-read      a record was seen before its commit was asked for
    vanished        a record was seen that is not committed
    same-epoch      two producers were answered the same id and epoch
    duplicate       a record is committed twice

Of a group's offsets (`check_offsets`), which the records of their transaction explain:

    torn-offsets    the offsets are committed and the records are not, or the other way around
    early-offsets   an offset was seen before its commit was asked for

Of a group that copies what it consumes (`check_copies`), each record once:

    copied-twice, not-copied

A batch with acks=1, or in a log with write.caching, may be lost before its transaction is
committed, by a power cut or a disk that fails. It is judged only in histories without them, and
where the same broker has taken the batch and committed the transaction: it makes all durable first.
It did so if it answered, and if no other broker was asked to commit.

What DeleteRecords has deleted, and what compaction may have removed for a later record that is
committed, need not be seen.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from tests.support.history_checker import Anomaly, Key, record_key
from tests.support.transaction_history import (
    Instance,
    Outcome,
    SentOffset,
    Transaction,
    TransactionHistory,
    Written,
)

NOTHING: Final = -1  # as a group's offset

Seen = Mapping[Key, Mapping[bytes, int]]  # the committed values of a partition, and their offsets


def check(history: TransactionHistory, seen: Seen, *, may_lose: bool) -> list[Anomaly]:
    """Object to what clients saw. `seen`: the committed values at the end, and their offsets.

    `may_lose`: the power was cut, or the disk failed. Partitions that are not in `seen` are not
    judged.
    """
    found: list[Anomaly] = []
    inits: dict[str, list[Instance]] = {}
    for instance in history.instances:
        if instance.is_init:
            inits.setdefault(instance.transactional_id, []).append(instance)
    for one in history.transactions:
        sure = sure_of(one, history, seen, may_lose=may_lose)
        name = f"{one.who}, epoch {one.epoch} of {one.transactional_id}"
        objections = [
            *_whole(one, sure, seen),
            *_fenced(one, inits.get(one.transactional_id, ()), seen),
        ]
        found += [Anomaly(kind, f"{name}: {what}") for kind, what in objections]
    found += _early(history, seen)
    found += _ids(history.instances)
    return found


def sure_of(
    one: Transaction, history: TransactionHistory, seen: Seen, *, may_lose: bool
) -> list[Written]:
    """Return the batches that must share the transaction's end."""
    return [
        written
        for written in one.written
        if written.base is not None
        and written.key in seen
        and not _may_be_removed(written, history, seen)
        and (
            not may_lose
            or (written.acks == -1 and written.key not in history.volatile)
            or _is_decided_in(one, written.life)
        )
    ]


def _is_decided_in(one: Transaction, life: int | None) -> bool:
    """Whether the transaction, if it is committed, was so by the broker of that life."""
    return life is not None and (life == one.life or one.commit_lives == {life})


def _may_be_removed(written: Written, history: TransactionHistory, seen: Seen) -> bool:
    """Whether a record of the batch is not seen, and may have been removed."""
    assert written.base is not None
    here = seen[written.key]
    return any(
        value not in here and _is_removed(written.key, value, offset, history, here)
        for offset, value in enumerate(written.values, written.base)
    )


def _is_removed(
    key: Key, value: bytes, offset: int, history: TransactionHistory, here: Mapping[bytes, int]
) -> bool:
    if offset < max(history.trims.get(key, ()), default=0):
        return True
    own = record_key(value)
    return key in history.compacted and any(
        at > offset and record_key(other) == own for other, at in here.items()
    )


def is_seen(written: Written, seen: Seen) -> bool:
    """Whether any record of a batch is committed."""
    return any(value in seen.get(written.key, ()) for value in written.values)


def duplicates(values: Mapping[Key, Sequence[bytes]]) -> list[Anomaly]:
    """Object to records that are committed twice; each value is unique in its partition."""
    return [
        Anomaly("duplicate", f"{key}: {value[:40]!r} is committed {count} times")
        for key, each in values.items()
        for value, count in Counter(each).items()
        if count > 1
    ]


def _said(written: Written) -> str:
    return f"{written.key[0]}-{written.key[1]} at {written.base}"


def _whole(one: Transaction, sure: Iterable[Written], seen: Seen) -> Iterator[tuple[str, str]]:
    there = [written for written in one.written if is_seen(written, seen)]
    missing = [
        written
        for written in sure
        if not all(value in seen[written.key] for value in written.values)
    ]
    if one.outcome is Outcome.COMMITTED and missing:
        yield "lost-commit", f"{one.outcome}, and {_said(missing[0])} is not seen"
    elif one.outcome in (Outcome.ABORTED, Outcome.OPEN) and there:
        yield "aborted-read", f"{one.outcome}, and {_said(there[0])} is seen"
    elif one.outcome is Outcome.UNKNOWN and there and missing:
        yield "torn", f"torn: {_said(there[0])} is seen, {_said(missing[0])} is not"


def _fenced(one: Transaction, inits: Iterable[Instance], seen: Seen) -> Iterator[tuple[str, str]]:
    """Object to what a producer did after the answer to a later one of the same id."""
    later = [
        other for other in inits if (other.producer_id, other.epoch) > (one.producer_id, one.epoch)
    ]
    if not later:
        return
    first = min(later, key=lambda other: other.answered_ns)
    what = f"after {first.who} was answered epoch {first.epoch}"
    if one.outcome is Outcome.COMMITTED and (one.done_asked_ns or 0) > first.answered_ns:
        yield "fenced-write", f"committed {what}"
    for written in one.written:
        if written.first_asked_ns > first.answered_ns and is_seen(written, seen):
            yield "fenced-write", f"{_said(written)} was written {what}, and is committed"


def _early(history: TransactionHistory, seen: Seen) -> Iterator[Anomaly]:
    writers = {
        (written.key, value): (one, written)
        for one in history.transactions
        for written in one.written
        for value in written.values
    }
    for read in history.reads:
        may_be_removed = bool(history.trims.get(read.key)) or read.key in history.compacted
        for value in read.values:
            if (read.key, value) not in writers:
                continue
            one, written = writers[read.key, value]
            is_sure = written.base is not None or not may_be_removed
            what = f"{read.who} saw {value[:40]!r} of {read.key} at {read.at_ns} ns"
            if one.commit_asked_ns is None or read.at_ns < one.commit_asked_ns:
                yield Anomaly("early-read", f"{what}, whose commit was not asked for")
            elif (
                read.key in seen
                and value not in seen[read.key]
                and is_sure
                and (written.base is None or not _may_be_removed(written, history, seen))
            ):
                yield Anomaly("vanished", f"{what}, which is not committed")


def _ids(instances: Iterable[Instance]) -> Iterator[Anomaly]:
    known: dict[tuple[int, int], Instance] = {}
    for one in instances:
        before = known.setdefault((one.producer_id, one.epoch), one)
        is_same = before.who == one.who and (one.is_again or before is one)
        if not is_same:
            ids = f"producer {one.producer_id}, epoch {one.epoch}"
            yield Anomaly("same-epoch", f"{before.who} and {one.who} are both {ids}")


# -- offsets of groups -----------------------------------------------------------------------------


def check_offsets(
    history: TransactionHistory, seen: Seen, committed: Mapping[tuple[str, Key], int]
) -> list[Anomaly]:
    """Object to the offsets that groups have at the end, when nothing is open any more.

    The offsets of each group and partition rise from transaction to transaction.
    """
    least: dict[tuple[str, Key], int] = {}
    possible: dict[tuple[str, Key], set[int]] = defaultdict(lambda: {NOTHING})
    asked_ns: dict[SentOffset, int | None] = {}
    for one in history.transactions:
        is_committed = _is_committed(one, history, seen) if one.offsets else None
        last = {(sent.group, sent.key): sent.offset for sent in one.offsets}
        for place, offset in last.items():
            asked_ns[SentOffset(*place, offset)] = one.commit_asked_ns
            if is_committed is not False:
                possible[place].add(offset)
            if is_committed:
                least[place] = max(least.get(place, NOTHING), offset)
    found = [
        Anomaly(
            "torn-offsets",
            f"{place}: has {offset}; at least {least.get(place, NOTHING)}"
            f" of {sorted(possible[place])[-3:]} is committed",
        )
        for place, offset in committed.items()
        if offset < least.get(place, NOTHING) or offset not in possible[place]
    ]
    for at_ns, who, sent in history.offset_reads:
        asked = asked_ns.get(sent)
        if sent.offset != NOTHING and (asked is None or at_ns < asked):
            what = f"{who} saw {sent}, whose commit was not asked for"
            found.append(Anomaly("early-offsets", what))
    return found


def _is_committed(one: Transaction, history: TransactionHistory, seen: Seen) -> bool | None:
    """Return what the client was told, or else what its records say; None if nothing does."""
    if one.outcome is not Outcome.UNKNOWN:
        return one.outcome is Outcome.COMMITTED
    sure = sure_of(one, history, seen, may_lose=True)
    if any(is_seen(written, seen) for written in one.written):
        return True
    return False if sure else None


def check_copies(
    source: Sequence[tuple[int, bytes]], copies: Sequence[bytes], offset: int, name: str
) -> list[Anomaly]:
    """Object if what is below the group's `offset` in `source` is not in `copies`, once each.

    `source` are offsets and values, all committed; nothing else is in `copies`.
    """
    counts = Counter(copies)
    found = []
    for at, value in source:
        count = counts.pop(value, 0)
        expected = int(at < offset)
        if count != expected:
            kind = "not-copied" if count < expected else "copied-twice"
            what = f"{name} at {at}: copied {count} times, the group's offset is {offset}"
            found.append(Anomaly(kind, what))
    found += [Anomaly("copied-twice", f"{name}: {value!r} was never there") for value in counts]
    return found
