"""Transactions through a whole broker: what is answered, what is in the logs, what time ends."""

import asyncio
from unittest import mock

import pytest

from broker.metadata.topic_rules import TRANSACTION_TOPIC
from broker.transactions import timeouts
from broker.transactions.transaction import EPOCH_LAST
from broker.transactions.transaction_states import EndReason, TransactionState
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from storage.errors import AppendFailed, LogFailed
from tests.support import failures
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import ask, create
from tests.support.transaction_client import SETTINGS, begin

TV1 = 4  # versions of EndTxn
TV2 = 5


@pytest.fixture
async def rig(tmp_path):
    made = Rig(tmp_path / "data", **SETTINGS)
    yield made
    await made.close()


@pytest.fixture
async def producer(rig):
    made = await begin(rig)
    await create(rig, "a", 3)
    return made


def state_of(rig, transactional_id="t"):
    return rig.services.transactions.store.by_id[transactional_id]


def log_of(rig, topic="a", number=0):
    return rig.services.partitions.get(topic, number).log


def stable_end(rig, topic="a", number=0):
    log = log_of(rig, topic, number)
    return log.last_stable_offset, log.high_watermark


async def test_the_topic_is_kafkas(rig, producer):
    topic = rig.services.topics.by_name(TRANSACTION_TOPIC)
    assert len(topic.partitions) == 2
    configs = log_of(rig, TRANSACTION_TOPIC).config
    assert configs.cleanup_policy == ("compact",)
    assert configs.compression_type == "uncompressed"
    assert configs.segment_bytes == 100 * 1024 * 1024


@pytest.mark.parametrize("is_commit", [True, False])
async def test_readers_see_the_outcome_when_it_is_answered(rig, producer, is_commit):
    for number in (0, 1):
        assert not (await producer.produce("a", number)).error_code
        assert stable_end(rig, "a", number) == (0, 1)
    assert await producer.end(is_commit=is_commit) == 0
    assert producer.epoch == 1
    for number in (0, 1):
        assert stable_end(rig, "a", number) == (2, 2)
        assert log_of(rig, "a", number).durable_offset == 2
    assert stable_end(rig, "a", 2) == (0, 0)
    assert state_of(rig).last_end[:2] == (is_commit, EndReason.CLIENT)


async def test_an_older_client_adds_its_partitions_and_keeps_its_epoch(rig, producer):
    for _ in range(2):
        assert (await producer.produce(version=9)).error_code == ErrorCode.INVALID_TXN_STATE
        assert (await producer.produce(version=11)).error_code == ErrorCode.TRANSACTION_ABORTABLE
        assert await producer.add("a", [0, 1]) == [0, 0]
        assert not (await producer.produce(version=9)).error_code
        assert await producer.end(version=TV1) == 0
        assert producer.epoch == 0
        assert state_of(rig).state is TransactionState.COMPLETE_COMMIT
    assert stable_end(rig) == (4, 4)
    assert stable_end(rig, "a", 1) == (2, 2)  # a marker, without data before it


async def test_the_next_transaction_begins_at_once(rig, producer):
    """Also if its batches add the partition, and the end before was that of an older client."""
    for version in (TV2, TV1, TV2, TV1):
        for _ in range(5):
            assert not (await producer.produce()).error_code
            assert await producer.end(version=version) == 0


async def test_a_batch_waits_for_the_end_before_and_keeps_its_place(rig, producer):
    assert not (await producer.produce()).error_code
    ending = asyncio.create_task(producer.end(version=TV1))
    await asyncio.sleep(0)
    answers = [asyncio.create_task(producer.produce()) for _ in range(1)]
    assert await ending == 0
    assert [(await one).error_code for one in answers] == [0]
    assert await producer.end() == 0


async def test_batches_that_do_not_belong_to_the_transaction(rig, producer):
    assert (await producer.produce(is_named=False)).error_code == 53
    producer.epoch += 1
    assert (await producer.produce()).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    producer.epoch -= 1
    producer.producer_id += 1
    assert (await producer.produce()).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    producer.producer_id -= 1
    producer.transactional_id = ""
    assert (await producer.produce()).error_code == ErrorCode.INVALID_REQUEST
    producer.transactional_id = "unknown"
    assert (await producer.produce()).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert log_of(rig).end_offset == 0
    assert not rig.services.transactions.store.open


async def test_a_queued_batch_is_asked_again_at_its_turn(rig, producer):
    assert not (await producer.produce()).error_code
    appends = rig.services.appends
    with mock.patch.object(appends, "_must_wait", return_value=True):
        waiting = asyncio.create_task(producer.produce())
        await asyncio.sleep(0.01)
        ending = asyncio.create_task(producer.end())
        await asyncio.sleep(0.01)
        assert not ending.done()  # its marker waits behind the batch
    appends.drain()
    assert (await waiting).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert await ending == 0
    assert log_of(rig).end_offset == 2


async def test_a_new_instance_aborts_what_the_one_before_has_open(rig, producer):
    assert not (await producer.produce()).error_code
    other = await begin(rig, "other")
    other.transactional_id = "t"
    codes = [(await other.init()).error_code]
    while codes[-1] == ErrorCode.CONCURRENT_TRANSACTIONS:
        await asyncio.sleep(0.001)
        codes.append((await other.init()).error_code)
    assert codes[0] == ErrorCode.CONCURRENT_TRANSACTIONS
    assert codes[-1] == 0
    assert other.epoch == 2
    assert state_of(rig).last_end[:2] == (False, EndReason.FENCED)
    assert (await producer.produce()).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await producer.end() == ErrorCode.PRODUCER_FENCED
    assert stable_end(rig) == (2, 2)


async def test_time_ends_a_transaction_and_its_producer_goes_on(rig, producer):
    assert not (await producer.produce()).error_code
    transactions, metrics = rig.services.transactions, rig.services.metrics
    await timeouts.abort_late(transactions, metrics)
    assert state_of(rig).state is TransactionState.ONGOING
    state_of(rig).due_ns = 0
    await timeouts.abort_late(transactions, metrics)
    assert state_of(rig).state is TransactionState.COMPLETE_ABORT
    assert state_of(rig).last_end[:2] == (False, EndReason.TIMEOUT)
    assert metrics.transactions_timed_out == 1
    assert stable_end(rig) == (2, 2)
    assert (await producer.produce()).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await producer.end() == ErrorCode.INVALID_TXN_STATE
    assert (await producer.init(expected=(producer.producer_id, 0))).error_code == 0
    assert producer.epoch == 1
    assert not (await producer.produce()).error_code


async def test_an_unused_id_is_forgotten_and_comes_back_with_another_producer(rig, producer):
    before = producer.producer_id
    await begin(rig, "young")
    state_of(rig).updated_ms = 0
    await timeouts.expire_ids(rig.services.transactions, rig.services.metrics)
    assert list(rig.services.transactions.store.by_id) == ["young"]
    assert rig.services.metrics.transactional_ids_expired == 1
    answer = await producer.init(expected=(before, 0))
    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    assert answer.producer_id != before


@pytest.mark.parametrize("is_commit", [True, False])
async def test_the_last_epoch_hands_over_to_another_producer_id(rig, producer, is_commit):
    state_of(rig).epoch = producer.epoch = EPOCH_LAST
    before = producer.producer_id
    assert not (await producer.produce()).error_code
    assert await producer.end(is_commit=is_commit) == 0
    assert producer.producer_id != before
    assert producer.epoch == 0
    after = producer.producer_id
    producer.producer_id, producer.epoch = before, EPOCH_LAST
    assert await producer.end(is_commit=is_commit) == 0
    assert (producer.producer_id, producer.epoch) == (after, 0)
    assert not (await producer.produce()).error_code


@pytest.mark.parametrize(("version", "code"), [(TV2, 120), (4, 120), (3, 48)])
async def test_a_failed_log_refuses_a_commit_and_lets_an_abort_through(
    rig, producer, version, code
):
    await producer.add("a", [0, 1])
    assert not (await producer.produce()).error_code
    assert not (await producer.produce("a", 1)).error_code
    log_of(rig).failed = LogFailed("a-0", "fsync failed")
    assert await producer.end(version=version) == code
    assert state_of(rig).state is TransactionState.ONGOING
    assert await producer.end(is_commit=False, version=version) == 0
    assert stable_end(rig, "a", 1) == (2, 2)
    assert state_of(rig).state is TransactionState.PREPARE_ABORT  # a marker is owed
    assert rig.services.metrics.transactions_owed_now == 1
    await rig.services.transactions.endings.retry()
    assert state_of(rig).state is TransactionState.PREPARE_ABORT
    log_of(rig).failed = None
    await rig.services.transactions.endings.retry()
    assert state_of(rig).state is TransactionState.COMPLETE_ABORT
    assert rig.services.metrics.transactions_owed_now == 0


async def test_a_full_disk_changes_nothing(rig, producer):
    assert not (await producer.produce()).error_code
    no_room = AppendFailed("p", 0, OSError(28, "No space left on device"), rolled_back=True)
    for number in (0, 1):
        log = log_of(rig, TRANSACTION_TOPIC, number)
        with mock.patch.object(type(log), "append_own", side_effect=no_room):
            assert await producer.end() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert state_of(rig).state is TransactionState.ONGOING
    assert log_of(rig).end_offset == 1
    assert await producer.end() == 0


async def test_a_topic_that_is_deleted_does_not_hold_up_the_commit(rig, producer):
    await create(rig, "b")
    assert not (await producer.produce()).error_code
    assert not (await producer.produce("b")).error_code
    await rig.services.topics.delete("b")
    assert await producer.end() == 0
    assert state_of(rig).state is TransactionState.COMPLETE_COMMIT


async def test_data_that_nobody_waited_for_is_durable_before_the_decision(rig, producer):
    log = log_of(rig)
    assert not (await producer.produce(acks=1)).error_code
    prepared = []
    write = rig.services.transactions.store.write

    def watch(transaction, step):
        if step.state.is_prepared:
            prepared.append(log.durable_offset)
        write(transaction, step)

    with mock.patch.object(rig.services.transactions.store, "write", watch):
        assert await producer.end() == 0
    assert prepared == [1]


async def test_the_decision_of_an_older_client_is_durable_before_its_markers(rig, producer):
    await producer.add("a", [0])
    assert not (await producer.produce(version=9)).error_code
    log = log_of(rig)
    seen = []
    append_marker = type(log).append_marker

    def watch(self, marker, now_ms):
        seen.append(state_of(rig).written.is_durable)
        return append_marker(self, marker, now_ms)

    with mock.patch.object(type(log), "append_marker", watch):
        assert await producer.end(version=TV1) == 0
        await producer.produce()
        assert await producer.end() == 0
    assert seen == [True, False]  # with TV2, side by side


async def test_complete_is_written_after_the_last_marker_is_durable(rig, producer):
    for number in range(3):
        assert not (await producer.produce("a", number)).error_code
    completed = []
    complete = rig.services.transactions.store.complete

    def watch(transaction, step):
        completed.append([log_of(rig, "a", number).durable_offset for number in range(3)])
        complete(transaction, step)

    with mock.patch.object(rig.services.transactions.store, "complete", watch):
        assert await producer.end() == 0
    assert completed == [[2, 2, 2]]


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
async def test_a_timeout_out_of_bounds_is_refused(producer, timeout_ms):
    answer = await producer.init(timeout_ms=timeout_ms)
    assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


async def test_before_the_topic_exists_nobody_coordinates(rig):
    from tests.support.transaction_client import Transactor

    answer = await Transactor(rig).init()
    assert answer.error_code == ErrorCode.NOT_COORDINATOR


async def test_the_number_of_ids_is_bounded(tmp_path):
    rig = Rig(tmp_path / "data", barnabas_transactional_ids_max="1", **SETTINGS)
    first = await begin(rig, "one")
    second = type(first)(rig, "two")
    assert (await second.init()).error_code == ErrorCode.POLICY_VIOLATION
    assert rig.services.metrics.transactional_ids_refused == 1
    assert (await first.init()).error_code == 0
    await rig.close()


async def test_a_producer_without_its_log_is_told_to_ask_again(rig, producer):
    for number in (0, 1):
        log_of(rig, TRANSACTION_TOPIC, number).failed = LogFailed("p", "fsync failed")
    assert (await producer.init()).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (await producer.produce()).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert not rig.services.transactions.is_available("t")
    for number in (0, 1):
        log_of(rig, TRANSACTION_TOPIC, number).failed = None


async def test_an_unexpected_failure_of_an_abort_ends_nothing_else(rig, producer, monkeypatch):
    assert not (await producer.produce()).error_code
    endings = rig.services.transactions.endings
    with mock.patch.object(endings, "end", side_effect=ZeroDivisionError):
        assert (await producer.init()).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        await rig.services.transactions.finish()
    assert len(failures.take()) == 1
    assert await producer.end() == 0


async def test_the_topic_neither_grows_nor_goes(rig, producer):
    grown = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name=TRANSACTION_TOPIC, count=9, assignments=None),
            CreatePartitionsTopic(name="a", count=4, assignments=None),
        ],
        timeout_ms=5_000,
        validate_only=False,
    )
    answer = await ask(rig, grown, 3)
    codes = {one.name: one.error_code for one in answer.results}
    assert codes == {TRANSACTION_TOPIC: ErrorCode.INVALID_REQUEST, "a": 0}
    body = DeleteTopicsRequest(topic_names=[TRANSACTION_TOPIC], timeout_ms=5_000)
    (deleted,) = (await ask(rig, body, 5)).responses
    assert deleted.error_code == ErrorCode.INVALID_REQUEST
    assert not (await producer.produce()).error_code


async def test_the_partitions_of_one_request_join_in_one_record(rig, producer):
    before = sum(log_of(rig, TRANSACTION_TOPIC, number).end_offset for number in (0, 1))
    records = [
        batch(
            b"x",
            producer_id=producer.producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        for _ in range(4)
    ]
    data = [PartitionProduceData(index=number, records=one) for number, one in enumerate(records)]
    body = ProduceRequest(
        transactional_id="t",
        acks=-1,
        timeout_ms=5_000,
        topic_data=[TopicProduceData(name="a", partition_data=data)],
    )
    answers = (await rig.call(body, 12)).responses[0].partition_responses
    assert [one.error_code for one in answers] == [0, 0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert list(state_of(rig).places()) == [("a", 0), ("a", 1), ("a", 2)]
    late = rig.services.transactions.store.log.late
    async with asyncio.timeout(20):
        while late.count:
            await asyncio.sleep(0.01)
    after = sum(log_of(rig, TRANSACTION_TOPIC, number).end_offset for number in (0, 1))
    assert after == before + 1


async def test_without_the_next_producer_id_the_last_epoch_does_not_end(rig, producer):
    state_of(rig).epoch = producer.epoch = EPOCH_LAST
    assert not (await producer.produce()).error_code
    failed = LogFailed("__cluster_metadata-0", "fsync failed")
    with mock.patch.object(rig.services.producer_ids, "next", side_effect=failed):
        assert await producer.end() == ErrorCode.COORDINATOR_NOT_AVAILABLE
        state_of(rig).started_ms = 0
        await timeouts.abort_late(rig.services.transactions, rig.services.metrics)
    assert state_of(rig).state is TransactionState.ONGOING
    assert await producer.end() == 0
