"""The transactional producer on a scripted coordinator, in both transaction versions."""

from __future__ import annotations

from random import Random

import pytest

from client.kafka import transactional_producer as module
from client.kafka.connection import BrokerError
from client.kafka.transactional_producer import TransactionalProducer, TransactionSettings
from client.places import Place
from client.transactions.endings import OPERATOR, TIMEOUT
from client.transactions.epoch import GroupMetadata
from client.transactions.errors import (
    OutcomeUnknown,
    ProducerFenced,
    RequestFailed,
    TransactionAborted,
    TransactionTimedOut,
)
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.produce import ProduceRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.support.scripted_broker import ScriptedBroker
from tests.support.scripted_transactions import ScriptedTransactions

ORDERS = Place("orders", 0)


class Time:
    """A clock that moves only by waiting."""

    def __init__(self):
        self.now_s = 0.0

    def clock(self):
        return self.now_s

    def wait(self, pause_s):
        self.now_s += pause_s


@pytest.fixture(params=[2, 1], ids=["TV2", "TV1"])
def scripted(request):
    return ScriptedTransactions(request.param)


@pytest.fixture
def broker(scripted):
    with ScriptedBroker(scripted.answers, features=scripted.features) as found:
        yield found


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def producer(broker, time):
    with made(broker, time) as found:
        yield found


def made(broker, time, **settings):
    return TransactionalProducer(
        broker.address,
        "billing",
        TransactionSettings(**{"retry_s": 5.0, "answer_s": 1.0, **settings}),
        chance=Random(1),
        wall_ns=lambda: 1_700_000_000_000_000_000,
        clock=time.clock,
        wait=time.wait,
    )


def send(producer, *values, partition=0):
    for value in values:
        producer.send("orders", value, partition=partition)


def run(producer, *steps):
    """Take steps in one transaction; a bytes is a record that is sent at once."""
    with producer.transaction():
        for step in steps:
            if isinstance(step, bytes):
                send(producer, step)
                producer.flush()
            else:
                step()


def fail():
    raise ZeroDivisionError


def asked(broker, cls):
    return [one for one in broker.requests if isinstance(one, cls)]


def test_a_block_commits_records_and_offsets_together(scripted, producer):
    with producer.transaction():
        send(producer, b"a", b"b")
        producer.send("bills", b"c", key=b"k", headers=[("h", b"v")])
        producer.send_offsets("readers", {ORDERS: 5})
        assert (scripted.committed, scripted.offsets) == ([], {})
    assert scripted.committed == [("orders", 0, b"a"), ("orders", 0, b"b"), ("bills", 0, b"c")]
    assert scripted.offsets == {("orders", 0): 5}


def test_an_exception_aborts_and_goes_on(scripted, producer):
    with pytest.raises(ZeroDivisionError):
        run(producer, b"a", fail)
    assert scripted.ids["billing"].state == "CompleteAbort"
    run(producer, b"b")
    assert scripted.committed == [("orders", 0, b"b")]


def test_what_was_never_sent_needs_no_abort(broker, producer):
    with pytest.raises(ZeroDivisionError):
        run(producer, lambda: send(producer, b"a"), fail)
    run(producer)
    assert asked(broker, EndTxnRequest) == []


def test_each_transaction_continues_or_restarts_the_sequences(scripted, producer):
    for number in range(3):
        with producer.transaction():
            send(producer, b"%d" % number)
            producer.flush()
            send(producer, b"%d again" % number)
    assert len(scripted.committed) == 6
    epoch, sequence = scripted.sequences["orders", 0]
    assert (epoch, sequence) == ((2, 2) if scripted.version == 2 else (0, 6))


def test_the_versions_of_requests_are_those_of_the_transaction(scripted, broker, producer):
    with producer.transaction():
        send(producer, b"a")
        producer.send_offsets(GroupMetadata("readers", "m1", 3), {ORDERS: 5})
    versions = {
        type(body): header.api_version
        for header, body in zip(broker.headers, broker.requests, strict=True)
    }
    second = scripted.version == 2
    assert versions[ProduceRequest] == (12 if second else 11)
    assert versions[EndTxnRequest] == (5 if second else 4)
    assert versions[TxnOffsetCommitRequest] == (5 if second else 4)
    assert (AddPartitionsToTxnRequest in versions) is not second
    (offsets,) = asked(broker, TxnOffsetCommitRequest)
    assert (offsets.member_id, offsets.generation_id) == ("m1", 3)


def test_partitions_are_added_once(scripted, broker, producer):
    with producer.transaction():
        for value in (b"a", b"b"):
            send(producer, value)
            producer.flush()
    assert len(asked(broker, AddPartitionsToTxnRequest)) == (0 if scripted.version == 2 else 1)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "cls",
    [
        ProduceRequest,
        EndTxnRequest,
        TxnOffsetCommitRequest,
        AddPartitionsToTxnRequest,
        InitProducerIdRequest,
    ],
)
def test_a_lost_answer_changes_nothing(scripted, broker, time, cls, when):
    scripted.drop[cls] = [when]
    with made(broker, time) as producer, producer.transaction():
        send(producer, b"a")
        producer.send_offsets("readers", {ORDERS: 5})
    assert scripted.committed == [("orders", 0, b"a")]
    assert scripted.offsets == {("orders", 0): 5}


@pytest.mark.parametrize("code", [14, 15, 16, 51])
def test_errors_that_pass_are_waited_for(scripted, broker, time, code):
    for cls in (InitProducerIdRequest, ProduceRequest, TxnOffsetCommitRequest, EndTxnRequest):
        scripted.refuse[cls] = [code, code]
    with made(broker, time) as producer, producer.transaction():
        send(producer, b"a")
        producer.send_offsets("readers", {ORDERS: 5})
    assert scripted.committed == [("orders", 0, b"a")]
    assert bool(asked(broker, FindCoordinatorRequest)) is (code in (15, 16))


def test_an_older_producer_is_fenced_for_good(scripted, broker, time, producer):
    def take_over():
        producer._broker.close()  # the scripted broker serves one connection at a time
        with made(broker, time) as newer:
            run(newer, b"new")

    with pytest.raises(ProducerFenced, match=r"a newer producer has taken over .*'billing'"):
        run(producer, b"old", take_over)
    with pytest.raises(ProducerFenced):
        run(producer)
    assert scripted.committed == [("orders", 0, b"new")]


def test_an_operator_is_told_from_a_newer_producer(scripted, producer):
    def fence():
        scripted.end_all("billing", OPERATOR)
        scripted.ids["billing"].epoch += 1

    with pytest.raises(ProducerFenced, match="an operator ended the transaction"):
        run(producer, b"a", fence)


@pytest.mark.parametrize("later", [[b"b"], []], ids=["send", "commit"])
@pytest.mark.parametrize("is_told", [True, False])
def test_after_a_timeout_the_producer_goes_on(scripted, producer, time, later, is_told):
    def time_out():
        time.now_s += 61
        scripted.end_all("billing", TIMEOUT)
        if not is_told:
            scripted.ids["billing"].last_end = None

    with pytest.raises(TransactionTimedOut, match=r"was open for 61.0 s, .*timeout is 60 s"):
        run(producer, b"a", time_out, *later)
    run(producer, b"c")
    assert scripted.committed == [("orders", 0, b"c")]


def test_an_abort_by_an_operator_before_the_timeout_is_not_called_a_timeout(scripted, producer):
    with pytest.raises(TransactionAborted, match=r"aborted after 0.0 s. An operator ended it"):
        run(producer, b"a", lambda: scripted.end_all("billing", OPERATOR))


def test_an_abort_after_a_timeout_leaves_the_error_of_the_block(scripted, producer):
    with pytest.raises(ZeroDivisionError):
        run(producer, b"a", lambda: scripted.end_all("billing", TIMEOUT), fail)
    run(producer, b"b")
    assert scripted.committed == [("orders", 0, b"b")]


def test_an_interrupt_while_a_commit_sends_its_records_aborts(scripted, broker):
    class Interrupted(Time):
        def wait(self, pause_s):
            raise KeyboardInterrupt

    scripted.refuse[ProduceRequest] = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    with made(broker, Interrupted()) as producer:
        with pytest.raises(KeyboardInterrupt), producer.transaction():
            send(producer, b"a")
        assert [end.committed for end in asked(broker, EndTxnRequest)] == [False]
        run(producer, b"b")
    assert scripted.committed == [("orders", 0, b"b")]


def test_a_refused_record_aborts_even_if_the_block_goes_on(scripted, producer):
    def goes_on():
        with pytest.raises(RequestFailed, match="records for orders-0: MESSAGE_TOO_LARGE"):
            producer.flush()
        with pytest.raises(TransactionAborted, match="can only be aborted"):
            send(producer, b"b")

    scripted.refuse[ProduceRequest] = [ErrorCode.MESSAGE_TOO_LARGE]
    with pytest.raises(TransactionAborted, match=r"a part of it failed: .*MESSAGE_TOO_LARGE"):
        run(producer, lambda: send(producer, b"a"), goes_on)
    run(producer, b"c")
    assert scripted.committed == [("orders", 0, b"c")]


def test_a_commit_that_must_be_aborted_is_aborted(scripted, producer):
    scripted.refuse[EndTxnRequest] = [ErrorCode.TRANSACTION_ABORTABLE]
    with pytest.raises(TransactionAborted, match="must be aborted"):
        run(producer, b"a")
    assert scripted.ids["billing"].state == "CompleteAbort"
    run(producer, b"b")
    assert scripted.committed == [("orders", 0, b"b")]


def test_a_commit_without_an_answer_is_neither(scripted, producer):
    scripted.drop[EndTxnRequest] = ["before"] * 100
    with pytest.raises(OutcomeUnknown, match=r"not known whether .*'billing'"):
        run(producer, b"a")
    scripted.drop.clear()
    run(producer, b"b")
    assert scripted.committed == [("orders", 0, b"b")]


@pytest.mark.parametrize(
    "doubtful", [None, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.CONCURRENT_TRANSACTIONS]
)
def test_fenced_after_a_commit_without_a_clear_answer_is_neither(scripted, producer, doubtful):
    """The decision may be on the disk when its broker answers COORDINATOR_NOT_AVAILABLE."""
    if doubtful is None:
        scripted.drop[EndTxnRequest] = ["after"]
    else:
        scripted.spoil[EndTxnRequest] = [doubtful]
    finish = scripted._finish

    def finish_and_fence(one, **outcome):
        finish(one, **outcome)
        one.epoch += 2
        one.ended = None

    scripted._finish = finish_and_fence
    with pytest.raises(OutcomeUnknown, match="a newer producer has taken over"):
        run(producer, b"a")
    assert scripted.committed == [("orders", 0, b"a")]


def test_wrong_uses_say_what_to_do(scripted, broker, producer):
    with pytest.raises(RuntimeError, match=r"with producer\.transaction\(\)"):
        send(producer, b"a")
    with producer.transaction():
        with pytest.raises(RuntimeError, match="leave its block"):
            run(producer)
        with pytest.raises(BrokerError, match="partitions 0 to 1, not 7"):
            send(producer, b"a", partition=7)
        with pytest.raises(BrokerError, match="no success within 10 s: topic 'nowhere'"):
            producer.send("nowhere", b"a")
        producer.send_offsets("readers", {})
        send(producer, b"b")
    assert scripted.committed == [("orders", 0, b"b")]


def test_large_transactions_are_sent_in_parts(scripted, broker, time):
    with made(broker, time, request_bytes=1000) as producer, producer.transaction():
        send(producer, *[b"x" * 100] * 50)
        assert len(asked(broker, ProduceRequest)) > 4
    assert len(scripted.committed) == 50


def test_a_wrong_address_is_told_at_once(time):
    producer = TransactionalProducer("127.0.0.1:1", "x", clock=time.clock, wait=time.wait)
    with pytest.raises(BrokerError, match="no broker answers"):
        producer.__enter__()
    assert time.now_s == 0
    assert module.TransactionSettings().retry_s > module.ABORT_S


def test_a_request_that_was_given_up_aborts_even_if_the_block_goes_on(
    scripted, producer, monkeypatch
):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    def interrupted():
        with producer.transaction():
            producer.send("orders", b"a", partition=0)
            with monkeypatch.context() as patched:
                patched.setattr(module.requests, "produce", interrupt)
                with pytest.raises(KeyboardInterrupt):
                    producer.flush()

    with pytest.raises(TransactionAborted, match="was given up"):
        interrupted()
    with producer.transaction():
        producer.send("orders", b"b", partition=0)
    assert scripted.committed == [("orders", 0, b"b")]
