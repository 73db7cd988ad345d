"""Tasks and the driver with a broker, cut at each step: every row is visible exactly once.

Nothing here is Spark; `driver_runs` calls what Spark would, in its order, up to where it dies.
"""

from __future__ import annotations

import uuid
from contextlib import suppress

import pyarrow as pa
import pytest
from driver_runs import SCHEMA, STEPS, TASKS, Cut, Run, committed, cut, open_ones, rows_of, wanted
from topics import PARTITIONS, Topic

from pyspark_barnabas.sink import commit
from pyspark_barnabas.sink.commit import Decisions, abort_parts
from pyspark_barnabas.sink.decisions import Decision, transactional_id
from pyspark_barnabas.sink.writer import write_part
from pyspark_barnabas.wire.errors import (
    BadOption,
    BarnabasError,
    MicroBatchTorn,
    RecordsRefused,
    TransactionLost,
)
from pyspark_barnabas.wire.transactions import Transactions


@pytest.fixture
def start(topic):
    query = uuid.uuid4().hex
    return lambda **more: Run(topic, query, **more)


def test_batches_are_visible_once_they_are_committed_and_not_before(topic, start):
    run = start()
    parts = run.tasks(0)
    assert committed(topic) == []
    run.commit(0, parts)
    assert committed(topic) == wanted(0)
    run.batch(1)
    assert committed(topic) == wanted(0, 1)
    assert open_ones(run) == []


def test_an_attempt_that_failed_and_one_that_lost_the_race_leave_nothing(topic, start):
    run = start()
    run.task(0, 1)  # its executor is lost, or a speculative attempt is faster
    parts = [run.task(0, 0), run.task(0, 1, attempt=1), run.task(0, 2)]
    run.commit(0, parts)
    assert committed(topic) == wanted(0)
    assert open_ones(run) == []


def test_a_task_that_fails_aborts_by_itself(topic, start):
    run = start()

    def tables():
        rows = rows_of(0, 0) * 50
        yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
        raise ValueError

    with pytest.raises(ValueError):
        write_part(run.options, tables(), run.ids, 0, 0)
    assert open_ones(run) == []
    assert committed(topic) == []


def test_a_driver_that_dies_before_the_decision_leaves_nothing(topic, start):
    before = start()
    before.tasks(0)
    run = start()
    run.batch(0)
    assert committed(topic) == wanted(0)
    assert open_ones(run) == []


@pytest.mark.parametrize("step", STEPS)
def test_a_driver_that_dies_at_any_step_leaves_its_batch_to_the_next(
    topic, start, monkeypatch, step
):
    first = start()
    first.batch(0)
    parts = first.tasks(1)
    with monkeypatch.context() as patch:
        cut(patch, step)
        with pytest.raises(Cut):
            first.commit(1, parts)
    again = start()
    again.batch(1)
    again.batch(2)
    assert committed(topic) == wanted(0, 1, 2)
    assert open_ones(again) == []


@pytest.mark.parametrize("step", ["with the decision open", "with one task committed"])
def test_a_driver_that_dies_twice(topic, start, monkeypatch, step):
    for _ in range(2):
        run = start()
        parts = run.tasks(0)
        with monkeypatch.context() as patch, suppress(Cut):
            cut(patch, step)
            run.commit(0, parts)
    start().batch(0)
    assert committed(topic) == wanted(0)


def end_now(run, parts, *, committed_):
    codes = Transactions(run.topic.cluster).end([part.holder for part in parts],
                                                committed=committed_)  # fmt: skip
    assert set(codes.values()) == {0}


def decide(run, batch, parts):
    """Write a decision and die."""
    decisions = Decisions(run.topic.cluster, run.options, run.ids[0])
    decisions.take_over()
    decisions.write(Decision(batch, run.ids[1], tuple(parts)))


def test_a_decision_whose_transactions_all_timed_out_is_taken_anew(topic, start):
    before = start()
    parts = before.tasks(0)
    decide(before, 0, parts)
    end_now(before, parts, committed_=False)
    start().batch(0)
    assert committed(topic) == wanted(0)


@pytest.mark.parametrize("lost", [{0}, {1, 2}])
def test_what_timed_out_of_a_decision_is_written_again_if_the_rows_are_the_same(topic, start, lost):
    before = start()
    parts = before.tasks(0)
    decide(before, 0, parts)
    for part in parts:
        end_now(before, [part], committed_=part.task not in lost)
    run = start()
    run.batch(0)
    run.batch(1)
    assert committed(topic) == wanted(0, 1)


def test_a_torn_batch_whose_rows_differ_this_time_is_an_error_and_not_a_guess(topic, start):
    before = start()
    parts = before.tasks(0)
    decide(before, 0, parts)
    end_now(before, parts[:1], committed_=True)
    end_now(before, parts[1:], committed_=False)
    run = start()
    other = [run.task(0, 0), run.task(0, 1, rows=rows_of(0, 1)[::-1]), run.task(0, 2)]
    with pytest.raises(MicroBatchTorn, match=r"2 are aborted .*; 83 rows"):
        run.commit(0, other)
    assert committed(topic) == sorted(row["value"] for row in rows_of(0, 0))


def test_how_a_transaction_ended_is_read_from_the_log_once_its_id_has_moved_on(topic, start):
    """A task of the old run that woke up late has taken its id over; the coordinator forgot."""
    before = start()
    parts = before.tasks(0)
    decide(before, 0, parts)
    end_now(before, parts, committed_=True)
    for part in parts:
        before.take_over(part)
    start().batch(0)
    assert committed(topic) == wanted(0)


def test_a_transaction_that_is_over_before_the_decision_fails_the_batch_whole(topic, start):
    run = start()
    parts = run.tasks(0)
    run.take_over(parts[1])
    with pytest.raises(TransactionLost, match=r"micro-batch 0: .*-1-0\) is not open any more"):
        run.commit(0, parts)
    assert committed(topic) == []
    start().batch(0)
    assert committed(topic) == wanted(0)


def test_a_task_whose_transaction_was_taken_over_writes_no_more(topic, start):
    run = start()

    def tables():
        yield pa.RecordBatch.from_pylist(rows_of(0, 0), schema=SCHEMA)
        Transactions(topic.cluster).begin(transactional_id(*run.ids, 0, 0), 60_000)
        yield pa.RecordBatch.from_pylist(rows_of(0, 0), schema=SCHEMA)

    words = r"the transaction spark-.* is over: .*kafka.transaction.timeout.ms \(60000 ms\)"
    with pytest.raises(TransactionLost, match=words):
        write_part(run.options, tables(), run.ids, 0, 0)
    assert committed(topic) == []


def test_an_older_driver_that_is_still_alive_decides_no_more(topic, start, monkeypatch):
    """It is about to commit its decision when the newer one takes over."""
    older, newer = start(), start()
    parts = older.tasks(0)
    real = commit.Transaction.commit

    def late(transaction):
        monkeypatch.setattr(commit.Transaction, "commit", real)
        newer.batch(0)
        return real(transaction)

    monkeypatch.setattr(commit.Transaction, "commit", late)
    with pytest.raises(TransactionLost, match="another driver of this query has taken over"):
        older.commit(0, parts)
    assert committed(topic) == wanted(0)
    newer.batch(1)
    with pytest.raises(RecordsRefused, match="has already written micro-batch 1"):
        older.batch(0)
    assert committed(topic) == wanted(0, 1)


def test_two_drivers_with_one_checkpoint_write_each_batch_once(topic, start):
    """Each finds the other's decisions; the later run of a batch drops its own rows."""
    one, other = start(), start()
    for batch in range(3):
        parts, others = one.tasks(batch), other.tasks(batch)
        for run, found in ((one, parts), (other, others))[:: -1 if batch % 2 else 1]:
            try:
                run.commit(batch, found)
            except TransactionLost:  # its transactions were aborted by the other's first commit
                run.batch(batch)
    assert committed(topic) == wanted(0, 1, 2)


def test_an_abort_after_a_task_failed(topic, start):
    run = start()
    parts = [run.task(0, 0), run.task(0, 1, rows=[])]
    abort_parts(topic.cluster, parts)
    assert open_ones(run) == []
    run.batch(0, attempt=1)
    assert committed(topic) == wanted(0)


def test_a_batch_without_rows_decides_nothing(topic, start):
    run = start()
    run.commit(0, [run.task(0, task, rows=[]) for task in range(TASKS)])
    run.batch(1)
    assert committed(topic) == wanted(1)


def test_a_decision_is_found_behind_those_of_many_others_and_behind_an_open_one(topic, start):
    """Another query's driver died with its decision open: the last stable offset stays there."""
    before = start()
    decide(before, 0, before.tasks(0))
    other = Run(topic, uuid.uuid4().hex)
    stuck = Decisions(topic.cluster, other.options, other.ids[0])
    stuck.take_over()
    holder = stuck._transaction.begin()
    stuck._transaction.commit = lambda: True  # it never ends
    stuck.write(Decision(5, "r", ()))
    for number in range(40):
        decide(Run(topic, f"other-{number}"), number, [])
    found = Decisions(topic.cluster, before.options, before.ids[0])
    found.take_over()
    assert found.newest().batch_id == 0
    after = start()
    decide(after, 1, [])
    assert found.newest().batch_id == 1
    stuck.take_over()
    assert stuck.newest() is None
    Transactions(topic.cluster).end([holder], committed=False)
    assert stuck.newest() is None
    start_again = start()
    with pytest.raises(RecordsRefused):
        start_again.batch(0)


def test_a_topic_of_decisions_that_expires_is_refused(topic, broker, start):
    with Topic(broker.address) as expiring:
        run = start(decisionTopic=expiring.name)
        words = "decisionTopic is .*, whose cleanup.policy is delete, expected compact"
        with pytest.raises(BadOption, match=words):
            run.batch(0)


def test_a_timeout_that_the_broker_does_not_allow_names_the_option(topic, start):
    words = "INVALID_TRANSACTION_TIMEOUT .*lower kafka.transaction.timeout.ms"
    with pytest.raises(BarnabasError, match=words):
        start(timeout_ms=3_600_000).task(0, 0)
    assert PARTITIONS > 1
