"""Ends of transactions at odds: with old clients, long ids, and logs that are stuck or offline."""

import asyncio
from unittest import mock

import pytest

from broker.metadata.image import CONFIG_TOPIC
from broker.metadata.topic_rules import GROUP_TOPIC, TRANSACTION_TOPIC
from broker.runtime.clock import MS_NS
from broker.transactions import endings, timeouts
from broker.transactions.state_log import DURABLE_TIMEOUT_MS
from broker.transactions.transaction import EPOCH_LAST
from broker.transactions.transaction_errors import TransactionError
from broker.transactions.transaction_states import TransactionState
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from storage.errors import LogFailed
from tests.support.broker_rig import Rig
from tests.support.rig_client import ask, create
from tests.support.transaction_client import SETTINGS, Transactor, begin

TV1 = 4  # a version of EndTxn


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


def log_of(rig, number, topic="a"):
    return rig.services.partitions.get(topic, number).log


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


def is_aborted(rig, transactional_id):
    return state_of(rig, transactional_id).state is TransactionState.COMPLETE_ABORT


async def test_an_older_client_that_comes_during_an_end_is_told_to_retry(rig, producer):
    """CONCURRENT_TRANSACTIONS would be fatal for it; Kafka answers the same."""
    assert await producer.add("a", [0, 1]) == [0, 0]
    assert not (await producer.produce(version=9)).error_code
    with mock.patch.object(rig.services.appends, "_must_wait", return_value=True):
        ending = asyncio.create_task(producer.end(version=TV1))
        await asyncio.sleep(0.01)
        transactions = rig.services.transactions
        asked = "t", producer.producer_id, producer.epoch
        codes = [
            transactions.admit(*asked, topic, 0, version)
            for topic, version in [("a", 11), ("a", 12), (GROUP_TOPIC, 4), (GROUP_TOPIC, 5)]
        ]
    assert codes == [
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    ]
    rig.services.appends.drain()
    assert await ending == 0


async def test_instances_that_come_together_abort_once_and_complain_of_nothing(
    rig, producer, caplog
):
    assert not (await producer.produce()).error_code
    rivals = [Transactor(rig) for _ in range(3)]
    answers = await asyncio.gather(*(one.init() for one in rivals))
    assert {one.error_code for one in answers} == {ErrorCode.CONCURRENT_TRANSACTIONS}
    await rig.services.transactions.finish()
    assert is_aborted(rig, "t")
    assert rig.services.metrics.transactions_aborted == 1
    assert not caplog.records


async def test_ids_of_any_length_are_forgotten(rig, producer):
    """The tombstones of many long ones do not fit into one batch."""
    for number in range(100):
        await begin(rig, f"{number:03}" + "x" * 30_000)
    store = rig.services.transactions.store
    for transaction in store.by_id.values():
        transaction.updated_ms = 0
    await timeouts.expire_ids(rig.services.transactions, rig.services.metrics)
    assert not store.by_id
    assert rig.services.metrics.transactional_ids_expired == 101


async def test_requests_that_wait_for_an_end_wait_side_by_side(rig, producer, monkeypatch):
    """Not one after the other: a hundred would otherwise wait for ten seconds."""
    assert not (await producer.produce()).error_code
    transactions = rig.services.transactions
    waited = []

    async def until_free(_, seconds):
        waited.append(seconds)
        await asyncio.sleep(seconds)

    monkeypatch.setattr(transactions.endings, "until_free", until_free)
    with mock.patch.object(rig.services.appends, "_must_wait", return_value=True):
        ending = asyncio.create_task(producer.end())
        await until(lambda: state_of(rig).is_ending)
        await asyncio.gather(*(transactions.line_up("t") for _ in range(5)))
    assert len(waited) == 5
    assert max(waited[1:]) < waited[0]
    assert sum(waited) < 2 * waited[0]
    rig.services.appends.drain()
    assert await ending == 0


async def test_requests_that_wait_for_a_stuck_disk_wait_side_by_side(rig, producer, monkeypatch):
    """An implicit add after TV1 waits for a record; five of them for no longer than one."""
    assert await producer.add("a", [0]) == [0]
    assert not (await producer.produce(version=9)).error_code
    assert await producer.end(version=4) == 0
    transactions = rig.services.transactions
    clock = mock.Mock(wraps=rig.services.clock)
    passed_ms = [0]
    clock.monotonic_ns = lambda: passed_ms[0] * MS_NS
    waited = []

    async def durable(_, timeout_ms):
        waited.append(timeout_ms)
        await asyncio.sleep(0)
        passed_ms[0] += timeout_ms
        raise TransactionError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    monkeypatch.setattr(transactions, "clock", clock)
    monkeypatch.setattr(transactions.store.log, "durable", durable)
    await asyncio.gather(*(transactions.line_up("t") for _ in range(5)))
    assert waited == [DURABLE_TIMEOUT_MS]
    assert not transactions.waiting_count


def stuck(rig, number):
    """One log does not take appends now: its disk does not answer."""
    partition = rig.services.partitions.get("a", number)
    return mock.patch.object(rig.services.appends, "_must_wait", lambda one: one is partition)


async def test_a_stuck_log_holds_up_no_other_timeout(rig, producer, monkeypatch):
    monkeypatch.setattr(endings, "WAIT_SECONDS", 0.01)
    other = await begin(rig, "other")
    assert not (await producer.produce("a", 0)).error_code
    assert not (await other.produce("a", 1)).error_code
    transactions, metrics = rig.services.transactions, rig.services.metrics
    with stuck(rig, 0):
        for name in ("t", "other"):
            state_of(rig, name).due_ns = 0
            await asyncio.wait_for(timeouts.abort_late(transactions, metrics), 5)
        await until(lambda: is_aborted(rig, "other"))
        assert state_of(rig).state is TransactionState.PREPARE_ABORT
    rig.services.appends.drain()
    await transactions.finish()
    assert is_aborted(rig, "t")
    assert metrics.transactions_timed_out == 2


async def test_a_stuck_log_holds_up_no_other_marker_that_is_owed(rig, producer, monkeypatch):
    monkeypatch.setattr(endings, "WAIT_SECONDS", 0.01)
    monkeypatch.setattr(endings, "OWED_AT_A_TIME", 1)
    other = await begin(rig, "other")
    for number, one in enumerate((producer, other)):
        assert not (await one.produce("a", number)).error_code
        log_of(rig, number).failed = LogFailed("a", "fsync failed")
        assert await one.end(is_commit=False) == 0
        log_of(rig, number).failed = None
    transactions = rig.services.transactions
    with stuck(rig, 0):
        await asyncio.wait_for(transactions.endings.retry(), 5)
        await until(lambda: is_aborted(rig, "other"))
        assert state_of(rig).state is TransactionState.PREPARE_ABORT
    rig.services.appends.drain()
    await transactions.finish()
    assert is_aborted(rig, "t")


async def test_an_end_costs_the_same_however_many_others_are_owed(rig, producer):
    class Unlisted(dict):
        def __iter__(self):
            raise AssertionError("all of them were looked at")

    rig.services.transactions.endings._markers = Unlisted()
    assert not (await producer.produce()).error_code
    assert await producer.end() == 0
    assert rig.services.metrics.transactions_owed_now == 0
    rig.services.transactions.endings._markers = {}


async def test_no_marker_comes_into_the_log_of_the_transactions(rig, producer):
    answer = await producer.produce(TRANSACTION_TOPIC, 0)
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert state_of(rig).state is TransactionState.EMPTY
    asked = AddPartitionsToTxnTransaction(
        transactional_id="t",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[AddPartitionsToTxnTopic(name=TRANSACTION_TOPIC, partitions=[0])],
    )
    added = await ask(rig, AddPartitionsToTxnRequest(transactions=[asked]), 5)
    (topic,) = added.results_by_transaction[0].topic_results
    code = topic.results_by_partition[0].partition_error_code
    assert code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert state_of(rig).state is TransactionState.EMPTY


async def bound(rig, size):
    """Set how large a batch of `__transaction_state` may be."""
    log = log_of(rig, 0, TRANSACTION_TOPIC)
    config = AlterableConfig(name="max.message.bytes", config_operation=0, value=str(size))
    topic = AlterConfigsResource(
        resource_type=CONFIG_TOPIC, resource_name=TRANSACTION_TOPIC, configs=[config]
    )
    body = IncrementalAlterConfigsRequest(resources=[topic])
    (answer,) = (await ask(rig, body, 1)).responses
    assert answer.error_code == 0
    assert log.config.max_message_bytes == size


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("epoch", [0, EPOCH_LAST])
async def test_a_transaction_takes_no_more_partitions_than_it_can_end(
    rig, producer, epoch, is_commit
):
    """Its last record is larger by the producer id that follows."""
    await create(rig, "many", 40)
    for size in range(240, 244):  # a partition takes four bytes
        state_of(rig).epoch = producer.epoch = epoch
        await bound(rig, size)
        number = 0
        while (code := (await producer.add("many", [number]))[0]) == 0:
            number += 1
        assert code == ErrorCode.UNKNOWN_SERVER_ERROR
        answer = await producer.produce("many", number)
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert await producer.end(is_commit=is_commit) == 0
    assert rig.services.metrics.transactions_too_large > 0


@pytest.mark.parametrize("version", [TV1, 5])
async def test_what_was_admitted_ends_under_any_bound(rig, producer, version):
    assert await producer.add("a", [0, 1]) == [0, 0]
    await bound(rig, 100)
    assert await producer.end(version=version) == 0
    assert state_of(rig).state is TransactionState.COMPLETE_COMMIT
    assert (await producer.init()).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


async def test_that_a_transaction_cannot_be_aborted_is_said_once(rig, producer, caplog):
    assert not (await producer.produce()).error_code
    for number in (0, 1):
        log_of(rig, number, TRANSACTION_TOPIC).failed = LogFailed("p", "fsync failed")
    for _ in range(3):
        state_of(rig).started_ms = 0
        await timeouts.abort_late(rig.services.transactions, rig.services.metrics)
    assert caplog.text.count("has timed out, and is not aborted yet") == 1
    for number in (0, 1):
        log_of(rig, number, TRANSACTION_TOPIC).failed = None
    await timeouts.abort_late(rig.services.transactions, rig.services.metrics)
    assert is_aborted(rig, "t")
    assert not rig.services.transactions.store._named, "the next one is news"


@pytest.mark.parametrize("version", [TV1, 5])
async def test_a_stop_during_an_end_is_clean_and_the_next_start_goes_on(tmp_path, version):
    """A stop that is told twice does not wait for the flushes of the end: it makes its own."""
    rig = Rig(tmp_path / "data", **SETTINGS)
    producer = await begin(rig)
    await create(rig, "a", 2)
    assert await producer.add("a", [0, 1]) == [0, 0]
    assert not (await producer.produce("a", 0)).error_code

    def refuse(places, done):
        done([ErrorCode.COORDINATOR_NOT_AVAILABLE] * len(places))

    rig.services.commit.durable_together = refuse
    assert await producer.end(version=version) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert state_of(rig).state is TransactionState.PREPARE_COMMIT
    assert log_of(rig, 0).unsettled_from == 1
    assert await rig.close()
    again = Rig(tmp_path / "data", **SETTINGS)
    await again.services.transactions.loading.load()
    assert state_of(again).state is TransactionState.COMPLETE_COMMIT
    assert [log_of(again, number).end_offset for number in (0, 1)] == [2, 1]
    assert log_of(again, 0).last_stable_offset == 2
    assert not log_of(again, 0).aborted(0, 2)
    await again.close()


async def test_without_a_new_producer_id_a_producer_is_told_to_ask_again(rig, producer):
    """Clients end for other errors of the disk."""
    other = Transactor(rig, "other")
    failed = LogFailed("metadata", "fsync failed")
    with mock.patch.object(rig.services.producer_ids, "next", side_effect=failed):
        assert (await other.init()).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        state_of(rig).epoch = EPOCH_LAST
        assert (await producer.init()).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (await other.init()).error_code == 0
    assert (await producer.init()).error_code == 0
