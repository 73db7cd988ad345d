"""The checker of transactional histories flags each anomaly, and no near miss of it.

Also what it stands on: how committed records are told from others in the bytes of a log.
"""

import struct

import pytest

from tests.support.committed_records import Settled, batches_of, committed_in
from tests.support.raw_batches import batch, record
from tests.support.transaction_checker import check, check_copies, check_offsets, duplicates
from tests.support.transaction_history import (
    CommittedRead,
    Instance,
    OffsetRead,
    Outcome,
    SentOffset,
    Transaction,
    TransactionHistory,
    Written,
)

A, B = ("left", 0), ("right", 1)
BOTH, NONE = {A: {b"a"}, B: {b"b"}}, {A: set(), B: set()}
ONLY_A = {A: {b"a"}, B: set()}
COMMITTED, ABORTED, OPEN, UNKNOWN = (
    Outcome.COMMITTED,
    Outcome.ABORTED,
    Outcome.OPEN,
    Outcome.UNKNOWN,
)


def transaction(outcome, *, epoch=3, acks=-1, offsets=()):
    """Written at 20, and its end asked for at 30."""
    one = Transaction("producer", "t", 7, epoch, 10, outcome=outcome)
    one.written = [Written(A, [b"a"], acks, 20, 0, 1), Written(B, [b"b"], acks, 20, 0, 1)]
    one.offsets = [SentOffset("g", A, offset) for offset in offsets]
    if outcome in (COMMITTED, UNKNOWN):
        one.commit_asked_ns = 30
    if outcome is COMMITTED:
        one.done_asked_ns, one.life = 30, 1
    return one


def instance(epoch, answered_ns, who="other", *, is_init=True):
    return Instance(who, "t", 7, epoch, answered_ns - 1, answered_ns, is_init, not is_init)


def at(seen):
    return {key: dict.fromkeys(values, 0) for key, values in seen.items()}


def names(one, seen, *, may_lose=False, instances=(), reads=()):
    history = TransactionHistory([one], list(instances), list(reads))
    return {anomaly.name for anomaly in check(history, at(seen), may_lose=may_lose)}


@pytest.mark.parametrize(
    ("outcome", "seen", "name"),
    [
        (UNKNOWN, ONLY_A, "torn"),
        (COMMITTED, ONLY_A, "lost-commit"),
        (COMMITTED, NONE, "lost-commit"),
        (ABORTED, BOTH, "aborted-read"),
        (OPEN, ONLY_A, "aborted-read"),
        (COMMITTED, BOTH, ""),
        (UNKNOWN, BOTH, ""),
        (UNKNOWN, NONE, ""),
        (ABORTED, NONE, ""),
        (OPEN, NONE, ""),
        (COMMITTED, {A: {b"a"}}, ""),  # the other was not read
    ],
)
def test_all_of_a_transaction_is_seen_or_none(outcome, seen, name):
    assert names(transaction(outcome), seen) == ({name} if name else set())


@pytest.mark.parametrize(
    ("acks", "life", "may_lose", "is_lost"),
    [(1, 1, True, True), (1, 2, True, False), (1, 2, False, True), (-1, 2, True, True)],
)
def test_what_nobody_waited_for_may_be_lost_before_the_commit(acks, life, may_lose, is_lost):
    one = transaction(COMMITTED, acks=acks)
    one.life = life
    assert names(one, NONE, may_lose=may_lose) == ({"lost-commit"} if is_lost else set())


@pytest.mark.parametrize(
    ("outcome", "other", "is_fenced"),
    [
        (COMMITTED, instance(4, 25), True),  # before the commit was asked for
        (UNKNOWN, instance(4, 15), True),  # before the batch was sent
        (COMMITTED, instance(4, 31), False),
        (COMMITTED, instance(4, 25, is_init=False), False),
        (COMMITTED, instance(2, 25), False),
    ],
)
def test_a_fenced_producer_does_nothing_more(outcome, other, is_fenced):
    found = names(transaction(outcome), BOTH, instances=[other])
    assert found == ({"fenced-write"} if is_fenced else set())


@pytest.mark.parametrize(
    ("at_ns", "seen", "name"),
    [(29, BOTH, "early-read"), (31, BOTH, ""), (31, NONE, "vanished")],
)
def test_what_a_reader_was_served_is_committed(at_ns, seen, name):
    reads = [CommittedRead(at_ns, "reader", A, [b"a", b"not of a transaction"])]
    assert names(transaction(UNKNOWN), seen, reads=reads) == ({name} if name else set())


def test_what_is_never_asked_to_be_committed_is_read_by_nobody():
    reads = [CommittedRead(99, "reader", A, [b"a"])]
    assert names(transaction(OPEN), NONE, reads=reads) == {"early-read"}


def test_an_epoch_belongs_to_one_producer():
    one = transaction(OPEN)
    twice = [instance(3, 5, "x"), instance(3, 6, "y")]
    assert names(one, NONE, instances=twice) == {"same-epoch"}
    again = [instance(3, 5, "x"), instance(3, 6, "x")]
    assert names(one, NONE, instances=again) == {"same-epoch"}
    retried = [instance(3, 5, "x"), instance(3, 6, "x", is_init=False)]
    assert names(one, NONE, instances=retried) == set()


def test_a_record_is_committed_once():
    assert [one.name for one in duplicates({A: [b"x", b"y", b"x"]})] == ["duplicate"]
    assert duplicates({A: [b"x", b"y"], B: [b"x"]}) == []


@pytest.mark.parametrize(
    ("first", "second", "seen", "offset", "is_torn"),
    [
        (COMMITTED, ABORTED, BOTH, 5, False),
        (COMMITTED, ABORTED, BOTH, 9, True),
        (COMMITTED, ABORTED, BOTH, -1, True),
        (COMMITTED, COMMITTED, BOTH, 5, True),
        (COMMITTED, OPEN, BOTH, 9, True),
        (UNKNOWN, ABORTED, NONE, -1, False),
        (UNKNOWN, ABORTED, NONE, 5, True),
        (UNKNOWN, ABORTED, BOTH, -1, True),
        (UNKNOWN, ABORTED, BOTH, 5, False),
        (UNKNOWN, ABORTED, BOTH, 4, True),
    ],
)
def test_offsets_end_as_their_records_do(first, second, seen, offset, is_torn):
    later = transaction(second, epoch=4, offsets=[9])
    later.written = []
    history = TransactionHistory([transaction(first, offsets=[5]), later])
    found = check_offsets(history, at(seen), {("g", A): offset})
    assert [one.name for one in found] == (["torn-offsets"] if is_torn else [])


@pytest.mark.parametrize(("at_ns", "offset", "is_early"), [(29, 5, 1), (31, 5, 0), (29, -1, 0)])
def test_pending_offsets_are_not_shown(at_ns, offset, is_early):
    history = TransactionHistory([transaction(COMMITTED, offsets=[5])])
    history.offset_reads = [OffsetRead(at_ns, "watcher", SentOffset("g", A, offset))]
    found = [one.name for one in check_offsets(history, at(BOTH), {("g", A): 5})]
    assert found == ["early-offsets"] * is_early


@pytest.mark.parametrize(
    ("copies", "offset", "name"),
    [
        ([b"x", b"y"], 4, ""),
        ([b"x"], 3, ""),
        ([b"x", b"y"], 3, "copied-twice"),
        ([b"x"], 4, "not-copied"),
        ([b"x", b"y", b"x"], 4, "copied-twice"),
        ([b"x", b"y", b"z"], 4, "copied-twice"),
    ],
)
def test_each_record_is_copied_once(copies, offset, name):
    found = check_copies([(0, b"x"), (3, b"y")], copies, offset, "source-0")
    assert [one.name for one in found] == ([name] if name else [])


# -- committed records in bytes --------------------------------------------------------------------


def data(base, producer_id, *values, transactional=True):
    return batch(
        values,
        base_offset=base,
        producer_id=producer_id,
        attributes=0x10 if transactional else 0,
    )


def marker(base, producer_id, *, is_commit):
    body = record(struct.pack(">hi", 0, 1), key=struct.pack(">hh", 0, is_commit))
    return batch([b""], body=body, base_offset=base, producer_id=producer_id, attributes=0x30)


LOG = b"".join(
    (
        data(0, 5, b"a", b"b"),
        data(2, 6, b"c"),
        data(3, -1, b"d", transactional=False),
        marker(4, 5, is_commit=False),
        data(5, 5, b"e"),
        marker(6, 6, is_commit=True),
        marker(7, 5, is_commit=True),
        data(8, 6, b"f"),
    )
)


def test_markers_say_what_is_committed():
    settled = Settled.of(batches_of(LOG))
    assert settled.records == [(2, b"c"), (3, b"d"), (5, b"e")]
    assert settled.open == {6: [(8, b"f")]}


def test_a_reader_passes_over_what_was_aborted():
    below = [one for one in batches_of(LOG) if one.base_offset < 8]
    assert committed_in(below, [(5, 0)]) == [(2, b"c"), (3, b"d"), (5, b"e")]
    assert committed_in(below, []) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d"), (5, b"e")]
    assert list(batches_of(LOG[:-1])) == below
