"""What the driver decides, as a table, and decisions as bytes."""

from __future__ import annotations

import pytest

from pyspark_barnabas.sink.decisions import (
    Decision,
    Ending,
    Part,
    decider_id,
    decode,
    encode,
    is_decided,
    query_prefix,
    resolve,
    run_prefix,
    transactional_id,
)
from pyspark_barnabas.wire.errors import BarnabasError, MicroBatchTorn, RecordsRefused

C, A, U = Ending.COMMITTED, Ending.ABORTED, Ending.UNKNOWN


def part(task, run, rows=5, digest=77):
    return Part(task, transactional_id("q", run, task, 0), 10 + task, 3, rows, digest, "t", 0, 9)


OLD = [part(0, "old"), part(1, "old"), part(2, "old")]
NEW = [part(0, "new"), part(1, "new"), part(2, "new")]
OTHER_ROWS = [part(0, "new"), part(1, "new", digest=78), part(2, "new")]
ONE_MORE = [*NEW, part(3, "new")]
ONE_LESS = NEW[:2]
AN_EMPTY_ONE = [*NEW, Part(3)]


@pytest.mark.parametrize(
    ("outcomes", "new", "decided"),
    [
        ((C, C, C), NEW, None),
        ((C, C, C), OTHER_ROWS, None),  # it stands, whatever the rows are this time
        ((C, C, C), [], None),
        ((A, A, A), NEW, NEW),
        ((A, A, A), OTHER_ROWS, OTHER_ROWS),
        ((A, A, A), ONE_MORE, ONE_MORE),
        ((A, A, A), [], []),
        ((C, A, C), NEW, [OLD[0], NEW[1], OLD[2]]),
        ((A, C, A), NEW, [NEW[0], OLD[1], NEW[2]]),
        ((C, A, A), AN_EMPTY_ONE, [OLD[0], NEW[1], NEW[2]]),
        ((C, A, C), OTHER_ROWS, MicroBatchTorn),
        ((A, C, A), OTHER_ROWS, MicroBatchTorn),
        ((C, A, C), ONE_MORE, MicroBatchTorn),
        ((C, C, A), ONE_LESS, MicroBatchTorn),
        ((C, U, C), NEW, MicroBatchTorn),
        ((A, U, A), NEW, MicroBatchTorn),
        ((U, U, U), NEW, MicroBatchTorn),
    ],
)
def test_a_batch_that_was_decided_before(outcomes, new, decided):
    if decided is MicroBatchTorn:
        with pytest.raises(MicroBatchTorn, match=r"micro-batch 7 is torn: of its 3 transactions"):
            resolve(7, OLD, outcomes, new)
    else:
        assert resolve(7, OLD, outcomes, new) == decided


def test_every_row_is_decided_exactly_once_or_it_is_torn():
    """Over all outcomes and reruns: the committed old ones and the decided ones are the rows."""
    for first in Ending:
        for second in Ending:
            for new in (NEW[:2], OTHER_ROWS[:2], ONE_LESS[:1], NEW):
                known, outcomes = OLD[:2], (first, second)
                committed = {one for one, how in zip(known, outcomes, strict=True) if how is C}
                try:
                    decided = resolve(1, known, outcomes, new)
                except MicroBatchTorn:
                    assert committed != set(known)
                    assert U in outcomes or committed
                    continue
                visible = committed | set(known if decided is None else decided)
                tasks = sorted(one.task for one in visible)
                assert len(set(tasks)) == len(tasks)
                assert visible in (set(known), set(new)) or new == NEW[:2]


def test_an_error_names_what_is_missing():
    with pytest.raises(MicroBatchTorn, match=r"1 are aborted \(spark-q-old-1-0; 5 rows\)"):
        resolve(7, OLD, (C, A, C), OTHER_ROWS)


@pytest.mark.parametrize(("known", "decided"), [(None, False), (6, False), (7, True)])
def test_whether_there_is_a_decision_for_a_batch(known, decided):
    found = None if known is None else Decision(known, "r", ())
    assert is_decided(found, 7) is decided


def test_a_batch_before_the_newest_decision_is_refused():
    with pytest.raises(RecordsRefused, match=r"micro-batch 7 is refused: .* written micro-batch 8"):
        is_decided(Decision(8, "r", ()), 7)


def test_ids_of_a_query_and_of_a_run_are_told_apart():
    name = transactional_id("q", "r", 12, 3)
    assert name == "spark-q-r-12-3"
    assert name.startswith(run_prefix("q", "r"))
    assert name.startswith(query_prefix("q"))
    assert not decider_id("q").startswith(run_prefix("q", "r"))


def test_a_decision_is_read_as_it_was_written():
    decision = Decision(7, "run", tuple(OLD))
    assert decode(encode(decision)) == decision


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"", "holds another record"),
        (b"[]", "holds another record"),
        (b'{"version":1}', "holds another record"),
        (b'{"version":1,"batch_id":1,"run_id":"r","parts":[[]]}', "holds another record"),
        (b'{"version":2}', "holds version 2, and this package knows 1: update it"),
    ],
)
def test_a_record_that_is_no_decision(value, words):
    with pytest.raises(BarnabasError, match=words):
        decode(value)
