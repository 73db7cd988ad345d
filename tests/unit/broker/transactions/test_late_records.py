"""The records that come later, or never, since nothing rests on them: Complete and Ongoing."""

import asyncio

import pytest

from broker.metadata.topic_rules import TRANSACTION_TOPIC
from broker.transactions.late_records import RECORDS_PER_TURN, LateRecords
from broker.transactions.state_replay import read_states
from broker.transactions.transaction import EPOCH_LAST, Transaction
from broker.transactions.transaction_errors import TransactionError
from broker.transactions.transaction_states import TransactionState
from broker.transactions.transaction_store import LATE_PLACES_MAX
from protocol.errors import ErrorCode
from storage.errors import AppendFailed
from storage.log import Log
from tests.support.broker_rig import Rig
from tests.support.rig_client import crash, create
from tests.support.transaction_client import SETTINGS, begin

TV1, TV2 = 4, 5  # versions of EndTxn
OF_PRODUCE = {TV1: 9, TV2: 12}
EMPTY, ONGOING, PREPARE, PREPARE_ABORT, COMPLETE, _ = TransactionState
ONE_LOG = {**SETTINGS, "transaction_state_log_num_partitions": "1"}


@pytest.fixture
async def producer(tmp_path):
    rig = Rig(tmp_path / "data", **ONE_LOG)
    made = await begin(rig)
    await create(rig, "a", 2)
    yield made
    await made.rig.close()


async def run(producer, version, count=1):
    """Run transactions one after the other."""
    for _ in range(count):
        if version == TV1:
            assert await producer.add("a", [0]) == [0]
        assert not (await producer.produce("a", 0, version=OF_PRODUCE[version])).error_code
        assert await producer.end(version=version) == 0


def states(rig):
    """Return the states that the log has, oldest first."""
    log = rig.services.partitions.get(TRANSACTION_TOPIC, 0).log
    read = log.read(0, 1 << 20, end_offset=log.end_offset)
    found = [one for batch in read_states(read.read()) for one in batch.records]
    return [TransactionState(one.value.transaction_status) for one in found]


def late(rig):
    return rig.services.transactions.store.log.late


async def until(ends):
    """Wait until a condition holds."""
    async with asyncio.timeout(20):
        while not ends():
            await asyncio.sleep(0.01)


async def until_written(rig):
    await until(lambda: not late(rig).count)


@pytest.mark.parametrize("version", [TV1, TV2])
async def test_a_transaction_that_follows_at_once_takes_the_place_of_complete(producer, version):
    await run(producer, version, 3)
    each = [ONGOING, PREPARE] if version == TV1 else [PREPARE]
    assert states(producer.rig) == [EMPTY, *each * 3]
    assert late(producer.rig).count == 1
    await until_written(producer.rig)
    assert states(producer.rig) == [EMPTY, *each * 3, COMPLETE]


async def test_a_transaction_that_lasts_gets_its_record(producer):
    for number in (0, 1):
        assert not (await producer.produce("a", number)).error_code
    assert states(producer.rig) == [EMPTY]
    await until_written(producer.rig)
    assert states(producer.rig) == [EMPTY, ONGOING]
    assert not (await producer.produce("a", 1)).error_code, "nothing is added"
    assert not late(producer.rig).count


async def test_a_request_to_add_what_is_late_is_answered_when_it_is_durable(producer):
    assert not (await producer.produce("a", 0)).error_code
    assert states(producer.rig) == [EMPTY]
    assert await producer.add("a", [0]) == [0]
    log = producer.rig.services.partitions.get(TRANSACTION_TOPIC, 0).log
    assert states(producer.rig) == [EMPTY, ONGOING]
    assert log.durable_offset == log.end_offset
    assert not late(producer.rig).count


async def test_the_record_of_many_partitions_is_written_at_once(producer):
    await create(producer.rig, "many", LATE_PLACES_MAX)
    for number in range(LATE_PLACES_MAX):
        assert not (await producer.produce("many", number)).error_code
    await until_written(producer.rig)
    known = len(states(producer.rig))
    assert not (await producer.produce("a", 0)).error_code
    assert states(producer.rig)[known:] == [ONGOING]


async def test_a_stop_writes_what_is_open(producer, tmp_path):
    assert not (await producer.produce("a", 0)).error_code
    assert await producer.rig.close()
    producer.rig = Rig(tmp_path / "data", **ONE_LOG)
    assert states(producer.rig) == [EMPTY, ONGOING]
    await producer.rig.services.transactions.loading.load()
    assert await producer.end() == 0


async def test_a_new_instance_ends_what_is_late(producer):
    assert not (await producer.produce("a", 0)).error_code
    while (await producer.init()).error_code:
        await asyncio.sleep(0.01)
    assert states(producer.rig)[1:] == [PREPARE_ABORT, EMPTY]
    await run(producer, TV2)


@pytest.mark.parametrize("version", [TV1, TV2])
async def test_a_stop_writes_it(producer, tmp_path, version):
    await run(producer, version)
    assert await producer.rig.close()
    producer.rig = Rig(tmp_path / "data", **ONE_LOG)
    assert states(producer.rig)[-1] is COMPLETE


@pytest.mark.parametrize("version", [TV1, TV2])
@pytest.mark.parametrize("is_open", [False, True])
async def test_a_start_completes_what_a_crash_has_left_without_it(
    producer, tmp_path, version, is_open
):
    await run(producer, version)
    if is_open:  # the next transaction: with TV1, its record is in the log before its data
        if version == TV1:
            assert await producer.add("a", [0]) == [0]
        assert not (await producer.produce("a", 0, version=OF_PRODUCE[version])).error_code
    for partition in producer.rig.services.partitions.all():
        producer.rig.services.commit.flush_now(partition)
    await crash(producer.rig)
    producer.rig = Rig(tmp_path / "data", **ONE_LOG)
    transactions = producer.rig.services.transactions
    assert states(producer.rig)[-1] is (ONGOING if is_open and version == TV1 else PREPARE)
    await transactions.loading.load()
    assert transactions.find("t").state is (ONGOING if is_open else COMPLETE)
    log = producer.rig.services.partitions.get("a", 0).log
    assert log.end_offset == 2 + is_open, "one marker"
    if is_open:
        assert await producer.end(version=version) == 0
    await run(producer, version)


async def restart(producer, directory):
    """Crash with all that was appended on the disk, and start again."""
    for partition in producer.rig.services.partitions.all():
        producer.rig.services.commit.flush_now(partition)
    await crash(producer.rig)
    producer.rig = Rig(directory, **ONE_LOG)
    await producer.rig.services.transactions.loading.load()


@pytest.mark.parametrize("version", [TV1, TV2])
async def test_an_end_that_comes_twice_is_answered_alike_before_it_and_after_a_crash(
    producer, tmp_path, version
):
    told = producer.producer_id, producer.epoch
    await run(producer, version)
    for is_crashed in (False, True):
        if is_crashed:
            await restart(producer, tmp_path / "data")
        for is_commit, code in ((True, 0), (False, ErrorCode.INVALID_TXN_STATE)):
            producer.producer_id, producer.epoch = told
            assert await producer.end(version=version, is_commit=is_commit) == code


@pytest.mark.parametrize("is_open", [False, True])
async def test_the_next_producer_id_outlives_a_crash_without_it(producer, tmp_path, is_open):
    transaction = producer.rig.services.transactions.find("t")
    transaction.epoch = producer.epoch = EPOCH_LAST
    await run(producer, TV2)
    ids = transaction.producer_id, transaction.epoch
    assert ids == (producer.producer_id, 0), "of the answer"
    if is_open:
        assert not (await producer.produce("a", 1)).error_code
    await restart(producer, tmp_path / "data")
    found = producer.rig.services.transactions.find("t")
    assert (found.producer_id, found.epoch) == ids
    assert found.state is (ONGOING if is_open else COMPLETE)
    await run(producer, TV2)


async def test_it_never_follows_the_record_that_lets_data_in_after_an_end_of_tv1(producer):
    await run(producer, TV1)
    await run(producer, TV2)  # its data come once the id is open to them
    await until_written(producer.rig)
    assert states(producer.rig) == [EMPTY, ONGOING, PREPARE, EMPTY, PREPARE, COMPLETE]


async def test_it_comes_when_a_full_disk_has_room(producer, monkeypatch):
    await run(producer, TV2)
    with monkeypatch.context() as disk:

        def refuse(*_):
            no_room = OSError(28, "No space left on device")
            raise AppendFailed("p", 0, no_room, rolled_back=True)

        disk.setattr(Log, "append_own", refuse)
        await asyncio.sleep(0.3)
        assert late(producer.rig).count == 1
    await until_written(producer.rig)
    assert states(producer.rig)[-1] is COMPLETE


async def test_a_failed_log_is_left_to_the_next_start():
    def refuse(_):
        raise TransactionError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    records = LateRecords(refuse, lambda _: False)
    records.add(Transaction("t", 1, 1))
    await until(lambda: not records.count)


def recording():
    """Late records of logs that take all, and the list of those that are written."""
    written = []
    records = LateRecords(
        lambda one: (written.append(one), records.drop(one.transactional_id)), lambda _: True
    )
    return records, written


async def test_many_are_written_in_turns_of_the_loop_and_none_twice():
    records, written = recording()
    turns = 0
    made = [Transaction(str(number), number, 1) for number in range(4 * RECORDS_PER_TURN)]
    for one in made:
        records.add(one)
    records.drop(made[0].transactional_id)
    async with asyncio.timeout(20):
        while records.count:
            known = len(written)
            await asyncio.sleep(0)
            assert len(written) - known <= RECORDS_PER_TURN
            turns += len(written) > known
    assert written == made[1:]
    assert turns >= 4


async def test_while_the_broker_stops_each_is_written_at_once():
    records, written = recording()
    first, second = Transaction("a", 1, 1), Transaction("b", 2, 1)
    records.add(first)
    await records.finish()
    records.add(second)
    assert written == [first, second]
    assert not records.count


async def test_what_cannot_be_written_does_not_hold_up_others():
    written = []

    def append(one):
        if one.transactional_id == "bad":
            raise TransactionError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        written.append(one.transactional_id)
        records.drop(one.transactional_id)

    records = LateRecords(append, lambda _: True)
    records.add(Transaction("bad", 1, 1))
    records.add(Transaction("a", 2, 1))
    await asyncio.sleep(0.05)
    records.add(Transaction("b", 3, 1))
    await until(lambda: records.count <= 1)
    assert written == ["a", "b"]


async def test_an_unexpected_failure_is_tried_again():
    written, fails = [], [True]

    def append(one):
        if fails.pop():
            raise ValueError
        written.append(one)
        records.drop(one.transactional_id)

    records = LateRecords(append, lambda _: True)
    one = Transaction("a", 1, 1)
    records.add(one)
    fails.insert(0, False)
    await until(lambda: not records.count)
    assert written == [one]


async def test_an_id_has_one_late_record_even_if_the_one_between_could_not_be_written():
    records, written = recording()
    former, later = Transaction("a", 1, 1), Transaction("a", 2, 1)
    records.add(former)
    await until(lambda: records._old)
    records.add(later)
    assert records.count == 1
    await until(lambda: not records.count)
    assert written == [later]
