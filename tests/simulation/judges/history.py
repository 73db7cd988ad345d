"""History: what clients were told about logs fits one log, and it is the log at the end.

Two checkers of the fault tests do the work: `tests.support.history_checker` has the table of
anomalies (losses, duplicates, order), `tests.support.log_ledger` the invariants H1 to H6. Here they
get what the record and the final read of every partition hold, and this is added:

    start     a log begins no later than DeleteRecords and retention allow (`start_max`)
    times     an answer to ListOffsets by time names the first record that is not older (H5).
              Clients look up while others append: a record counts against an answer only if it was
              known before the request was sent. A log with write.caching may have served records
              that a failed fsync then hides until the next start: "none" is right meanwhile
    parted    what clients have sent before they closed their side is in the log (`parted`)
    bytes     no batch is served with other bytes than those written, but for flipped bits, which
              readers pass over and do not note

A key is a topic's partition, of one topic: a topic that was deleted and made anew has other keys.

What a flipped bit explains is left out: the records of its batch are taken for never written, in
the operations as in the logs. All else of that partition must be as without it, so a broker that
gives up the records behind the batch is found. So are records of a compacted log whose transaction
is not committed. Loss is otherwise excused only by a `Cut`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tests.simulation.record import Lookup, Record
from tests.simulation.transaction_events import STABLE
from tests.support.history_checker import FAIL, NEVER, FinalLog, Key, Op, check, record_key
from tests.support.log_ledger import HIGH_WATERMARK, Ledger, SeenBatch

LISTED_MAX: Final = 12
SECOND_NS: Final = 1_000_000_000


class WholeLog(NamedTuple):
    """A partition's whole log, as a fresh consumer read it at the end."""

    start_offset: int
    batches: Sequence[SeenBatch]


class Flipped(NamedTuple):
    """The offsets that a flipped bit has made unreadable, from `base_offset` to `next_offset`."""

    base_offset: int
    next_offset: int
    records: Collection[tuple[int, bytes]] = ()  # offset and value, where nobody may know them


def judge(
    record: Record,
    finals: Mapping[Key, WholeLog],
    *,
    flips: Mapping[Key, Collection[Flipped]] | None = None,
    start_max: Mapping[Key, int] | None = None,
    lag_s_allowed: float = NEVER,
    had_failed: Callable[[Key, int], bool] = lambda _key, _at_ns: False,
) -> list[str]:
    """Object to what clients saw. Keys that are not in `finals` are judged without their end.

    `had_failed(key, at_ns)`: whether the disk had failed that log by then, and it was not opened
    again.
    """
    flips = flips or {}
    found = list(record.failures)
    found += [
        f"{one.who} got other bytes of {one.key} at {one.offset}: {one.what}"
        for one in record.corrupt
    ]
    found += _anomalies(record, finals, flips, lag_s_allowed)
    found += _invariants(record, finals, flips)
    found += _unserved(record, flips, had_failed)
    for key, limit in (start_max or {}).items():
        if key in finals and finals[key].start_offset > limit:
            found.append(f"{key} begins at {finals[key].start_offset}, nobody deleted up to there")
    for key, final in finals.items():
        lookups = [one for one in record.lookups if one.key == key]
        if lookups:
            is_volatile, damaged = key in record.volatile, flips.get(key, ())
            failed = [one for one in lookups if had_failed(key, one.answered_ns)]
            sound = [one for one in lookups if one not in failed]
            if is_volatile:
                sound += [one for one in failed if one.offset >= 0]
            else:  # it hides what no fsync has covered, acknowledged with acks=1 or not
                durable = _known_ns([op for op in record.ops if not op.is_volatile], key)
                found += _times(failed, final, durable, damaged, is_volatile=False)
            known = _known_ns(record.ops, key)
            found += _times(sound, final, known, damaged, is_volatile=is_volatile)
    more = len(found) - LISTED_MAX
    return [*found[:LISTED_MAX], *([f"and {more} more"] if more > 0 else [])]


def _is_flipped(offset: int, flips: Iterable[Flipped]) -> bool:
    return any(one.base_offset <= offset < one.next_offset for one in flips)


# -- The table of anomalies ---------------------------------------------------------------


def _anomalies(
    record: Record,
    finals: Mapping[Key, WholeLog],
    flips: Mapping[Key, Collection[Flipped]],
    lag_s_allowed: float,
) -> Iterator[str]:
    history = record.sealed()
    lost = _values_in(flips, history.ops, finals)
    aborted = {one for one in record.not_committed if one[0] in record.compacted}
    lost |= {one for one in aborted if one[1] in record.maybe_committed}
    lost |= _superseded(lost, history.ops, record.compacted, flips)
    lost |= aborted
    if lost:
        history = dataclasses.replace(history, ops=[_without(op, lost) for op in history.ops])
    history.final = {
        key: FinalLog(
            final.start_offset,
            [
                (offset, value)
                for batch in final.batches
                for offset, value in batch.records
                if (key, value) not in lost
            ],
        )
        for key, final in finals.items()
    }
    for anomaly in check(history, lag_s_allowed=lag_s_allowed).anomalies:
        yield f"{anomaly.name}: {anomaly.detail}"


def _values_in(
    flips: Mapping[Key, Collection[Flipped]], ops: Iterable[Op], finals: Mapping[Key, WholeLog]
) -> set[tuple[Key, bytes]]:
    """Return the values of the batches with flipped bits, as far as somebody knew their offsets.

    A value whose send was never answered and that nobody read cannot be missed either.
    """
    if not flips:
        return set()
    lost: set[tuple[Key, bytes]] = set()
    for op in ops:
        for send in op.sends:
            if send.offset is not None and _is_flipped(send.offset, flips.get(send.key, ())):
                lost.add((send.key, send.value))
        for poll in op.polls:
            damaged = flips.get(poll.key, ())
            lost.update((poll.key, v) for at, v in poll.records if _is_flipped(at, damaged))
    for key, damaged in flips.items():
        lost.update((key, value) for flip in damaged for _, value in flip.records)
        for batch in finals[key].batches if key in finals else ():
            lost.update((key, v) for at, v in batch.records if _is_flipped(at, damaged))
    return lost


def _superseded(
    lost: Collection[tuple[Key, bytes]],
    ops: Iterable[Op],
    compacted: Collection[Key],
    flips: Mapping[Key, Collection[Flipped]],
) -> set[tuple[Key, bytes]]:
    """Return values that compaction could remove because of a lost one of the same record key."""
    known: dict[tuple[Key, bytes], int] = {
        (key, value): offset
        for key, damaged in flips.items()
        for flip in damaged
        for offset, value in flip.records
    }
    for op in ops:
        known.update({(s.key, s.value): s.offset for s in op.sends if s.offset is not None})
        for poll in op.polls:
            known.update({(poll.key, value): at for at, value in poll.records})
    newest: dict[tuple[Key, bytes], int] = {}
    for key, value in lost:
        if key in compacted:
            place = key, record_key(value)
            newest[place] = max(newest.get(place, -1), known.get((key, value), -1))
    return {
        (key, value)
        for (key, value), offset in known.items()
        if offset < newest.get((key, record_key(value)), -1)
    }


def _without(op: Op, lost: set[tuple[Key, bytes]]) -> Op:
    """Return an operation without lost values."""
    if op.outcome == FAIL:
        return op
    sends = [send for send in op.sends if (send.key, send.value) not in lost]
    polls = [
        poll._replace(records=[one for one in poll.records if (poll.key, one[1]) not in lost])
        for poll in op.polls
    ]
    return dataclasses.replace(op, sends=sends, polls=polls)


# -- The invariants -----------------------------------------------------------------------


def _invariants(
    record: Record, finals: Mapping[Key, WholeLog], flips: Mapping[Key, Collection[Flipped]]
) -> Iterator[str]:
    ledger = record.ledger
    for key, final in finals.items():
        ledger.saw_log(key, final.start_offset, _filled(ledger, key, final, flips.get(key, ())))
    for anomaly in ledger.found:
        yield f"{anomaly.name}: {anomaly.detail}"
    for name, key, anomaly in record.breaches:
        if name not in (HIGH_WATERMARK, STABLE) or key not in record.volatile:
            yield f"{anomaly.name}: {anomaly.detail}"


def _filled(
    ledger: Ledger, key: Key, final: WholeLog, flips: Collection[Flipped]
) -> list[SeenBatch]:
    """Return the batches, and one without records for each place with a flipped bit."""
    batches = [one for one in final.batches if not _is_flipped(one.base_offset, flips)]
    for base, following, _ in _united(flips):
        if following > final.start_offset:
            epoch = max((one.epoch for one in batches if one.base_offset < base), default=-1)
            known = ledger.batch_with(key, base)  # with the bit, or without it
            digest = known.digest if known is not None else b""
            batches.append(SeenBatch(base, following - 1, epoch, -1, digest, ()))
    return sorted(batches, key=lambda one: one.base_offset)


def _united(flips: Iterable[Flipped]) -> list[Flipped]:
    """Return places that do not overlap: a batch may have several bits that hide others."""
    united: list[Flipped] = []
    for flip in sorted(flips, key=lambda one: one.base_offset):
        if united and flip.base_offset < united[-1].next_offset:
            end = max(flip.next_offset, united[-1].next_offset)
            united[-1] = united[-1]._replace(next_offset=end)
        else:
            united.append(flip)
    return united


# -- What was not served --------------------------------------------------------------------


def _unserved(
    record: Record,
    flips: Mapping[Key, Collection[Flipped]],
    had_failed: Callable[[Key, int], bool],
) -> Iterator[str]:
    """Object to fetches that got nothing, although records were known to be there."""
    for one in record.unserved:
        may_be_gone = one.key in record.volatile or bool(flips.get(one.key))
        if not may_be_gone and not had_failed(one.key, one.at_ns):
            yield f"{one.who} got {one.what} for {one.key} at {one.offset}, mark {one.mark}"


# -- Look-ups by time ---------------------------------------------------------------------


def _known_ns(ops: Iterable[Op], key: Key) -> dict[tuple[int, bytes], float]:
    """Return when each record, an offset and a value, was first known to some client."""
    known: dict[tuple[int, bytes], float] = {}
    for op in ops:
        at_ns = op.completed_s * SECOND_NS
        records = [(one.offset, one.value) for one in op.sends if one.key == key]
        for poll in op.polls:
            if poll.key == key:
                records += poll.records
        for offset, value in records:
            if offset is not None and known.get((offset, value), NEVER) > at_ns:
                known[offset, value] = at_ns
    return known


def _times(
    lookups: Iterable[Lookup],
    final: WholeLog,
    known_ns: Mapping[tuple[int, bytes], float],
    flips: Collection[Flipped],
    *,
    is_volatile: bool,
) -> Iterator[str]:
    """Compare answers with the batches that are there at the end.

    Those below the answer were there before, too; a volatile key may have had others. Compaction
    leaves batches without records, which have a time but which nobody can be told.
    """
    batches = [
        one for one in final.batches if one.records and not _is_flipped(one.base_offset, flips)
    ]
    for lookup in lookups:
        asked, told = lookup.asked, lookup.offset
        if told >= 0 and lookup.timestamp < asked:
            yield f"H5: {lookup.key}: time {asked} is told at {told}, of {lookup.timestamp}"
        for batch in batches:
            if batch.timestamp < asked:
                continue
            is_before = told < 0 or batch.last_offset < told
            was_there = told >= 0 and not is_volatile
            if is_before and (was_there or _was_known(batch, known_ns, lookup.sent_ns)):
                first = batch.records[0][0]
                yield f"H5: {lookup.key}: time {asked} is told at {told}, {first} is not older"
            break


def _was_known(batch: SeenBatch, known_ns: Mapping[tuple[int, bytes], float], sent_ns: int) -> bool:
    """Whether a record of the batch was known before a request was sent."""
    return any(known_ns.get(record, NEVER) < sent_ns for record in batch.records)


# -- What was sent before the end of a connection -----------------------------------------


def parted(record: Record, finals: Mapping[Key, WholeLog], kept: Collection[Key]) -> list[str]:
    """Object to batches that a broker has read and left out; of a machine that was always well.

    `kept`: keys that take every good batch, and lose none.
    """
    found = []
    for who, key, values in record.parted:
        if key in finals and key in kept:
            there = {value for batch in finals[key].batches for _, value in batch.records}
            if missing := [value for value in values if value not in there]:
                found.append(f"{who} half-closed behind {missing}, which {key} has not")
    return found
