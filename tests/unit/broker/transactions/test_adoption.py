"""Adoption: a decision that a crash has left in markers alone is written before these may go."""

import asyncio
import threading

import pytest

from broker.transactions import adoption, endings
from broker.transactions.transaction import Transaction
from broker.transactions.transaction_errors import TransactionError
from broker.transactions.transaction_states import TransactionState
from protocol.errors import ErrorCode
from protocol.transaction_records import TransactionPartitions
from tests.support.broker_rig import Rig
from tests.support.laid_transactions import close_data, died, loaded, open_data, put, value
from tests.support.rig_client import create
from tests.support.transaction_client import SETTINGS, begin

A = "a"


def rig_of(directory):
    return Rig(directory, **SETTINGS)


@pytest.fixture
async def directory(tmp_path):
    """A directory with an id, and a topic."""
    rig = rig_of(tmp_path)
    await begin(rig, A)
    await create(rig, "t", 2)
    await rig.close()
    return tmp_path


async def test_markers_are_let_go_when_the_second_of_two_decisions_is_durable(directory, caplog):
    """A power cut takes Complete, Ongoing and Prepare together, and leaves the marker."""
    rig = rig_of(directory)
    await loaded(rig)
    put(rig, A, value(TransactionState.PREPARE_COMMIT, 6))
    for epoch, is_commit in [(6, True), (7, False)]:
        open_data(rig, 0, epoch - 1)
        close_data(rig, 0, epoch, is_commit)
    open_data(rig, 1, 6)
    await died(rig)
    again = rig_of(directory)
    await loaded(again)
    found = again.services.transactions.find(A)
    assert (found.state, found.epoch) == (TransactionState.COMPLETE_ABORT, 7)
    logs = [again.services.partitions.get("t", number).log for number in (0, 1)]
    assert not any(log.keeps_replayed for log in logs)
    assert [log.checkpointable_offset for log in logs] == [4, 2]
    assert "keep the markers" not in caplog.text
    await again.close()


async def test_markers_are_kept_while_the_second_of_two_decisions_waits_for_the_first(
    directory, monkeypatch, caplog
):
    monkeypatch.setattr(endings, "WAIT_SECONDS", 0.01)
    rig = rig_of(directory)
    await loaded(rig)
    put(rig, A, value(TransactionState.PREPARE_COMMIT, 6))
    for epoch, is_commit in [(6, True), (7, False)]:
        open_data(rig, 0, epoch - 1)
        close_data(rig, 0, epoch, is_commit)
    open_data(rig, 1, 5)
    await died(rig)
    again = rig_of(directory)
    stuck = again.services.partitions.get("t", 1)
    log = again.services.partitions.get("t", 0).log
    with monkeypatch.context() as disk:
        disk.setattr(again.services.appends, "_must_wait", lambda one: one is stuck)
        await asyncio.wait_for(loaded(again), 5)
        assert log.checkpointable_offset == 3, "below the marker"
    again.services.appends.drain()
    await again.services.transactions.finish()
    assert again.services.transactions.find(A).state is TransactionState.COMPLETE_ABORT
    await loaded(again)  # as every second
    assert log.checkpointable_offset == 4
    assert "keep the markers" not in caplog.text, "nothing is to be mended"
    await again.close()


async def test_markers_are_let_go_once_a_full_disk_has_room_for_their_decision(
    directory, monkeypatch
):
    rig = rig_of(directory)
    await loaded(rig)
    put(rig, A, value(TransactionState.ONGOING, 5))
    open_data(rig, 0, 5)
    close_data(rig, 0, 6, True)
    await died(rig)
    again = rig_of(directory)
    log = again.services.partitions.get("t", 0).log
    transactions = again.services.transactions

    def refuse(name, stage, **_):
        raise TransactionError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no space left")

    with monkeypatch.context() as disk:
        disk.setattr(transactions.store.log, "append", refuse)
        await loaded(again)
        await transactions.endings.retry()
        await loaded(again)
    assert log.checkpointable_offset == 1, "below the marker"
    await transactions.store.log.late.finish()
    await transactions.store.log.durable(transactions.find(A).written)
    await loaded(again)
    assert log.checkpointable_offset == 2
    await again.close()


@pytest.mark.parametrize("is_large", [False, True])
async def test_a_transaction_over_many_partitions_is_judged_beside_the_loop(
    directory, monkeypatch, is_large
):
    rig = rig_of(directory)
    await loaded(rig)
    ongoing = value(TransactionState.ONGOING, 5)
    ongoing.transaction_partitions.append(TransactionPartitions(topic="t", partition_ids=[0]))
    put(rig, A, ongoing)
    for number in (0, 1):
        open_data(rig, number, 5)
    await died(rig)
    places = 3  # one in the record, two in the logs
    monkeypatch.setattr(adoption, "PLACES_ON_THE_LOOP", places - is_large)
    threads = []
    judge = adoption.reconcile

    def noting(*args):
        threads.append(threading.current_thread())
        return judge(*args)

    monkeypatch.setattr(adoption, "reconcile", noting)
    again = rig_of(directory)
    await loaded(again)
    assert [one is threading.main_thread() for one in threads] == [not is_large]
    found = again.services.transactions.find(A)
    assert (found.state, found.partitions) == (TransactionState.ONGOING, {"t": {0: None, 1: None}})
    await again.close()


async def test_others_run_while_the_places_of_a_decision_are_gone_through(directory, monkeypatch):
    rig = rig_of(directory)
    await loaded(rig)
    monkeypatch.setattr(endings, "PLACES_PER_TURN", 2)
    owed = Transaction.of_value("owed", value(TransactionState.PREPARE_COMMIT, 6))
    rig.services.transactions.store.put(owed)
    turns = []

    def places():
        asyncio.get_running_loop().call_soon(turns.append, "another")
        for number in range(5):
            yield "gone", number
        assert turns == ["another"]

    await rig.services.transactions.endings.resume(owed, places())
    assert owed.state is TransactionState.COMPLETE_COMMIT
    await rig.close()
