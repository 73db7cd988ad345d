"""Loading: no id is served before all are judged; a partition that cannot be read is refused."""

import asyncio
import errno

import pytest

from broker.metadata.topic_rules import TRANSACTION_TOPIC
from broker.transactions import endings, transaction_loading
from broker.transactions.transaction import Transaction
from broker.transactions.transaction_errors import TransactionError
from broker.transactions.transaction_states import TransactionState
from protocol.errors import ErrorCode
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from protocol.record_batch import HEADER_SIZE, write_crc
from protocol.record_errors import InvalidRecord
from protocol.records import Record, build
from protocol.transaction_records import (
    TransactionPartitions,
)
from storage.errors import LogFailed
from storage.flush import Flush
from storage.opening.log_loading import load_log
from tests.support.broker_rig import Rig
from tests.support.laid_transactions import close_data, died, loaded, open_data, put, value
from tests.support.rig_client import ask, crash, create
from tests.support.transaction_client import SETTINGS, begin

NOT_COORDINATOR, LOADING = ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
A, B = "a", "b"  # in partitions 1 and 0 of two


def rig_of(directory):
    return Rig(directory, **SETTINGS)


@pytest.fixture
async def directory(tmp_path):
    """A directory with an id in each partition, and a topic."""
    rig = rig_of(tmp_path)
    for name in (A, B):
        await begin(rig, name)
    assert [rig.services.transactions.store.log.number_of(name) for name in (A, B)] == [1, 0]
    await create(rig, "t", 2)
    await rig.close()
    return tmp_path


def code_of(rig, name):
    try:
        found = rig.services.transactions.find(name)
    except TransactionError as error:
        return error.code
    return None if found is None else ErrorCode.NONE


async def test_requests_are_refused_until_all_are_loaded(directory):
    rig = rig_of(directory)
    assert [code_of(rig, name) for name in (A, B, "new")] == [LOADING] * 3
    with pytest.raises(TransactionError) as refused:
        list(rig.services.transactions.all())
    assert refused.value.code == LOADING
    await loaded(rig)
    assert [code_of(rig, name) for name in (A, B, "new")] == [0, 0, None]
    assert {one.transactional_id for one in rig.services.transactions.all()} == {A, B}
    await rig.close()


async def test_undecodable_records_fail_only_their_partition(directory, caplog):
    rig = rig_of(directory)
    await loaded(rig)
    torn = build([Record(0, 1, b"key", b"value")])
    torn[HEADER_SIZE:] = b"\xff" * (len(torn) - HEADER_SIZE)
    write_crc(torn, 0)
    rig.services.partitions.get(TRANSACTION_TOPIC, 0).log.append_own(torn, 1)
    await rig.close()
    again = rig_of(directory)
    await loaded(again)
    assert [code_of(again, name) for name in (A, B)] == [0, NOT_COORDINATOR]
    assert "transactions of __transaction_state-0 are not loaded" in caplog.text
    assert [one.transactional_id for one in again.services.transactions.all()] == [A]
    again.services.transactions.look_again()
    assert code_of(again, B) == NOT_COORDINATOR, "until a restart"
    await again.close()


async def test_a_partition_that_the_disk_does_not_give_is_tried_again(directory, caplog):
    rig = rig_of(directory)
    log = rig.services.partitions.get(TRANSACTION_TOPIC, 0).log
    log.failed = LogFailed("b", "on purpose")
    for _ in range(2):
        await loaded(rig)
        assert [code_of(rig, name) for name in (A, B)] == [0, NOT_COORDINATOR]
        rig.services.transactions.look_again()
        assert code_of(rig, B) == LOADING
    assert caplog.text.count("are not loaded") == 1
    log.failed = None
    await loaded(rig)
    assert [code_of(rig, name) for name in (A, B)] == [0, 0]
    await rig.close()


async def test_an_unexpected_error_refuses_only_its_partition(directory, monkeypatch, caplog):
    def fails(found):
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(transaction_loading, "_read", fails)
    rig = rig_of(directory)
    await loaded(rig)
    assert [code_of(rig, name) for name in (A, B)] == [NOT_COORDINATOR] * 2
    assert "on purpose" in caplog.text
    await rig.close()


async def test_a_record_in_another_partition_counts_if_it_is_newer(directory):
    """The topic was given more partitions by hand."""
    rig = rig_of(directory)
    await loaded(rig)
    put(rig, A, value(TransactionState.EMPTY, 9), number=0)
    put(rig, "moved", value(TransactionState.EMPTY, 3, pid=7_001), number=0)
    await rig.close()
    again = rig_of(directory)
    await loaded(again)
    assert again.services.transactions.find(A).epoch == 9
    assert again.services.transactions.find("moved").producer_id == 7_001
    await again.close()


async def test_markers_are_kept_until_what_they_say_is_durable(directory):
    """Else a second crash would find neither the marker nor its decision."""
    rig = rig_of(directory)
    await loaded(rig)
    put(rig, A, value(TransactionState.ONGOING, 5))
    open_data(rig, 0, 5)
    close_data(rig, 0, 6, True)
    open_data(rig, 1, 5)
    await died(rig)
    again = rig_of(directory)
    log = again.services.partitions.get("t", 0).log
    assert log.checkpointable_offset == 1, "below the marker"
    await loaded(again)
    assert log.checkpointable_offset == 2
    found = again.services.transactions.find(A)
    assert (found.state, found.epoch) == (TransactionState.COMPLETE_COMMIT, 6)
    other = again.services.partitions.get("t", 1).log
    assert other.open_transactions() == []
    assert other.last_stable_offset == other.end_offset == 2
    await again.close()


async def test_what_kafka_left_is_ended_as_decided(directory):
    rig = rig_of(directory)
    await loaded(rig)
    put(rig, A, value(TransactionState.COMPLETE_COMMIT, 6))
    open_data(rig, 1, 5)
    await rig.close()
    again = rig_of(directory)
    await loaded(again)
    assert again.services.partitions.get("t", 1).log.open_transactions() == []
    assert again.services.transactions.find(A).state is TransactionState.COMPLETE_COMMIT
    await again.close()


async def test_a_decision_is_finished_before_the_transaction_after_it_goes_on(directory):
    rig = rig_of(directory)
    await loaded(rig)
    put(rig, A, value(TransactionState.COMPLETE_ABORT, 6))
    open_data(rig, 0, 5)
    open_data(rig, 1, 6)
    await rig.close()
    again = rig_of(directory)
    await loaded(again)
    first, second = (again.services.partitions.get("t", number).log for number in (0, 1))
    assert first.open_transactions() == []
    assert len(second.open_transactions()) == 1
    found = again.services.transactions.find(A)
    assert (found.state, list(found.places())) == (TransactionState.ONGOING, [("t", 1)])
    assert found in again.services.transactions.store.open, "it may time out"
    await again.close()


async def test_a_transaction_goes_on_once_the_decision_before_it_is_finished(
    directory, monkeypatch
):
    """A partition was offline at the start. Its marker is owed by then, and data come after it."""
    rig = rig_of(directory)
    await loaded(rig)
    stored = value(TransactionState.PREPARE_COMMIT, 6)
    stored.transaction_partitions = [TransactionPartitions(topic="t", partition_ids=[0, 1])]
    put(rig, A, stored)
    for number in (0, 1):
        open_data(rig, number, 5)
        close_data(rig, number, 6, True)
    open_data(rig, 0, 6)
    await died(rig)
    is_gone = True

    def load(home, known, *rest):
        if is_gone and (known.topic, known.partition) == ("t", 1):
            raise OSError(5, "Input/output error")
        return load_log(home, known, *rest)

    monkeypatch.setattr("storage.opening.log_opening.load_log", load)
    again = rig_of(directory)
    await loaded(again)
    transactions = again.services.transactions
    assert transactions.find(A).state is TransactionState.PREPARE_COMMIT
    is_gone = False
    await again.services.topics.open_offline()
    await transactions.endings.retry()
    await loaded(again)  # as every second: t-1 knows of nothing more
    found = transactions.find(A)
    assert (found.state, list(found.places())) == (TransactionState.ONGOING, [("t", 0)])
    assert await transactions.end(A, 7_000, 6, is_commit=True, version=5) == (7_000, 7)
    log = again.services.partitions.get("t", 0).log
    assert log.last_stable_offset == log.end_offset == 4
    await again.close()


async def test_a_stuck_log_keeps_no_other_id_from_being_served(directory, monkeypatch):
    monkeypatch.setattr(endings, "WAIT_SECONDS", 0.01)
    rig = rig_of(directory)
    await loaded(rig)
    put(rig, A, value(TransactionState.PREPARE_COMMIT, 6))
    open_data(rig, 1, 5)
    await rig.close()
    again = rig_of(directory)
    stuck = again.services.partitions.get("t", 1)
    with monkeypatch.context() as disk:
        disk.setattr(again.services.appends, "_must_wait", lambda one: one is stuck)
        await asyncio.wait_for(loaded(again), 5)
        assert code_of(again, B) == ErrorCode.NONE
        assert again.services.transactions.find(A).is_busy
    again.services.appends.drain()
    await again.services.transactions.finish()
    assert again.services.transactions.find(A).state is TransactionState.COMPLETE_COMMIT
    await again.close()


@pytest.mark.parametrize(
    ("version", "data_epoch", "is_ended"), [(2, 5, True), (2, 6, False), (0, 6, True)]
)
async def test_a_marker_that_was_owed_ends_only_its_own_transaction(
    directory, version, data_epoch, is_ended
):
    """The partition was offline at the start, and has data of the next transaction by then."""
    rig = rig_of(directory)
    await loaded(rig)
    transactions = rig.services.transactions
    stored = value(TransactionState.PREPARE_COMMIT, 6, version=version)
    owed = Transaction.of_value("owed", stored)
    transactions.store.put(owed)
    open_data(rig, 1, data_epoch)
    await transactions.endings.resume(owed, [("t", 1)])
    assert owed.state is TransactionState.COMPLETE_COMMIT
    log = rig.services.partitions.get("t", 1).log
    assert (log.open_transactions() == []) == is_ended
    await rig.close()


@pytest.mark.parametrize("version", [0, 2])
async def test_a_marker_that_the_disk_has_lost_is_owed_also_after_a_start(
    directory, monkeypatch, version
):
    """The log that has failed knows the marker, and the disk does not."""
    rig = rig_of(directory)
    await loaded(rig)
    data_epoch = 5 if version else 6
    stored = value(TransactionState.PREPARE_COMMIT, 6, version=version)
    stored.transaction_partitions = [TransactionPartitions(topic="t", partition_ids=[1])]
    put(rig, A, stored)
    open_data(rig, 1, data_epoch)
    await died(rig)
    again = rig_of(directory)
    run = Flush.run

    def fail(flush):
        if any("/t-1/" in file.path for file in flush._files):
            raise OSError(errno.EIO, "Input/output error")
        run(flush)

    with monkeypatch.context() as disk:
        disk.setattr(Flush, "run", fail)
        disk.setattr(Flush, "only_file", None)
        await loaded(again)
        transactions = again.services.transactions
        for _ in range(2):
            assert again.services.partitions.get("t", 1).log.failed is not None
            assert transactions.find(A).state is TransactionState.PREPARE_COMMIT
            await transactions.endings.retry()
    await crash(again)
    healed = rig_of(directory)
    await loaded(healed)
    assert healed.services.transactions.find(A).state is TransactionState.COMPLETE_COMMIT
    assert healed.services.partitions.get("t", 1).log.open_transactions() == []
    await healed.close()


async def test_a_decision_that_uses_up_the_producer_id_gets_the_next_one(directory):
    rig = rig_of(directory)
    await loaded(rig)
    put(rig, A, value(TransactionState.ONGOING, 32_766))
    open_data(rig, 0, 32_766)
    close_data(rig, 0, 32_767, True)
    await died(rig)
    again = rig_of(directory)
    await loaded(again)
    found = again.services.transactions.find(A)
    assert (found.state, found.epoch) == (TransactionState.COMPLETE_COMMIT, 0)
    assert found.producer_id != 7_000
    assert found.previous_producer_id == 7_000
    await again.close()


async def test_what_no_rule_ends_is_named_and_stays_open(directory, caplog):
    rig = rig_of(directory)
    await loaded(rig)
    put(rig, A, value(TransactionState.COMPLETE_COMMIT, 5, version=0))
    open_data(rig, 0, 5)
    open_data(rig, 1, 3, pid=9_999)
    await rig.close()
    caplog.clear()
    again = rig_of(directory)
    await loaded(again)
    assert "t-0: the transaction of producer 7000, epoch 5, is open from offset 0" in caplog.text
    assert "t-1: the transaction of producer 9999, epoch 3, is open from offset 0" in caplog.text
    assert len(again.services.partitions.get("t", 0).log.open_transactions()) == 1
    assert again.services.transactions.find(A).is_exhausted, "the next producer gets another id"
    await again.close()


async def test_a_decision_that_cannot_be_written_is_found_again(directory, caplog, monkeypatch):
    rig = rig_of(directory)
    await loaded(rig)
    put(rig, A, value(TransactionState.ONGOING, 5))
    open_data(rig, 0, 5)
    close_data(rig, 0, 6, True)
    await died(rig)
    again = rig_of(directory)
    store = again.services.transactions.store

    def refuse(name, stage, **_):
        raise TransactionError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "on purpose")

    monkeypatch.setattr(store.log, "append", refuse)
    await loaded(again)
    assert "is not written yet. If the broker stops before, the next start" in caplog.text
    assert "on purpose" in caplog.text
    assert again.services.partitions.get("t", 0).log.checkpointable_offset == 1
    monkeypatch.undo()
    await again.close()
    third = rig_of(directory)
    await loaded(third)
    assert third.services.transactions.find(A).state is TransactionState.COMPLETE_COMMIT
    await third.close()


async def test_to_look_again_asks_nothing_of_ids_that_are_served(directory, monkeypatch, caplog):
    """It happens every second while a log is offline: for 100,000 ids it took half a second."""
    rig = rig_of(directory)
    await loaded(rig)
    put(rig, A, value(TransactionState.COMPLETE_COMMIT, 5, version=0))
    open_data(rig, 0, 5)
    await rig.close()
    again = rig_of(directory)
    loading, store = again.services.transactions.loading, again.services.transactions.store
    loading._adoption._deciding.add(A)  # the markers are kept for the next start
    await loaded(again)
    await begin(again, "new")
    caplog.clear()
    asked: list[object] = []
    monkeypatch.setattr(store.log, "durable", asked.append)
    await loaded(again)
    assert asked == []
    assert "is open from offset" not in caplog.text, "it was named"
    await again.close()


async def test_the_stop_of_the_broker_ends_the_load(directory):
    rig = rig_of(directory)
    await asyncio.sleep(0)
    await rig.services.transactions.finish()
    await rig.close()


async def test_nothing_is_loaded_again_once_the_broker_stops(directory, monkeypatch):
    rig = rig_of(directory)
    transactions = rig.services.transactions
    transactions.stop()
    transactions.stop_loading()
    transactions.look_again()
    assert transactions.loading._task is None
    await rig.close()


async def test_others_run_between_many_ids(directory, monkeypatch):
    from broker.transactions import adoption

    monkeypatch.setattr(adoption, "IDS_PER_TURN", 1)
    monkeypatch.setattr(transaction_loading, "LOGS_PER_TURN", 1)
    rig = rig_of(directory)
    await loaded(rig)
    assert all(isinstance(one, Transaction) for one in rig.services.transactions.all())
    await rig.close()


async def marked(rig, pid, epoch):
    """Return the code of an abort by hand in t-0."""
    wanted = WritableTxnMarker(
        producer_id=pid,
        producer_epoch=epoch,
        transaction_result=False,
        coordinator_epoch=0,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
    )
    answer = await ask(rig, WriteTxnMarkersRequest(markers=[wanted]), 2)
    return answer.markers[0].topics[0].partitions[0].error_code


async def test_no_hand_marker_tears_what_belongs_to_an_id_that_cannot_be_read(directory):
    rig = rig_of(directory)
    await loaded(rig)
    put(rig, A, value(TransactionState.ONGOING, 5))
    put(rig, B, value(TransactionState.EMPTY, 5, pid=8_000))
    open_data(rig, 0, 5)
    await rig.close()
    again = rig_of(directory)
    log = again.services.partitions.get(TRANSACTION_TOPIC, 1).log
    log.failed = LogFailed("a", "on purpose")
    await loaded(again)
    assert await marked(again, 7_000, 5) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await marked(again, 8_000, 5) == ErrorCode.NONE, "its id is known, and has nothing open"
    log.failed = None
    again.services.transactions.look_again()
    await loaded(again)
    assert await marked(again, 7_000, 5) == ErrorCode.NONE
    assert again.services.transactions.find(A).state is TransactionState.COMPLETE_ABORT, "the whole"
    await again.close()


async def test_markers_are_kept_for_ids_that_are_damaged(directory, monkeypatch, caplog):
    """A repair may bring the ids back, and their decisions are in these markers alone."""
    rig = rig_of(directory)
    await loaded(rig)
    put(rig, A, value(TransactionState.ONGOING, 5))
    for number in (0, 1):
        open_data(rig, number, 5)
    close_data(rig, 0, 6, True)
    await died(rig)

    def damaged(found):
        raise InvalidRecord("on purpose")

    with monkeypatch.context() as during:
        during.setattr(transaction_loading, "_read", damaged)
        again = rig_of(directory)
        for _ in range(2):
            await loaded(again)
            again.services.transactions.look_again()
        assert code_of(again, A) == NOT_COORDINATOR
        assert again.services.metrics.logs_kept_for_transactions_now == 1
        assert caplog.text.count("1 logs keep the markers") == 1
        assert not await again.close(), "the next start recovers"
    repaired = rig_of(directory)
    await loaded(repaired)
    assert repaired.services.transactions.find(A).state is TransactionState.COMPLETE_COMMIT
    logs = [repaired.services.partitions.get("t", number).log for number in (0, 1)]
    assert [log.aborted(0, 9) for log in logs] == [[], []]
    assert [log.last_stable_offset for log in logs] == [2, 2]
    assert repaired.services.metrics.logs_kept_for_transactions_now == 0
    await repaired.close()
