"""The rules of one transactional id, without a log: who is refused, and what follows."""

from typing import Any

import pytest

from broker.runtime.clock import MS_NS
from broker.transactions.transaction import EPOCH_LAST, Transaction
from broker.transactions.transaction_errors import TransactionError
from broker.transactions.transaction_states import TransactionState
from broker.transactions.transaction_step import TV1, TV2
from protocol.errors import ErrorCode
from protocol.transaction_records import encode_value

EMPTY = TransactionState.EMPTY
ONGOING = TransactionState.ONGOING
PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
PREPARE_ABORT = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionState.COMPLETE_ABORT

PID = 7
FENCED = ErrorCode.PRODUCER_FENCED
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING
STATE = ErrorCode.INVALID_TXN_STATE
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
NOW_MS = 1_000_000


def transaction(state: TransactionState = EMPTY, epoch: int = 5) -> Transaction:
    made = Transaction("t", PID, 60_000)
    made.state, made.epoch, made.updated_ms = state, epoch, NOW_MS
    if state is ONGOING or state.is_prepared:
        made.partitions = {"a": {0: None}}
        made.started_ms = NOW_MS
    return made


def outcome(call: Any) -> Any:
    try:
        return call()
    except TransactionError as error:
        return error.code


# -- InitProducerId --------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
@pytest.mark.parametrize(
    ("expected", "last_epoch", "after"),
    [
        (None, 4, (PID, 6, -1)),
        ((PID, 5), 4, (PID, 6, 5)),
        ((PID, 4), 4, (PID, 5, 4)),  # a retry
        ((PID, 4), -1, FENCED),  # after a restart, that is not known
        ((PID, 3), 4, FENCED),
        ((PID, 6), 4, FENCED),
        ((8, 5), 4, FENCED),
    ],
)
def test_init_raises_the_epoch_or_repeats_it(state, expected, last_epoch, after):
    one = transaction(state)
    one.last_epoch = last_epoch

    def init():
        one.check_init(expected)
        step = one.init_step(expected, 60_000, NOW_MS)
        assert step.state is EMPTY
        return step.producer_id, step.epoch, step.last_epoch

    assert outcome(init) == after


def test_a_new_id_begins_with_epoch_0_whatever_its_producer_had():
    one = Transaction("t", PID, 60_000)
    for expected in (None, (3, 9)):
        one.check_init(expected)
        step = one.init_step(expected, 60_000, NOW_MS)
        assert (step.producer_id, step.epoch) == (PID, 0)


def test_the_last_epoch_that_is_given_out_is_followed_by_another_producer_id():
    one = transaction(epoch=EPOCH_LAST - 1)
    one.take(one.init_step(None, 60_000, NOW_MS))
    assert one.epoch == EPOCH_LAST
    assert one.wants_producer_id(None)
    one.take(one.init_step(None, 60_000, NOW_MS, 8))
    assert (one.producer_id, one.epoch, one.previous_producer_id) == (8, 0, PID)
    one.check_init((PID, EPOCH_LAST))  # a retry of the client that was given it


@pytest.mark.parametrize(
    ("expected", "answer"),
    [(None, None), ((PID, 5), None), ((PID, 4), FENCED), ((PID, 6), FENCED), ((8, 5), FENCED)],
)
def test_a_fenced_instance_cannot_abort_what_its_successor_has_open(expected, answer):
    one = transaction(ONGOING)
    one.last_epoch = 4
    assert outcome(lambda: one.check_init(expected)) == answer


@pytest.mark.parametrize("state", [PREPARE_COMMIT, PREPARE_ABORT])
def test_everything_is_refused_while_an_end_goes_on(state):
    one = transaction(state)
    assert outcome(lambda: one.check_init((8, 1))) == BUSY
    assert outcome(lambda: one.check_producer(8, 1)) == BUSY
    assert outcome(lambda: one.check_end(8, 1, is_commit=True, bumps=True)) == BUSY
    closed = transaction(ONGOING)
    closed.is_ending = True
    assert outcome(lambda: closed.check_producer(PID, 5)) == BUSY


# -- Adding ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("producer_id", "epoch", "code"),
    [(PID, 5, None), (8, 5, MAPPING), (PID, 4, FENCED), (PID, 6, FENCED), (8, 4, MAPPING)],
)
def test_only_the_current_producer_adds(producer_id, epoch, code):
    assert outcome(lambda: transaction().check_producer(producer_id, epoch)) == code


def test_the_first_partition_begins_the_transaction_and_others_join_it():
    one = transaction(COMPLETE_ABORT)
    first = one.add_step({"a": [0, 0]}, NOW_MS + 1, TV2)
    assert first is not None
    assert (first.state, first.epoch, first.started_ms, first.added) == (
        ONGOING, 5, NOW_MS + 1, {"a": {0: None}},
    )  # fmt: skip
    one.take(first)
    assert one.add_step({"a": [0]}, NOW_MS + 2, TV2) is None
    second = one.add_step({"a": [0], "b": [3]}, NOW_MS + 3, TV2)
    assert second is not None
    assert (second.started_ms, second.updated_ms) == (NOW_MS + 1, NOW_MS + 3)
    one.take(second)
    assert list(one.places()) == [("a", 0), ("b", 3)]
    assert one.is_open_in("b", 3)
    assert not one.is_open_in("b", 0)


def test_one_partition_more_costs_the_same_however_many_there_are():
    class Unwalked(dict):
        def __iter__(self):
            raise AssertionError("all of them were looked at")

        keys = items = values = __iter__

    one = transaction(ONGOING)
    one.partitions = {"a": Unwalked.fromkeys(range(100_000))}
    step = one.add_step({"a": [7, 100_000]}, NOW_MS, TV2)
    assert step is not None
    assert step.added == {"a": {100_000: None}}
    assert one.add_step({"a": [7]}, NOW_MS, TV2) is None


# -- Ending ----------------------------------------------------------------------------------------

ENDS = True
AGAIN = False


@pytest.mark.parametrize(
    ("state", "epoch", "is_commit", "bumps", "answer"),
    [
        (ONGOING, 5, True, True, ENDS),
        (ONGOING, 5, False, True, ENDS),
        (ONGOING, 5, True, False, ENDS),
        (ONGOING, 4, True, True, FENCED),  # a delayed one of the transaction before
        (ONGOING, 4, True, False, FENCED),
        (ONGOING, 6, True, True, FENCED),
        (EMPTY, 5, True, True, STATE),
        (EMPTY, 5, False, True, ENDS),
        (EMPTY, 4, True, True, STATE),
        (EMPTY, 4, False, True, FENCED),
        (EMPTY, 5, True, False, STATE),
        (EMPTY, 5, False, False, STATE),
        (COMPLETE_COMMIT, 5, True, True, STATE),
        (COMPLETE_COMMIT, 5, False, True, ENDS),
        (COMPLETE_COMMIT, 4, True, True, AGAIN),
        (COMPLETE_COMMIT, 4, False, True, STATE),
        (COMPLETE_COMMIT, 3, True, True, FENCED),
        (COMPLETE_COMMIT, 5, True, False, AGAIN),
        (COMPLETE_COMMIT, 5, False, False, STATE),
        (COMPLETE_COMMIT, 4, True, False, FENCED),
        (COMPLETE_ABORT, 5, False, True, ENDS),
        (COMPLETE_ABORT, 5, True, True, STATE),
        (COMPLETE_ABORT, 4, False, True, AGAIN),  # also after a timeout
        (COMPLETE_ABORT, 4, True, True, STATE),
        (COMPLETE_ABORT, 5, False, False, AGAIN),
        (COMPLETE_ABORT, 5, True, False, STATE),
    ],
)
def test_what_an_end_is_answered(state, epoch, is_commit, bumps, answer):
    one = transaction(state)
    one.client_version = TV2
    assert outcome(lambda: one.check_end(PID, epoch, is_commit=is_commit, bumps=bumps)) == answer


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_of_a_fenced_instance_is_no_retry_of_one_that_raised_no_epoch(is_commit):
    one = transaction(ONGOING)
    one.take(one.end_step(NOW_MS, is_commit=is_commit, bumps=False))
    one.take(one.complete_step(NOW_MS))
    for one.is_reopened in (False, True):
        assert outcome(lambda: one.check_end(PID, 4, is_commit=is_commit, bumps=True)) == FENCED


def test_another_producer_id_ends_nothing():
    one = transaction(ONGOING)
    assert outcome(lambda: one.check_end(8, 5, is_commit=True, bumps=True)) == MAPPING


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize(("bumps", "epoch"), [(True, 6), (False, 5)])
def test_an_end_goes_through_its_states(is_commit, bumps, epoch):
    one = transaction(ONGOING)
    one.take(one.end_step(NOW_MS + 5, is_commit=is_commit, bumps=bumps))
    assert one.state is (PREPARE_COMMIT if is_commit else PREPARE_ABORT)
    assert (one.epoch, one.client_version) == (epoch, TV2 if bumps else TV1)
    assert list(one.places()) == [("a", 0)]
    one.take(one.complete_step(NOW_MS + 6))
    assert one.state is (COMPLETE_COMMIT if is_commit else COMPLETE_ABORT)
    assert (one.producer_id, one.epoch) == (PID, epoch)
    assert not one.partition_count


def test_the_end_of_the_last_epoch_hands_over_to_another_producer_id():
    one = transaction(ONGOING, epoch=EPOCH_LAST)
    assert one.is_exhausted
    one.take(one.end_step(NOW_MS, is_commit=True, bumps=True, new_producer_id=8))
    assert (one.producer_id, one.epoch, one.next_producer_id) == (PID, 32_767, 8)
    one.take(one.complete_step(NOW_MS))
    assert (one.producer_id, one.epoch, one.previous_producer_id) == (8, 0, PID)
    assert one.next_producer_id == -1
    assert one.check_end(PID, EPOCH_LAST, is_commit=True, bumps=True) is AGAIN
    assert outcome(lambda: one.check_end(PID, EPOCH_LAST, is_commit=True, bumps=False)) == MAPPING


# -- Records ---------------------------------------------------------------------------------------


def test_a_commit_is_written_as_kafka_writes_it():
    """The bytes of a record of Kafka 4.3: producer 0 at epoch 25 commits t-0."""
    one = Transaction("tx", 0, 60_000)
    one.state, one.epoch, one.started_ms = ONGOING, 25, 0x1A205BB6C3E
    one.partitions = {"t": {0: None}}
    step = one.end_step(0x1A205BB6C49, is_commit=True, bumps=True)
    assert encode_value(one.value_after(step)) == bytes.fromhex(
        "0001 0000000000000000 001a 0000ea60 02 02 0274 02 00000000 00 000001a205bb6c49"
        "000001a205bb6c3e 02 00 08 0000000000000000 02 02 0002"
    )


def test_a_record_gives_the_transaction_back():
    one = transaction(ONGOING)
    step = one.add_step({"b": [1]}, NOW_MS, TV2)
    assert step is not None
    back = Transaction.of_value("t", one.value_after(step))
    assert list(back.places()) == [("a", 0), ("b", 1)]
    assert (back.state, back.epoch, back.started_ms) == (ONGOING, 5, NOW_MS)
    assert (back.producer_id, back.timeout_ms, back.client_version) == (PID, 60_000, TV2)


@pytest.mark.parametrize(
    ("state", "partitions"), [(EMPTY, None), (COMPLETE_COMMIT, []), (COMPLETE_ABORT, [])]
)
def test_without_a_transaction_a_record_has_no_partitions(state, partitions):
    one = transaction(EMPTY)
    step = one.init_step(None, 60_000, NOW_MS)._replace(state=state)
    assert one.value_after(step).transaction_partitions == partitions


# -- Time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "after_ms", "is_due"),
    [
        (ONGOING, 60_000, False),
        (ONGOING, 60_001, True),
        (EMPTY, 90_000, False),
        (PREPARE_COMMIT, 90_000, False),
    ],
)
def test_only_an_open_transaction_times_out(state, after_ms, is_due):
    assert transaction(state).is_due(NOW_MS + after_ms, 7) is is_due
    looked_at = transaction(state)
    assert not looked_at.is_due(NOW_MS, 7)
    assert looked_at.is_due(NOW_MS + after_ms, 7 + after_ms * MS_NS) is is_due


@pytest.mark.parametrize("set_by_ms", [-3_600_000, 3_600_000])
def test_the_wall_clock_may_be_set_while_a_transaction_is_open(set_by_ms):
    one = transaction(ONGOING)
    assert not one.is_due(NOW_MS + 10_000, 7)
    assert not one.is_due(NOW_MS + set_by_ms, 7 + 50_000 * MS_NS)
    assert one.is_due(NOW_MS + set_by_ms, 8 + 50_000 * MS_NS)


def test_no_transaction_is_open_for_longer_than_its_timeout_after_the_first_look():
    one = transaction(ONGOING)
    assert not one.is_due(NOW_MS - 3_600_000, 7)
    assert one.is_due(NOW_MS - 3_600_000, 8 + 60_000 * MS_NS)


@pytest.mark.parametrize(
    ("state", "after_ms", "is_expired"),
    [
        (EMPTY, 100, True),
        (EMPTY, 99, False),
        (COMPLETE_COMMIT, 100, True),
        (COMPLETE_ABORT, 100, True),
        (ONGOING, 100, False),
        (PREPARE_ABORT, 100, False),
    ],
)
def test_an_id_expires_while_nothing_is_open(state, after_ms, is_expired):
    assert transaction(state).is_expired(NOW_MS + after_ms, 100) is is_expired
