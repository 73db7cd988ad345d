"""A start after a crash: what the record of an id and the logs say together.

Each case is a disk that a crash leaves, and names the broker that it breaks: the one without the
rule. Epoch 5 is c, the epoch of the record; `A`, `B` and `C` are partitions.
"""

from typing import NamedTuple

import pytest

from broker.transactions.evidence import (
    EndedPart,
    Evidence,
    OpenPart,
    ProducerEvidence,
)
from broker.transactions.reconcile import (
    EPOCH_USED_UP,
    _Reconciliation,
    grouped,
    places_of,
    reconcile,
)
from broker.transactions.transaction_states import TransactionState as State
from protocol.transaction_records import TransactionValue

A, B, C = ("a", 0), ("b", 0), ("b", 1)
EMPTY, ONGOING = State.EMPTY, State.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = State.PREPARE_COMMIT, State.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = State.COMPLETE_COMMIT, State.COMPLETE_ABORT
PID, NEXT_PID = 7, 8
NOW_MS, STARTED_MS = 5_000, 1_000
COMMIT, ABORT = True, False


def record(state, epoch=5, places=(), *, tv=2, pid=PID, former=-1, following=-1):
    """The newest record of the id."""
    return TransactionValue(
        producer_id=pid,
        producer_epoch=epoch,
        transaction_timeout_ms=60_000,
        transaction_status=state,
        transaction_partitions=None if state is EMPTY else grouped(places),
        transaction_last_update_timestamp_ms=STARTED_MS,
        transaction_start_timestamp_ms=-1 if state is EMPTY else STARTED_MS,
        previous_producer_id=former,
        next_producer_id=following,
        client_transaction_version=tv,
    )


def opened(place, epoch, pid=PID):
    """Data without a marker."""
    return pid, OpenPart(place, epoch, 10)


def marked(place, epoch, is_commit, closed=None, pid=PID):
    """A marker that the opening of a log has replayed, by default one of data the epoch before."""
    closed_epoch = epoch - 1 if closed is None else closed
    return pid, EndedPart(place, epoch, closed_epoch, is_commit)


def logs(*facts, unseen=()):
    """What the logs say."""
    producers: dict[int, ProducerEvidence] = {}
    for pid, fact in facts:
        of_it = producers.setdefault(pid, ProducerEvidence())
        (of_it.open if isinstance(fact, OpenPart) else of_it.ended).append(fact)
    return Evidence(producers, frozenset({A, B, C} - set(unseen)))


class Stage(NamedTuple):
    """What a case expects of a stage."""

    state: State
    epoch: int
    places: tuple = ()
    pid: int = PID


def stages(decision):
    return [
        Stage(
            State(value.transaction_status),
            value.producer_epoch,
            tuple(places_of(value)),
            value.producer_id,
        )
        for value in decision.stages
    ]


# what breaks: (record, logs, stages)
CASES = {
    # -- nothing to judge
    "an id at rest stays as it is": (record(EMPTY), logs(), [Stage(EMPTY, 5)]),
    "a transaction in progress goes on": (
        record(ONGOING, 5, [A, B]),
        logs(opened(A, 5)),
        [Stage(ONGOING, 5, (A, B))],
    ),
    # -- rule 1
    "1: a marker outlives Prepare; a timeout would abort what A has committed": (
        record(ONGOING, 5, [A, B]),
        logs(marked(A, 6, COMMIT), opened(B, 5)),
        [Stage(PREPARE_COMMIT, 6, (B,))],
    ),
    "1: the only marker outlives Prepare; nothing is open, and yet it is decided": (
        record(ONGOING, 5, [A]),
        logs(marked(A, 6, COMMIT)),
        [Stage(PREPARE_COMMIT, 6)],
    ),
    "1: a marker outlives Prepare and Ongoing; B would be left out of the commit": (
        record(COMPLETE_ABORT, 5),
        logs(marked(A, 6, COMMIT), opened(B, 5)),
        [Stage(PREPARE_COMMIT, 6, (B,))],
    ),
    "1: of the first transaction of an id": (
        record(EMPTY, 0),
        logs(marked(A, 1, COMMIT), opened(B, 0)),
        [Stage(PREPARE_COMMIT, 1, (B,))],
    ),
    "1: the marker of a timeout outlives its Prepare; the client would commit the rest": (
        record(ONGOING, 5, [A, B], tv=1),
        logs(marked(A, 6, ABORT), opened(B, 5)),
        [Stage(PREPARE_ABORT, 6, (B,))],
    ),
    "1: before 5 and after an answered Prepare, whose outcome is another": (
        record(PREPARE_ABORT, 5, [A]),
        logs(marked(A, 6, COMMIT), marked(A, 5, ABORT), opened(B, 5)),
        [Stage(PREPARE_ABORT, 5), Stage(PREPARE_COMMIT, 6, (B,))],
    ),
    "1: a partition that cannot be read may lack the marker": (
        record(ONGOING, 5, [A, B, C]),
        logs(marked(A, 6, COMMIT), unseen=[C]),
        [Stage(PREPARE_COMMIT, 6, (C,))],
    ),
    "1: what comes after the marker is the current transaction": (
        record(ONGOING, 5, [A]),
        logs(marked(A, 6, COMMIT), opened(B, 6), opened(C, 5)),
        [Stage(PREPARE_COMMIT, 6, (C,)), Stage(ONGOING, 6, (B,))],
    ),
    "1: a state log that has lost several transactions": (
        record(ONGOING, 5, [A]),
        logs(marked(A, 6, ABORT), marked(B, 7, COMMIT), opened(C, 5)),
        [Stage(PREPARE_ABORT, 6, (C,)), Stage(PREPARE_COMMIT, 7)],
    ),
    "1: a marker of c is none of the current transaction": (
        record(ONGOING, 5, [A]),
        logs(marked(A, 5, COMMIT), opened(B, 5)),
        [Stage(ONGOING, 5, (A, B))],
    ),
    "1: a marker that ended data of its own epoch is none of TV2": (
        record(ONGOING, 5, [A]),
        logs(marked(A, 6, COMMIT, closed=6), opened(B, 5)),
        [Stage(ONGOING, 5, (A, B))],
    ),
    # -- rule 2
    "2: Prepare, and no marker yet": (
        record(PREPARE_COMMIT, 5, [A, B]),
        logs(opened(A, 4), opened(B, 4)),
        [Stage(PREPARE_COMMIT, 5, (A, B))],
    ),
    "2: Prepare, and one marker": (
        record(PREPARE_ABORT, 5, [A, B]),
        logs(marked(A, 5, ABORT), opened(B, 4)),
        [Stage(PREPARE_ABORT, 5, (B,))],
    ),
    "2: Prepare, and all markers": (
        record(PREPARE_COMMIT, 5, [A, B]),
        logs(marked(A, 5, COMMIT), marked(B, 5, COMMIT)),
        [Stage(PREPARE_COMMIT, 5)],
    ),
    "2: Prepare of a partition that cannot be read": (
        record(PREPARE_COMMIT, 5, [A, B]),
        logs(opened(A, 4), unseen=[B]),
        [Stage(PREPARE_COMMIT, 5, (A, B))],
    ),
    "2: Prepare without a partition that the lost Ongoing had": (
        record(PREPARE_COMMIT, 5, [A]),
        logs(opened(A, 4), opened(B, 4)),
        [Stage(PREPARE_COMMIT, 5, (A, B))],
    ),
    "2: Kafka's Complete without markers": (
        record(COMPLETE_COMMIT, 5),
        logs(opened(A, 4), opened(B, 4)),
        [Stage(PREPARE_COMMIT, 5, (A, B))],
    ),
    "2: the timeout of a TV1 transaction has raised the epoch": (
        record(PREPARE_ABORT, 5, [A], tv=1),
        logs(opened(A, 4)),
        [Stage(PREPARE_ABORT, 5, (A,))],
    ),
    "2: Kafka's timeout of a TV1 transaction, which reached one of two partitions": (
        record(COMPLETE_ABORT, 5, tv=1),
        logs(marked(A, 5, ABORT), opened(B, 4)),
        [Stage(PREPARE_ABORT, 5, (B,))],
    ),
    # -- rule 3
    "3: TV1: Prepare, and one of two markers": (
        record(PREPARE_COMMIT, 5, [A, B], tv=1),
        logs(marked(A, 5, COMMIT, closed=5), opened(B, 5)),
        [Stage(PREPARE_COMMIT, 5, (B,))],
    ),
    "3: before 5: data of a prepared abort would go on": (
        record(PREPARE_ABORT, 5, [A], tv=1),
        logs(opened(A, 5)),
        [Stage(PREPARE_ABORT, 5, (A,))],
    ),
    # -- rule 4
    "4: the answered Prepare would end the next transaction in A": (
        record(PREPARE_ABORT, 5, [A]),
        logs(marked(A, 5, ABORT), opened(A, 5)),
        [Stage(PREPARE_ABORT, 5), Stage(ONGOING, 5, (A,))],
    ),
    "4: and what it still lacks is written first": (
        record(PREPARE_COMMIT, 5, [A, B]),
        logs(opened(A, 5), opened(B, 4)),
        [Stage(PREPARE_COMMIT, 5, (B,)), Stage(ONGOING, 5, (A,))],
    ),
    # -- rule 5
    "5: the first Ongoing is lost; its data would hang": (
        record(EMPTY, 5),
        logs(opened(A, 5)),
        [Stage(ONGOING, 5, (A,))],
    ),
    "5: the Ongoing after a Complete is lost": (
        record(COMPLETE_COMMIT, 5),
        logs(opened(A, 5)),
        [Stage(ONGOING, 5, (A,))],
    ),
    "5: an Ongoing with one partition more is lost; the commit would leave it out": (
        record(ONGOING, 5, [A]),
        logs(opened(A, 5), opened(B, 5)),
        [Stage(ONGOING, 5, (A, B))],
    ),
    "5: beside what Kafka left": (
        record(COMPLETE_COMMIT, 5),
        logs(opened(A, 4), opened(B, 5)),
        [Stage(PREPARE_COMMIT, 5, (A,)), Stage(ONGOING, 5, (B,))],
    ),
    # -- an epoch that is used up
    "exhaustion: Prepare, and no marker yet": (
        record(PREPARE_COMMIT, EPOCH_USED_UP, [A], following=NEXT_PID),
        logs(opened(A, 32_766)),
        [Stage(PREPARE_COMMIT, EPOCH_USED_UP, (A,))],
    ),
    "exhaustion: the next id has begun, and all its records are lost": (
        record(PREPARE_COMMIT, EPOCH_USED_UP, [A], following=NEXT_PID),
        logs(opened(A, 0, NEXT_PID)),
        [Stage(PREPARE_COMMIT, EPOCH_USED_UP), Stage(ONGOING, 0, (A,), NEXT_PID)],
    ),
    "exhaustion: the next id has ended one, and all its records are lost": (
        record(PREPARE_COMMIT, EPOCH_USED_UP, [A], following=NEXT_PID),
        logs(marked(A, 1, ABORT, pid=NEXT_PID), opened(B, 0, NEXT_PID)),
        [Stage(PREPARE_COMMIT, EPOCH_USED_UP), Stage(PREPARE_ABORT, 1, (B,), NEXT_PID)],
    ),
    "exhaustion: Kafka's Complete without markers has another id than the data": (
        record(COMPLETE_COMMIT, 0, pid=NEXT_PID, former=PID),
        logs(opened(A, 32_766)),
        [Stage(PREPARE_COMMIT, EPOCH_USED_UP, (A,))],
    ),
    "exhaustion: the Ongoing after Complete is lost": (
        record(COMPLETE_COMMIT, 0, pid=NEXT_PID, former=PID),
        logs(opened(A, 0, NEXT_PID)),
        [Stage(ONGOING, 0, (A,), NEXT_PID)],
    ),
}


@pytest.mark.parametrize(("value", "evidence", "expected"), CASES.values(), ids=CASES)
def test_what_a_crash_leaves_becomes_whole(value, evidence, expected):
    decision = reconcile(value, evidence, NOW_MS)
    assert stages(decision) == expected
    assert decision.left == ()


LEFT = {
    "TV1: Complete, and data of its epoch": (
        record(COMPLETE_COMMIT, 5, tv=1),
        opened(A, 5),
        Stage(EMPTY, EPOCH_USED_UP),
    ),
    "TV1: a commit says nothing of the epoch before": (
        record(COMPLETE_COMMIT, 5, tv=1),
        opened(A, 4),
        Stage(COMPLETE_COMMIT, 5),
    ),
    "TV1: nor does a commit that is prepared": (
        record(PREPARE_COMMIT, 5, tv=1),
        opened(A, 4),
        Stage(PREPARE_COMMIT, 5),
    ),
    "TV1: an abort may be of its own epoch": (
        record(COMPLETE_ABORT, 5, tv=1),
        opened(A, 4),
        Stage(COMPLETE_ABORT, 5),
    ),
    "TV2: two epochs before": (record(COMPLETE_COMMIT, 5), opened(A, 3), Stage(COMPLETE_COMMIT, 5)),
    "the epoch before, and nothing decided": (record(EMPTY, 5), opened(A, 4), Stage(EMPTY, 5)),
    "beside the current transaction": (
        record(ONGOING, 5, [B]),
        opened(A, 4),
        Stage(ONGOING, 5, (B,)),
    ),
    "an epoch that nobody was given": (
        record(EMPTY, 5),
        opened(A, 6),
        Stage(EMPTY, EPOCH_USED_UP),
    ),
    "a former id, whose outcome was overwritten": (
        record(ONGOING, 0, [B], pid=NEXT_PID, former=PID),
        opened(A, 32_766),
        Stage(ONGOING, 0, (B,), NEXT_PID),
    ),
}


@pytest.mark.parametrize(("value", "found", "expected"), LEFT.values(), ids=LEFT)
def test_what_no_rule_ends_is_left_to_the_operator(value, found, expected):
    """Rule 6. If the next marker of the producer id would end it too, the id is retired."""
    decision = reconcile(value, logs(found), NOW_MS)
    assert decision.left == (found,)
    assert stages(decision) == [expected]


def test_markers_that_contradict_each_other_decide_nothing():
    found = logs(marked(A, 6, COMMIT), marked(B, 6, ABORT), opened(C, 5))
    decision = reconcile(record(ONGOING, 5, [A, B, C]), found, NOW_MS)
    assert stages(decision) == [Stage(ONGOING, 5, (A, B, C))]


def test_what_nothing_changes_is_the_record_itself():
    """So that only what differs is written."""
    for value in (record(EMPTY), record(ONGOING, 5, [A]), record(COMPLETE_ABORT, 5, tv=1)):
        assert reconcile(value, logs(), NOW_MS).stages == (value,)
        assert reconcile(value, logs(), NOW_MS).stages[0] is value


def test_a_transaction_that_was_begun_keeps_its_time():
    found = logs(opened(B, 5))
    (going_on,) = reconcile(record(ONGOING, 5, [A]), found, NOW_MS).stages
    assert going_on.transaction_start_timestamp_ms == STARTED_MS
    adopted = reconcile(record(ONGOING, 5, [A]), logs(marked(A, 6, COMMIT)), NOW_MS).stages[0]
    assert adopted.transaction_start_timestamp_ms == STARTED_MS


def test_a_transaction_whose_beginning_is_lost_begins_now():
    """Its timeout counts from the start of the broker: the data's timestamps are the client's."""
    (begun,) = reconcile(record(COMPLETE_COMMIT), logs(opened(B, 5)), NOW_MS).stages
    assert begun.transaction_start_timestamp_ms == NOW_MS
    assert begun.client_transaction_version == 2


def test_an_adopted_abort_is_of_tv2_since_it_has_raised_the_epoch():
    """Also the one of a timeout of TV1: what is at its epoch later came after it."""
    (adopted,) = reconcile(record(ONGOING, 5, [A], tv=1), logs(marked(A, 6, ABORT)), NOW_MS).stages
    assert adopted.client_transaction_version == 2


def test_an_adopted_decision_that_uses_up_the_producer_id_lacks_the_next_one():
    found = logs(marked(A, EPOCH_USED_UP, COMMIT), opened(B, 32_766))
    decision = reconcile(record(ONGOING, 32_766, [A, B]), found, NOW_MS)
    assert stages(decision) == [Stage(PREPARE_COMMIT, EPOCH_USED_UP, (B,))]
    assert decision.lacks_producer_id


@pytest.mark.parametrize("following", [NEXT_PID, -1])
def test_only_a_prepare_without_the_next_producer_id_lacks_it(following):
    value = record(PREPARE_COMMIT, EPOCH_USED_UP, [A], following=following)
    assert reconcile(value, logs(), NOW_MS).lacks_producer_id == (following == -1)
    assert not reconcile(record(PREPARE_COMMIT, 5, [A]), logs(), NOW_MS).lacks_producer_id


def test_an_id_that_is_healed_has_the_next_producer_id_that_its_complete_named():
    value = record(COMPLETE_ABORT, 0, pid=NEXT_PID, former=PID)
    (healed,) = reconcile(value, logs(opened(A, 32_766)), NOW_MS).stages
    assert healed.next_producer_id == NEXT_PID
    assert healed.producer_id == PID


def test_what_was_decided_once_is_decided_so_at_the_next_start_too():
    """A crash in mid-reconciliation: with some of the missing markers more, the stages agree."""
    value = record(ONGOING, 5, [A, B, C])
    first = reconcile(value, logs(marked(A, 6, COMMIT), opened(B, 5), opened(C, 5)), NOW_MS)
    facts = marked(A, 6, COMMIT), marked(B, 6, COMMIT), opened(C, 5)
    assert stages(first) == [Stage(PREPARE_COMMIT, 6, (B, C))]
    assert stages(reconcile(value, logs(*facts), NOW_MS)) == [Stage(PREPARE_COMMIT, 6, (C,))]
    prepared = first.stages[0]
    assert stages(reconcile(prepared, logs(*facts), NOW_MS)) == [Stage(PREPARE_COMMIT, 6, (C,))]
    lost = logs(opened(C, 5))  # the markers are below the recovery points by now
    assert stages(reconcile(prepared, lost, NOW_MS)) == [Stage(PREPARE_COMMIT, 6, (C,))]


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("tv", [0, 1, 2])
@pytest.mark.parametrize(("epoch", "former", "following"), [(5, -1, -1), (0, 3, -1), (0, PID, 9)])
def test_an_id_that_the_logs_do_not_know_takes_no_other_way_than_the_rules(
    state, tv, epoch, former, following
):
    value = record(state, epoch, [A, B], tv=tv, former=former, following=following)
    others = {99: ProducerEvidence(open=[OpenPart(A, 5, 10)])}
    evidence = Evidence(others, frozenset((A, B, C)))
    assert reconcile(value, evidence, NOW_MS) == _Reconciliation(value, evidence, NOW_MS).decide()
