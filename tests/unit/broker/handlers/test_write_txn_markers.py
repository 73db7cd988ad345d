"""WriteTxnMarkers: a marker by hand ends what nobody owns, and never tears what is owned."""

import asyncio
from types import SimpleNamespace

import pytest

from broker.handlers.write_txn_markers import error_response, handle
from broker.metadata.topic_rules import GROUP_TOPIC, TRANSACTION_TOPIC
from broker.runtime.steps import finished
from broker.transactions.transaction_errors import TransactionError
from broker.transactions.transaction_states import EndReason, TransactionState
from protocol.control_records import MARKER_BYTES, Marker, read_marker
from protocol.errors import ErrorCode
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from storage.errors import LogFailed
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import create
from tests.support.transaction_client import SETTINGS, begin

COMMIT, ABORT = True, False
STRANGER = 7_000_000  # a producer id that no transactional id has


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


def log_of(rig, number=0):
    return rig.services.partitions.get("a", number).log


def last_marker(log):
    batch = log.read(log.end_offset - 1, 1_000, end_offset=log.end_offset).read()
    return read_marker(bytes(batch)[-MARKER_BYTES:])


def marker(producer_id, epoch, outcome, *numbers, topic="a", coordinator=0, version=0):
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=outcome,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=list(numbers or (0,)))],
        coordinator_epoch=coordinator,
        transaction_version=version,
    )


async def write(rig, *markers):
    """Return the codes of all partitions, in one list."""
    request = SimpleNamespace(body=WriteTxnMarkersRequest(markers=list(markers)))
    response = finished(await handle(request, rig.services))
    assert [one.producer_id for one in response.markers] == [one.producer_id for one in markers]
    return [
        partition.error_code
        for result in response.markers
        for topic in result.topics
        for partition in topic.partitions
    ]


def left_open(rig, number=0, producer_id=STRANGER, epoch=5):
    """Put data of another broker's transaction into a log."""
    records = batch(
        b"x", producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True
    )
    log_of(rig, number).append(memoryview(bytearray(records)), rig.services.clock.now_ms(), 2)


@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
async def test_an_idle_partition_gets_a_marker(rig, producer, outcome):
    assert await write(rig, marker(STRANGER, 5, outcome, 0, 1)) == [0, 0]
    for number in (0, 1):
        log = log_of(rig, number)
        assert log.durable_offset == log.end_offset == log.last_stable_offset == 1


@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
async def test_what_another_broker_has_left_is_ended(rig, producer, outcome):
    left_open(rig)
    assert log_of(rig).last_stable_offset == 0
    assert await write(rig, marker(STRANGER, 5, outcome)) == [0]
    log = log_of(rig)
    assert log.open_transactions() == []
    assert log.last_stable_offset == log.end_offset == 2
    assert last_marker(log).is_commit == outcome


async def test_the_rules_of_the_partition_come_first(rig, producer):
    assert await write(rig, marker(STRANGER, 5, ABORT, coordinator=3)) == [0]
    codes = await write(
        rig,
        marker(STRANGER, 4, ABORT, coordinator=3),
        marker(STRANGER, 5, ABORT, coordinator=2),
        marker(STRANGER, 5, ABORT, topic="missing"),
        marker(STRANGER, 5, ABORT, 9),
        marker(STRANGER, 5, ABORT, topic=TRANSACTION_TOPIC),
        marker(-1, 5, ABORT),
        marker(STRANGER, -1, ABORT),
    )
    assert codes == [
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]


async def test_a_newer_marker_ends_only_an_epoch_before_its_own(rig, producer):
    left_open(rig)
    newer = {"version": 2}
    assert await write(rig, marker(STRANGER, 5, ABORT, **newer)) == [47]
    assert await write(rig, marker(STRANGER, 6, ABORT, **newer)) == [0]
    assert await write(rig, marker(STRANGER, 6, ABORT, **newer)) == [0], "a repetition"


async def test_to_abort_in_one_partition_aborts_the_whole_transaction(rig, producer):
    for number in (0, 1):
        await producer.produce("a", number)
    epoch = producer.epoch
    assert await write(rig, marker(producer.producer_id, epoch, ABORT, 1, 0)) == [0, 0]
    for number in (0, 1):
        log = log_of(rig, number)
        assert log.end_offset == log.last_stable_offset == 2, "one marker"
        assert last_marker(log)[1:3] == (epoch + 1, ABORT)
    (state,) = rig.services.transactions.store.by_id.values()
    assert state.state is TransactionState.COMPLETE_ABORT
    assert state.last_end.reason is EndReason.OPERATOR
    assert await producer.end() == ErrorCode.INVALID_TXN_STATE


async def test_only_its_producer_commits_a_transaction(rig, producer):
    await producer.produce()
    codes = await write(rig, marker(producer.producer_id, producer.epoch, COMMIT, 0, 1))
    assert codes == [ErrorCode.INVALID_TXN_STATE, ErrorCode.NONE], "partition 1 is idle"
    assert log_of(rig).last_stable_offset == 0
    assert await producer.end() == ErrorCode.NONE


async def test_a_marker_above_the_epoch_of_an_owned_producer_is_refused(rig, producer):
    """The next start would take it for the coordinator's decision."""
    for number in (0, 1):
        await producer.produce("a", 0)
        above = marker(producer.producer_id, producer.epoch + 1, ABORT, number)
        assert await write(rig, above) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert log_of(rig, 1).end_offset == 0


async def test_a_marker_for_an_earlier_transaction_does_not_abort_this_one(rig, producer):
    await producer.produce()
    assert await producer.end() == ErrorCode.NONE
    await producer.produce()
    assert await producer.add("a", [1]) == [0]  # no data yet: the partition knows no epoch
    stale = marker(producer.producer_id, producer.epoch - 1, ABORT, 1)
    assert await write(rig, stale) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert await producer.end() == ErrorCode.NONE


async def test_a_transaction_that_is_being_ended_is_not_touched(rig, producer):
    await producer.produce()
    (state,) = rig.services.transactions.store.by_id.values()
    state.is_ending = True
    codes = await write(rig, marker(producer.producer_id, producer.epoch, ABORT))
    assert codes == [ErrorCode.CONCURRENT_TRANSACTIONS]
    state.is_ending = False


async def test_a_failed_log_gets_no_marker(rig, producer):
    log_of(rig).failed = LogFailed("a-0", "on purpose")
    assert await write(rig, marker(STRANGER, 5, ABORT)) == [ErrorCode.KAFKA_STORAGE_ERROR]


async def test_while_ids_are_loaded_it_is_not_known_who_owns_a_producer(rig, producer):
    class Loading:
        def check_all(self):
            raise TransactionError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

        def stop(self):
            """Do nothing."""

    rig.services.transactions.loading = Loading()
    codes = await write(rig, marker(STRANGER, 5, ABORT))
    assert codes == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]


async def test_a_stop_does_not_wait_for_all_markers_of_a_request(rig, producer):
    """Each waits for the disk, and a request may name a million partitions."""
    writing = asyncio.ensure_future(write(rig, marker(STRANGER, 5, ABORT, *[0, 1, 2] * 1_000)))
    while not log_of(rig).end_offset:
        await asyncio.sleep(0)
    rig.services.transactions.stop()
    codes = await writing
    assert codes[0] == 0
    assert set(codes) == {0, ErrorCode.NOT_COORDINATOR}
    assert codes.count(0) < 10


async def test_a_transaction_that_begins_while_the_marker_waits_is_not_torn(rig, producer):
    queued = []
    appends = rig.services.appends
    append_marker = appends.append_marker

    def wait(*arguments):
        queued.append(arguments)

    appends.append_marker = wait
    writing = asyncio.ensure_future(write(rig, marker(producer.producer_id, producer.epoch, ABORT)))
    while not queued:
        await asyncio.sleep(0)
    appends.append_marker = append_marker
    await producer.produce()
    append_marker(*queued[0])
    assert await writing == [ErrorCode.CONCURRENT_TRANSACTIONS]
    assert log_of(rig).open_transactions()[0][:2] == (producer.producer_id, producer.epoch)


async def pend(rig, producer):
    """Commit offset 7 of a-0 for group g in the producer's transaction; return the code."""
    offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    body = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[TxnOffsetCommitRequestTopic(name="a", partitions=[offset])],
    )
    return (await rig.call(body, 3)).topics[0].partitions[0].error_code


async def test_offsets_that_are_pended_while_the_marker_waits_for_the_disk_stay_pending(
    rig, producer
):
    """The marker lies before them, and ends nothing of the transaction that they belong to."""
    assert await producer.add_offsets("g") == 0
    assert await producer.end() == 0
    groups = rig.services.groups
    number = groups.partition_of("g")
    together = rig.services.commit.durable_together
    told = []
    rig.services.commit.durable_together = lambda _, done: told.append(done)
    writing = asyncio.ensure_future(
        write(rig, marker(producer.producer_id, producer.epoch, COMMIT, number, topic=GROUP_TOPIC))
    )
    while not told:
        await asyncio.sleep(0)
    rig.services.commit.durable_together = together
    assert await producer.add_offsets("g") == 0
    assert await pend(rig, producer) == 0
    told[0]([ErrorCode.NONE])
    assert await writing == [0]
    offsets = groups.registry_of("g").offsets
    assert (offsets.get("g", "a", 0), offsets.pending.has("g", "a", 0)) == (None, True)
    assert await producer.end() == 0
    assert offsets.get("g", "a", 0).offset == 7


def test_a_refused_request_has_a_code_for_each_partition():
    request = SimpleNamespace(
        body=WriteTxnMarkersRequest(markers=[marker(1, 2, ABORT, 0, 1)]), header=None
    )
    (result,) = error_response(request, ErrorCode.REQUEST_TIMED_OUT).markers
    assert [one.error_code for one in result.topics[0].partitions] == [7, 7]
    assert Marker(1, 2, ABORT, 0).producer_id == result.producer_id
