"""The transactional producer for asyncio, on a scripted coordinator behind a MSGPACK listener."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import asynccontextmanager
from random import Random

import pytest

from client.codes import BrokerError
from client.msgpack import async_transactional_producer as module
from client.msgpack.async_transactional_producer import AsyncTransactionalProducer
from client.msgpack.transport import NotConnected, UnknownPlace
from client.places import Place
from client.transactions.endings import FENCED, OPERATOR, TIMEOUT
from client.transactions.epoch import GroupMetadata
from client.transactions.errors import (
    OutcomeUnknown,
    ProducerFenced,
    RequestFailed,
    TransactionAborted,
    TransactionTimedOut,
)
from client.transactions.transaction_settings import TransactionSettings
from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.produce import ProduceRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.support.msgpack_peer import MsgpackPeer
from tests.support.scripted_msgpack import answers
from tests.support.scripted_transactions import ScriptedTransactions

ORDERS = Place("orders", 0)


@pytest.fixture
def scripted():
    return ScriptedTransactions()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Pauses pass at once, and the clock moves by them."""
    moved = [0.0]

    async def sleep(pause_s):
        moved[0] += pause_s
        await real(0)

    real = asyncio.sleep
    monkeypatch.setattr(module, "_now_s", lambda: moved[0])
    monkeypatch.setattr(module.asyncio, "sleep", sleep)
    return moved


@asynccontextmanager
async def made(scripted, **settings):
    async with (
        MsgpackPeer(answers(scripted)) as peer,
        producer_of(peer, **settings) as producer,
    ):
        producer.peer = peer
        yield producer


def producer_of(peer, **settings):
    return AsyncTransactionalProducer(
        peer.address,
        "billing",
        TransactionSettings(**{"retry_s": 5.0, "answer_s": 5.0, **settings}),
        chance=Random(1),
        wall_ns=lambda: 1_700_000_000_000_000_000,
    )


async def send(producer, *values, partition=0):
    for value in values:
        await producer.send("orders", value, partition=partition)


async def run(producer, *steps):
    """Take steps in one transaction; a bytes is a record that is sent at once."""
    async with producer.transaction():
        for step in steps:
            if isinstance(step, bytes):
                await send(producer, step)
                await producer.flush()
            elif inspect.iscoroutinefunction(step):
                await step()
            else:
                step()


def fail():
    raise ZeroDivisionError


def asked(producer, api):
    return [body for name, body in producer.peer.asked if name == api]


async def test_a_block_commits_records_and_offsets_together(scripted):
    async with made(scripted) as producer:
        for _ in range(2):
            async with producer.transaction():
                await send(producer, b"a", b"b")
                await producer.send("bills", b"c", key=b"k", headers=[("h", b"v")])
                member = GroupMetadata("readers", "m1", 3)
                await producer.send_offsets(member, {ORDERS: 5})
                await producer.send_offsets("readers", {})
        assert scripted.committed == 2 * [
            ("orders", 0, b"a"), ("orders", 0, b"b"), ("bills", 0, b"c"),
        ]  # fmt: skip
        assert scripted.offsets == {("orders", 0): 5}
        (first, _) = asked(producer, "txn_offset_commit")
        assert (first["member_id"], first["generation_id"]) == ("m1", 3)


async def test_an_exception_aborts_and_goes_on(scripted):
    async with made(scripted) as producer:
        with pytest.raises(ZeroDivisionError):
            await run(producer, b"a", fail)
        assert scripted.ids["billing"].state == "CompleteAbort"
        await run(producer, b"b")
    assert scripted.committed == [("orders", 0, b"b")]


async def test_a_cancelled_block_is_aborted(scripted):
    async with made(scripted) as producer:

        async def work():
            async with producer.transaction():
                await send(producer, b"a")
                await producer.flush()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        while not asked(producer, "produce"):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await run(producer, b"b")
    assert scripted.committed == [("orders", 0, b"b")]


async def test_a_request_that_was_given_up_aborts_even_if_the_block_goes_on(scripted, monkeypatch):
    """A time limit around one `flush`: the records that it took along are not at the broker."""

    async def never(*_):
        await asyncio.Event().wait()

    async with made(scripted) as producer:

        async def limited():
            with monkeypatch.context() as patched:
                patched.setattr(producer._requests, "produce", never)
                await send(producer, b"a")
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(producer.flush(), 0.01)

        with pytest.raises(TransactionAborted, match="was given up"):
            await run(producer, limited)
        await run(producer, b"b")
        assert scripted.committed == [("orders", 0, b"b")]


async def test_what_was_never_sent_needs_no_abort(scripted):
    async with made(scripted) as producer:

        async def collect():
            await send(producer, b"a")

        with pytest.raises(ZeroDivisionError):
            await run(producer, collect, fail)
        await run(producer)
        assert asked(producer, "end_txn") == []


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "cls", [ProduceRequest, EndTxnRequest, TxnOffsetCommitRequest, InitProducerIdRequest]
)
async def test_a_lost_answer_changes_nothing(scripted, cls, when):
    scripted.drop[cls] = [when]
    async with made(scripted) as producer, producer.transaction():
        await send(producer, b"a")
        await producer.send_offsets("readers", {ORDERS: 5})
    assert scripted.committed == [("orders", 0, b"a")]
    assert scripted.offsets == {("orders", 0): 5}


@pytest.mark.parametrize("code", [14, 15, 16, 51])
async def test_errors_that_pass_are_waited_for(scripted, code):
    for cls in (InitProducerIdRequest, ProduceRequest, TxnOffsetCommitRequest, EndTxnRequest):
        scripted.refuse[cls] = [code, code]
    async with made(scripted) as producer:
        async with producer.transaction():
            await send(producer, b"a")
            await producer.send_offsets("readers", {ORDERS: 5})
        assert bool(asked(producer, "find_coordinator")) is (code in (15, 16))
    assert scripted.committed == [("orders", 0, b"a")]


async def test_an_older_producer_is_fenced_for_good(scripted):
    async with made(scripted) as producer:

        async def take_over():
            async with producer_of(producer.peer) as newer:
                await run(newer, b"new")

        with pytest.raises(ProducerFenced, match=r"a newer producer has taken over .*'billing'"):
            await run(producer, b"old", take_over)
        with pytest.raises(ProducerFenced):
            await run(producer)
    assert scripted.committed == [("orders", 0, b"new")]


async def test_an_id_that_is_being_taken_over_is_not_asked_for(scripted):
    """The newer producer was told to ask again; until it does, the older one could go on."""
    async with made(scripted) as producer:
        with pytest.raises(ProducerFenced, match="a newer producer has taken over"):
            await run(producer, b"a", lambda: scripted.end_all("billing", FENCED))
    assert scripted.ids["billing"].epoch == 1


async def test_an_operator_is_told_from_a_newer_producer(scripted):
    def fence():
        scripted.end_all("billing", OPERATOR)
        scripted.ids["billing"].epoch += 1

    async with made(scripted) as producer:
        with pytest.raises(ProducerFenced, match="an operator ended the transaction"):
            await run(producer, b"a", fence)


@pytest.mark.parametrize("later", [[b"b"], []], ids=["send", "commit"])
async def test_after_a_timeout_the_producer_goes_on(scripted, quick, later):
    def time_out():
        quick[0] += 61
        scripted.end_all("billing", TIMEOUT)

    async with made(scripted) as producer:
        with pytest.raises(TransactionTimedOut, match=r"was open for 61.0 s, .*timeout is 60 s"):
            await run(producer, b"a", time_out, *later)
        await run(producer, b"c")
    assert scripted.committed == [("orders", 0, b"c")]


async def test_a_refused_record_aborts_even_if_the_block_goes_on(scripted):
    scripted.refuse[ProduceRequest] = [ErrorCode.MESSAGE_TOO_LARGE]
    async with made(scripted) as producer:

        async def goes_on():
            await send(producer, b"a")
            with pytest.raises(RequestFailed, match="records for orders-0: MESSAGE_TOO_LARGE"):
                await producer.flush()
            with pytest.raises(TransactionAborted, match="can only be aborted"):
                await send(producer, b"b")

        with pytest.raises(TransactionAborted, match=r"a part of it failed: .*MESSAGE_TOO_LARGE"):
            await run(producer, goes_on)
        await run(producer, b"c")
    assert scripted.committed == [("orders", 0, b"c")]


async def test_a_commit_that_must_be_aborted_is_aborted(scripted):
    scripted.refuse[EndTxnRequest] = [ErrorCode.TRANSACTION_ABORTABLE]
    async with made(scripted) as producer:
        with pytest.raises(TransactionAborted, match="must be aborted"):
            await run(producer, b"a")
        assert scripted.ids["billing"].state == "CompleteAbort"


async def test_a_commit_without_an_answer_is_neither(scripted):
    scripted.drop[EndTxnRequest] = ["before"] * 1000
    async with made(scripted) as producer:
        with pytest.raises(OutcomeUnknown, match=r"not known whether .*'billing'"):
            await run(producer, b"a")
        scripted.drop.clear()
        await run(producer, b"b")
    assert scripted.committed == [("orders", 0, b"b")]


@pytest.mark.parametrize(
    "doubtful", [None, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.CONCURRENT_TRANSACTIONS]
)
async def test_fenced_after_a_commit_without_a_clear_answer_is_neither(scripted, doubtful):
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
    async with made(scripted) as producer:
        with pytest.raises(OutcomeUnknown, match="a newer producer has taken over"):
            await run(producer, b"a")
    assert scripted.committed == [("orders", 0, b"a")]


async def test_wrong_uses_say_what_to_do(scripted):
    async with made(scripted) as producer:
        with pytest.raises(RuntimeError, match=r"async with producer\.transaction\(\)"):
            await send(producer, b"a")
        async with producer.transaction():
            with pytest.raises(RuntimeError, match="leave its block"):
                await run(producer)
            with pytest.raises(UnknownPlace, match="partitions 0 to 1, not 7"):
                await send(producer, b"a", partition=7)
            with pytest.raises(UnknownPlace, match="topic 'nowhere'"):
                await producer.send("nowhere", b"a")
            await send(producer, b"b")
    assert scripted.committed == [("orders", 0, b"b")]


async def test_large_transactions_are_sent_in_parts(scripted):
    async with made(scripted, request_bytes=1000) as producer, producer.transaction():
        await send(producer, *[b"x" * 100] * 50)
        assert len(asked(producer, "produce")) > 4
    assert len(scripted.committed) == 50


async def test_a_wrong_address_is_told_at_once():
    with pytest.raises(NotConnected, match="no broker answers"):
        await AsyncTransactionalProducer("127.0.0.1:1", "x").__aenter__()
    assert issubclass(TransactionAborted, BrokerError)
