"""A log that the disk gives only after the start: no transaction is torn meanwhile, or by it."""

import asyncio

import pytest

from broker.groups.shard import ShardState
from broker.metadata.topic_rules import TRANSACTION_TOPIC
from broker.transactions import late_logs
from broker.transactions.transaction import EPOCH_LAST, Transaction
from broker.transactions.transaction_errors import TransactionError
from broker.transactions.transaction_states import EndReason, TransactionState
from broker.transactions.transaction_step import TV2
from protocol.errors import ErrorCode
from protocol.records import Record, build
from protocol.transaction_records import TransactionKey, encode_key, encode_value
from storage.errors import LogFailed
from tests.support.late_logs import (
    add_unrecorded,
    load,
    log_of,
    look_again,
    mark,
    offline,
    opened_transaction,
    outcomes,
    restarted,
    rig_of,
    state_of,
    time_out,
)
from tests.support.rig_client import crash, create
from tests.support.transaction_client import Transactor, begin

CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS


async def test_a_decision_whose_only_marker_is_in_a_late_log_counts_for_all(tmp_path, caplog):
    rig, producer = await opened_transaction(tmp_path, 0, 1)
    mark(rig, 0, producer)
    again = await restarted(rig, producer, "t-0")
    assert "id: its transaction is open in t-0, which is offline" in caplog.text
    for _ in range(2):
        assert await producer.end(is_commit=False) == CONCURRENT
        assert await producer.end(is_commit=True) == CONCURRENT
        assert (await producer.init()).error_code == CONCURRENT
        await time_out(again)
        with offline("t-0"):
            await look_again(again)
    assert outcomes(again, 1) == [None]
    await look_again(again)
    assert outcomes(again, 0, 1) == [True, True]
    assert state_of(again) is TransactionState.COMPLETE_COMMIT
    assert await producer.end(is_commit=True) == 0, "the client asks again"
    await again.close()


async def test_a_late_log_keeps_its_marker_until_what_it_says_is_durable(tmp_path):
    rig, producer = await opened_transaction(tmp_path, 0, 1)
    mark(rig, 0, producer)
    again = await restarted(rig, producer, "t-0")
    await again.services.topics.open_offline()
    log = log_of(again, 0)
    assert log.checkpointable_offset == 1, "below the marker"
    third = await restarted(again, producer, "t-none")
    assert outcomes(third, 0, 1) == [True, True]
    await third.close()
    fourth = rig_of(tmp_path)
    assert log_of(fourth, 0).checkpointable_offset == 2
    await fourth.close()


async def test_a_transaction_without_a_decision_goes_on_when_the_log_is_open(tmp_path):
    rig, producer = await opened_transaction(tmp_path, 0, 1)
    again = await restarted(rig, producer, "t-0")
    assert await producer.end() == CONCURRENT
    await look_again(again)
    assert outcomes(again, 0, 1) == [None, None]
    assert await producer.end() == 0
    assert outcomes(again, 0, 1) == [True, True]
    await again.close()


async def test_it_times_out_when_the_log_is_open(tmp_path):
    rig, producer = await opened_transaction(tmp_path, 0, 1)
    again = await restarted(rig, producer, "t-0")
    await time_out(again)
    assert state_of(again) is TransactionState.ONGOING
    await look_again(again)
    await time_out(again)
    assert outcomes(again, 0, 1) == [False, False]
    await again.close()


async def test_one_of_two_late_logs_decides(tmp_path):
    """The other one gets its marker when it opens."""
    rig, producer = await opened_transaction(tmp_path, 0, 1, 2)
    mark(rig, 0, producer, is_commit=False)
    again = await restarted(rig, producer, "t-0", "t-1")
    with offline("t-1"):
        await look_again(again)
    assert outcomes(again, 0, 2) == [False, False]
    assert state_of(again) is TransactionState.PREPARE_ABORT
    await look_again(again)
    await again.services.transactions.endings.retry()
    assert outcomes(again, 1) == [False]
    assert state_of(again) is TransactionState.COMPLETE_ABORT
    await again.close()


async def test_one_of_two_late_logs_without_a_decision_is_not_enough(tmp_path):
    rig, producer = await opened_transaction(tmp_path, 0, 1, 2)
    mark(rig, 1, producer)
    again = await restarted(rig, producer, "t-0", "t-1")
    with offline("t-1"):
        await look_again(again)
    assert await producer.end(is_commit=False) == CONCURRENT
    await look_again(again)
    assert outcomes(again, 0, 1, 2) == [True, True, True]
    await again.close()


async def test_a_marker_whose_transaction_had_lost_the_partition_counts_for_all(tmp_path):
    """The records that added it and that decided were lost together."""
    rig, producer = await opened_transaction(tmp_path, 1)
    add_unrecorded(rig, 0, producer)
    mark(rig, 0, producer)
    again = await restarted(rig, producer, "t-0")
    with offline("t-0"):
        await look_again(again)
    assert await producer.end(is_commit=False) == CONCURRENT
    await time_out(again)
    await look_again(again)
    assert outcomes(again, 0, 1) == [True, True]
    await again.close()


@pytest.mark.parametrize("seconds", [0, 3600])
async def test_a_log_that_stays_offline_holds_up_others_for_some_seconds(
    tmp_path, monkeypatch, seconds
):
    monkeypatch.setattr(late_logs, "PATIENCE_SECONDS", seconds)
    rig, producer = await opened_transaction(tmp_path, 1)
    again = await restarted(rig, producer, "t-0")
    with offline("t-0"):
        await look_again(again)
    assert await producer.end() == (CONCURRENT if seconds else 0)
    if not seconds:
        assert (await producer.produce("t", 1)).error_code == 0
    again.services.transactions.loading._late._patient_until_ns = 0  # they have passed
    with offline("t-0"):
        await look_again(again)
    assert await producer.end() == 0
    await again.close()


async def test_data_whose_record_was_lost_join_their_transaction(tmp_path):
    rig, producer = await opened_transaction(tmp_path, 1)
    add_unrecorded(rig, 0, producer)
    again = await restarted(rig, producer, "t-0")
    await look_again(again)
    found = again.services.transactions.store.by_id["id"]
    assert list(found.places()) == [("t", 0), ("t", 1)]
    assert await producer.end() == 0
    assert outcomes(again, 0, 1) == [True, True]
    await again.close()


async def test_a_transaction_whose_only_data_are_in_a_late_log_is_found(tmp_path):
    rig, producer = await opened_transaction(tmp_path)
    add_unrecorded(rig, 0, producer)
    again = await restarted(rig, producer, "t-0")
    await look_again(again)
    assert state_of(again) is TransactionState.ONGOING
    await time_out(again)
    assert outcomes(again, 0) == [False]
    await again.close()


@pytest.mark.parametrize("is_commit", [True, False])
async def test_data_that_were_left_out_of_an_end_get_its_outcome(tmp_path, monkeypatch, is_commit):
    monkeypatch.setattr(late_logs, "PATIENCE_SECONDS", 0)
    rig, producer = await opened_transaction(tmp_path, 1)
    add_unrecorded(rig, 0, producer)
    again = await restarted(rig, producer, "t-0")
    assert await producer.end(is_commit=is_commit) == 0
    await look_again(again)
    assert outcomes(again, 0, 1) == [is_commit, is_commit]
    assert (await producer.produce("t", 0)).error_code == 0, "the id goes on"
    await again.close()


async def test_nothing_of_the_producer_enters_a_late_log_before_it_is_judged(tmp_path, monkeypatch):
    monkeypatch.setattr(late_logs, "PATIENCE_SECONDS", 0)
    rig, producer = await opened_transaction(tmp_path, 1)
    add_unrecorded(rig, 0, producer)
    again = await restarted(rig, producer, "t-0")
    assert await producer.end() == 0
    await again.services.topics.open_offline()
    assert (await producer.produce("t", 0)).error_code == CONCURRENT
    await look_again(again)
    assert outcomes(again, 0) == [True]
    await again.close()


async def test_many_transactions_are_judged_in_turns_and_not_again_in_vain(tmp_path, monkeypatch):
    """Each takes some 60 us, and the broker looks again every second."""
    rig, producer = await opened_transaction(tmp_path, 0, 1)
    again = await restarted(rig, producer, "t-0")
    transactions = again.services.transactions
    for number in range(5):
        one = Transaction(f"id-{number}", 9_000 + number, 60_000)
        one.epoch, one.state, one.client_version = 0, TransactionState.ONGOING, TV2
        one.started_ms = again.services.clock.now_ms()
        one.partitions = {"t": {0: None}}
        transactions.store.put(one)
    await transactions.loading._late.hold([f"id-{number}" for number in range(5)])
    judged: list[str] = []
    in_this_turn: list[str] = []
    judge = transactions.loading._adoption.judge

    async def noted(transaction, evidence, *, may_go_on):
        judged.append(transaction.transactional_id)
        if not in_this_turn:
            asyncio.get_running_loop().call_soon(in_this_turn.clear)
        in_this_turn.append(transaction.transactional_id)
        assert len(in_this_turn) <= 2
        return await judge(transaction, evidence, may_go_on=may_go_on)

    monkeypatch.setattr(transactions.loading._adoption, "judge", noted)
    monkeypatch.setattr(late_logs, "JUDGED_PER_TURN", 2)
    with offline("t-0"):
        await look_again(again)
        await look_again(again)
    assert judged == []
    await look_again(again)
    assert sorted(judged) == ["id", *(f"id-{number}" for number in range(5))]
    await again.close()


async def test_the_deletion_of_the_topic_lets_a_transaction_go(tmp_path):
    rig, producer = await opened_transaction(tmp_path, 0)
    await create(rig, "u")
    assert (await producer.produce("u")).error_code == 0
    again = await restarted(rig, producer, "t-0")
    assert await producer.end() == CONCURRENT
    await again.services.topics.delete("t")
    await look_again(again)
    assert await producer.end() == 0
    await again.close()


async def test_an_operator_aborts_what_waits_for_a_log(tmp_path):
    rig, producer = await opened_transaction(tmp_path, 0, 1)
    again = await restarted(rig, producer, "t-0")
    transactions = again.services.transactions
    with pytest.raises(TransactionError):
        await transactions.init("id", 60_000, None, by_operator=True)
    await transactions.finish()
    assert outcomes(again, 1) == [False]
    assert transactions.store.by_id["id"].last_end.reason is EndReason.OPERATOR
    await look_again(again)
    await transactions.endings.retry()
    assert outcomes(again, 0) == [False]
    await again.close()


async def test_what_an_operator_has_torn_is_named(tmp_path, caplog):
    rig, producer = await opened_transaction(tmp_path, 0, 1)
    mark(rig, 0, producer)
    again = await restarted(rig, producer, "t-0")
    transactions = again.services.transactions
    with pytest.raises(TransactionError):
        await transactions.init("id", 60_000, None, by_operator=True)
    await transactions.finish()
    await again.services.topics.open_offline()
    await transactions.endings.retry()
    await look_again(again)
    assert outcomes(again, 0, 1) == [True, False]
    assert "id: its transaction of epoch 0 is torn: committed in t-0" in caplog.text
    await again.close()


async def test_an_operator_does_not_overtake_a_log_that_has_opened(tmp_path):
    rig, producer = await opened_transaction(tmp_path, 0, 1, 2)
    mark(rig, 0, producer)
    again = await restarted(rig, producer, "t-0", "t-1")
    with offline("t-1"):
        await again.services.topics.open_offline()
        with pytest.raises(TransactionError):
            await again.services.transactions.init("id", 60_000, None, by_operator=True)
        await again.services.transactions.finish()
        await look_again(again)
    assert outcomes(again, 0, 2) == [True, True]
    await again.close()


async def test_an_end_at_the_last_epoch_does_not_overtake_a_log_that_opens(tmp_path, monkeypatch):
    """Meanwhile it waits for the next producer id."""
    rig, producer = await opened_transaction(tmp_path)
    store = rig.services.transactions.store
    found = store.by_id["id"]
    found.epoch = producer.epoch = EPOCH_LAST
    assert (await producer.produce("t", 1)).error_code == 0
    store.log.append_if_late(found)
    add_unrecorded(rig, 0, producer)
    again = await restarted(rig, producer, "t-0")
    ids = again.services.producer_ids

    async def slow() -> int:
        await again.services.topics.open_offline()
        return 9_000

    monkeypatch.setattr(ids, "next", slow)
    assert await producer.end() == CONCURRENT
    monkeypatch.undo()
    await look_again(again)
    assert await producer.end() == 0
    assert outcomes(again, 0, 1) == [True, True]
    await again.close()


@pytest.mark.parametrize("is_commit", [True, False])
async def test_an_end_does_not_overtake_a_log_that_opens_before_it_is_decided(
    tmp_path, monkeypatch, is_commit
):
    """Meanwhile a commit waits for its data, or an end of many partitions for its turns."""
    monkeypatch.setattr(late_logs, "PATIENCE_SECONDS", 0)
    rig, producer = await opened_transaction(tmp_path, 1)
    add_unrecorded(rig, 0, producer)
    mark(rig, 0, producer, is_commit=not is_commit)
    again = await restarted(rig, producer, "t-0")
    writer = again.services.transactions.endings._writer
    look_at = writer.look_at

    async def slow(transaction, *, is_commit):
        places = await look_at(transaction, is_commit=is_commit)
        await again.services.topics.open_offline()
        return places

    monkeypatch.setattr(writer, "look_at", slow)
    assert await producer.end(is_commit=is_commit) == CONCURRENT
    await look_again(again)
    assert outcomes(again, 0, 1) == [not is_commit] * 2
    await again.close()


async def test_other_transactions_go_on(tmp_path):
    rig, producer = await opened_transaction(tmp_path, 0)
    again = await restarted(rig, producer, "t-0")
    other = await begin(again, "other")
    assert (await other.produce("t", 1)).error_code == 0
    assert await other.end() == 0
    await again.close()


async def test_what_no_id_owns_in_a_late_log_is_named(tmp_path, caplog):
    rig, producer = await opened_transaction(tmp_path)
    stranger = Transactor(rig)
    stranger.producer_id, stranger.epoch = 9_999, 0
    add_unrecorded(rig, 0, stranger)
    again = await restarted(rig, producer, "t-0")
    await look_again(again)
    await look_again(again)
    assert caplog.text.count("t-0: the transaction of producer 9999, epoch 0, is open") == 1
    await again.close()


async def test_a_late_log_waits_for_the_records_of_its_ids(tmp_path):
    """The log of the coordinator is offline for longer than it."""
    rig, producer = await opened_transaction(tmp_path, 0, 1)
    mark(rig, 0, producer)
    number = rig.services.transactions.store.log.number_of("id")
    of_ids = f"{TRANSACTION_TOPIC}-{number}"
    again = await restarted(rig, producer, "t-0", of_ids)
    with offline(of_ids):
        await look_again(again)
    await look_again(again)
    assert outcomes(again, 0, 1) == [True, True]
    await again.close()


async def test_an_id_that_went_over_to_a_new_producer_id_is_found(tmp_path):
    """Its decision at the last epoch was finished without the late log."""
    rig, producer = await opened_transaction(tmp_path)
    found = rig.services.transactions.store.by_id["id"]
    former = Transactor(rig)
    former.producer_id, former.epoch = 7_000, 32_766
    add_unrecorded(rig, 0, former)
    value = found.value_after(found.add_step({}, 1, 2))
    value.producer_epoch, value.previous_producer_id = 0, 7_000
    value.transaction_status, value.transaction_partitions = TransactionState.COMPLETE_COMMIT, []
    record = Record(0, 1, encode_key(TransactionKey(transactional_id="id")), encode_value(value))
    rig.services.transactions.store.log.partition(
        rig.services.transactions.store.log.number_of("id")
    ).log.append_own(build([record]), 1)
    again = await restarted(rig, producer, "t-0")
    await look_again(again)
    assert outcomes(again, 0) == [True]
    await again.close()


async def test_nothing_times_out_before_it_is_held_against_the_logs(tmp_path):
    rig, producer = await opened_transaction(tmp_path, 0)
    again = await restarted(rig, producer, "t-none")
    states = again.services.transactions.loading._states
    number = again.services.transactions.store.log.number_of("id")
    served, states[number] = states[number], ShardState.LOADING
    await time_out(again)
    assert outcomes(again, 0) == [None]
    states[number] = served
    await time_out(again)
    assert outcomes(again, 0) == [False]
    await again.close()


def put(rig, value):
    """Write a record of the id."""
    log = rig.services.transactions.store.log
    record = Record(0, 1, encode_key(TransactionKey(transactional_id="id")), encode_value(value))
    log.partition(log.number_of("id")).log.append_own(build([record]), 1)


async def test_a_later_stage_of_an_owed_decision_is_held_as_well(tmp_path):
    """Kafka left a commit at the epoch before. The next decision is in a late log alone."""
    rig, producer = await opened_transaction(tmp_path, 0)
    found = rig.services.transactions.store.by_id["id"]
    value = found.value_after(found.add_step({"t": [1]}, 1, 2))
    value.producer_epoch, value.transaction_partitions = 1, []
    value.transaction_status = TransactionState.COMPLETE_COMMIT
    put(rig, value)
    producer.epoch = 1
    for number in (1, 2):
        add_unrecorded(rig, number, producer)
    mark(rig, 2, producer)
    for partition in rig.services.partitions.all():
        rig.services.commit.flush_now(partition)
    await crash(rig)
    with offline("t-2"):
        again = producer.rig = rig_of(tmp_path)
    log_of(again, 0).failed = LogFailed("t-0", "on purpose")
    await load(again)
    assert state_of(again) is TransactionState.PREPARE_COMMIT
    await look_again(again)
    log_of(again, 0).failed = None
    await again.services.transactions.endings.retry()
    await again.services.transactions.finish()
    assert state_of(again) is TransactionState.ONGOING
    assert await producer.end(is_commit=False) == CONCURRENT
    await look_again(again)
    await look_again(again)
    assert outcomes(again, 0, 1, 2) == [True, True, True]
    assert set(again.services.transactions.store.open) == set()
    assert await producer.end() == 0, "it is asked again"
    await again.close()
