"""Transactions beside a disk that fills up at any of their writes, and topics that change."""

from unittest import mock

import pytest

from broker.transactions.transaction_states import TransactionState
from protocol.errors import ErrorCode
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from storage.errors import AppendFailed
from storage.log import Log
from tests.support.broker_rig import Rig
from tests.support.rig_client import ask, crash, create
from tests.support.transaction_client import SETTINGS, begin

TV1, TV2 = 4, 5  # versions of EndTxn
OF_PRODUCE = {TV1: 9, TV2: 12}


@pytest.fixture
async def rig(tmp_path):
    return Rig(tmp_path / "data", **SETTINGS)


@pytest.fixture
async def producer(rig):
    """A producer with a transaction open in both partitions of a topic."""
    made = await begin(rig)
    await create(rig, "a", 2)
    assert await made.add("a", [0, 1]) == [0, 0]
    for number in (0, 1):
        assert not (await made.produce("a", number)).error_code
    return made


def state_of(rig):
    return rig.services.transactions.store.by_id["t"].state


def log_of(rig, number):
    return rig.services.partitions.get("a", number).log


def outcomes(rig):
    """Return whether the last transaction is committed; None while it is open."""
    found = []
    for number in (0, 1):
        log = log_of(rig, number)
        is_open = log.last_stable_offset < log.end_offset
        found.append(None if is_open else not log.aborted(0, log.end_offset))
    return found


async def restarted(rig, producer, tmp_path, *, dies):
    """Return the next broker on the directory."""
    if dies:
        for partition in rig.services.partitions.all():
            rig.services.commit.flush_now(partition)
        await crash(rig)
    else:
        assert await rig.close()
    producer.rig = Rig(tmp_path / "data", **SETTINGS)
    await producer.rig.services.transactions.loading.load()
    return producer.rig


class Room:
    """The room of a disk: for some appends, until it is enlarged."""

    def __init__(self, left):
        self.left = left

    def bound(self, append):
        def bounded(log, *arguments):
            self.left -= 1
            if self.left < 0:
                no_room = OSError(28, "No space left on device")
                raise AppendFailed("p", 0, no_room, rolled_back=True)
            return append(log, *arguments)

        return bounded


@pytest.mark.parametrize("version", [TV1, TV2])
@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("appends", range(4))
async def test_a_disk_that_is_full_after_any_append_of_an_end(
    rig, producer, tmp_path, version, is_commit, appends
):
    room = Room(appends)
    with (
        mock.patch.object(Log, "append_own", room.bound(Log.append_own)),
        mock.patch.object(Log, "append_marker", room.bound(Log.append_marker)),
    ):
        code = await producer.end(version=version, is_commit=is_commit)
        assert code == (ErrorCode.NONE if appends else ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert state_of(rig).is_prepared == (0 < appends < 3), "decided, and not recorded as done"
        room.left = 1_000
        await rig.services.transactions.endings.retry()
        await rig.services.transactions.finish()
    if code:
        assert state_of(rig) is TransactionState.ONGOING
        assert await producer.end(version=version, is_commit=is_commit) == 0
    assert outcomes(rig) == [is_commit] * 2
    assert await producer.add("a", [0]) == [0], "the id goes on"
    assert not (await producer.produce("a", 0)).error_code
    assert await producer.end(version=version) == 0
    again = await restarted(rig, producer, tmp_path, dies=True)
    assert outcomes(again) == [is_commit] * 2
    await again.close()


@pytest.mark.parametrize("version", [TV1, TV2])
@pytest.mark.parametrize("dies", [True, False])
@pytest.mark.parametrize("is_commit", [True, False])
async def test_records_of_an_open_transaction_are_deleted_before_a_restart(
    rig, producer, tmp_path, version, dies, is_commit
):
    wanted = [DeleteRecordsPartition(partition_index=0, offset=-1)]
    topic = DeleteRecordsTopic(name="a", partitions=wanted)
    deleted = await ask(rig, DeleteRecordsRequest(topics=[topic], timeout_ms=5_000), 2)
    assert deleted.topics[0].partitions[0].low_watermark == 1
    again = await restarted(rig, producer, tmp_path, dies=dies)
    assert log_of(again, 0).last_stable_offset == 1
    answer = await producer.produce("a", 0, version=OF_PRODUCE[version])
    assert not answer.error_code
    assert await producer.end(version=version, is_commit=is_commit) == 0
    assert outcomes(again) == [is_commit] * 2
    last = await restarted(again, producer, tmp_path, dies=dies)
    assert outcomes(last) == [is_commit] * 2
    await last.close()


@pytest.mark.parametrize("version", [TV1, TV2])
@pytest.mark.parametrize("dies", [True, False])
async def test_a_topic_is_created_anew_inside_a_transaction(rig, producer, tmp_path, version, dies):
    await rig.services.topics.delete("a")
    await create(rig, "a", 2)
    producer.sequences.clear()
    assert not (await producer.produce("a", 0, version=OF_PRODUCE[version])).error_code
    again = await restarted(rig, producer, tmp_path, dies=dies)
    assert await producer.end(version=version) == 0
    assert outcomes(again) == [True, True]
    assert log_of(again, 0).end_offset == 2
    await again.close()
