"""The record: what it notes at once, and what it keeps for the judges."""

from __future__ import annotations

from tests.simulation.record import Asked, Record
from tests.support.history_checker import OK, Poll, Send, check
from tests.support.log_ledger import START, SeenBatch

KEY = ("t", 0)


def test_a_mark_that_went_back_is_a_breach() -> None:
    record = Record()
    record.saw_mark(KEY, START, 5, (0, 10))
    record.saw_mark(KEY, START, 4, (11, 20))
    ((name, key, anomaly),) = record.breaches
    assert (name, key) == (START, KEY)
    assert "from 5 to 4" in anomaly.detail
    assert record.last_mark(KEY, START) == 5
    assert record.last_mark(("t", 1), START) == -1


def test_a_late_answer_is_no_breach() -> None:
    record = Record()
    record.saw_mark(KEY, START, 5, (0, 10))
    record.saw_mark(KEY, START, 4, (10, 20))  # sent before the other had arrived
    record.saw_mark(KEY, START, 4, (0, 30))
    assert not record.breaches


def test_what_a_mark_has_reached_counts_from_its_time_on() -> None:
    record = Record()
    record.reached(KEY, START, 5, 10)
    record.reached(KEY, START, 3, 20)
    assert not record.breaches
    assert [record.mark_before(KEY, START, at) for at in (10, 11, 30)] == [-1, 5, 5]
    record.saw_mark(KEY, START, 4, (11, 40))
    assert len(record.breaches) == 1


def test_a_power_cut_counts_from_its_moment_with_the_ends_after_it() -> None:
    record = Record()
    record.volatile.add(KEY)
    record.sent(1, OK, [Send(KEY, b"a", 0)], (0, 1), is_volatile=True)
    record.power_cut(2)
    record.sent(2, OK, [Send(KEY, b"b", 0)], (2, 3))
    record.recovered({KEY: 0})
    assert [(cut.number, cut.ends) for cut in record.history.cuts] == [(1, {KEY: 0})]
    record.recovered({KEY: 9})  # a start without a cut before it
    record.stopped()
    assert len(record.history.cuts) == 1
    assert record.history.durable_count == 2
    assert not check(record.sealed()).anomalies


def test_a_log_may_be_opened_long_after_the_start_that_follows_a_power_cut() -> None:
    record = Record()
    record.volatile.add(KEY)
    record.sent(1, OK, [Send(KEY, b"a", 0), Send(KEY, b"b", 1)], (0, 1), is_volatile=True)
    record.power_cut(2)
    record.recovered({})
    record.opened({KEY: 1})
    record.opened({KEY: 7})  # when it is opened again
    record.sent(2, OK, [Send(KEY, b"c", 1)], (3, 4))
    assert not check(record.sealed()).anomalies
    record.sent(2, OK, [Send(KEY, b"d", 0)], (5, 6))
    assert "inconsistent-offsets" in check(record.sealed()).names


def test_an_answer_may_arrive_after_a_power_cut() -> None:
    record = Record()
    record.volatile.add(KEY)
    record.power_cut(10)
    record.recovered({KEY: 0})
    record.sent(1, OK, [Send(KEY, b"a", 0)], (8, 12))
    record.sent(2, OK, [Send(KEY, b"b", 1)], (3, 20), asked_ns=15)
    record.polled(3, Poll(KEY, 0, [(0, b"a")]), (9, 13))
    record.polled(3, Poll(KEY, 0, [(0, b"c"), (1, b"b")]), (16, 17))
    record.saw_batch(KEY, SeenBatch(0, 0, 0, 0, b"1", ()), 9)
    record.saw_batch(KEY, SeenBatch(0, 0, 0, 0, b"2", ()), 16)
    assert not check(record.sealed()).anomalies
    assert not record.ledger.found
    record.sent(2, OK, [Send(KEY, b"d", 1)], (18, 19))
    assert "inconsistent-offsets" in check(record.sealed()).names


def test_ops_reach_the_checker() -> None:
    record = Record()
    record.sent(1, OK, [Send(KEY, b"a", 0)], (0, 1))
    record.polled(2, Poll(KEY, 0, [(0, b"x")]), (2, 3))
    assert "inconsistent-offsets" in check(record.sealed()).names


def test_a_batch_keeps_its_bytes_unless_its_key_is_compacted() -> None:
    record = Record()
    record.compacted.add(("c", 0))
    for key in (KEY, ("c", 0)):
        for digest in (b"1", b"2"):
            record.saw_batch(key, SeenBatch(0, 0, 0, 0, digest, ()), 0)
    assert [anomaly.name for anomaly in record.ledger.found] == ["H1"]


def test_slow_answers_count_from_the_end_of_the_wait_that_was_allowed() -> None:
    record = Record()
    record.answered(Asked(0, "c", 1, 1, 1, "", wait_ms=2), 5_000_000)
    assert record.slowest_ns == 3_000_000
    record.fail("c", "wrong")
    assert record.failures == ["c: wrong"]
