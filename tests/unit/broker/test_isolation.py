"""Isolation levels of Fetch and ListOffsets, beside transactions of a whole broker."""

import asyncio

import pytest

from broker.handlers.list_offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import ask, create, produce
from tests.support.rig_fetch import fetch, of, read, read_one
from tests.support.transaction_client import SETTINGS, begin

UNCOMMITTED, COMMITTED = 0, 1
WAIT_MS = 60_000


@pytest.fixture
async def rig(tmp_path):
    made = Rig(tmp_path / "data", **SETTINGS)
    yield made
    await made.close()


@pytest.fixture
async def producer(rig):
    made = await begin(rig)
    # Markers have the time of the clock, and records one of long ago: no reason to roll.
    await create(rig, segment_ms=str(2**53))
    return made


def told(answer):
    """What an answer says: bytes, high watermark, last stable offset, aborted transactions."""
    aborted = answer.aborted_transactions
    return (
        len(answer.records),
        answer.high_watermark,
        answer.last_stable_offset,
        None if aborted is None else [(one.producer_id, one.first_offset) for one in aborted],
    )


async def read_at(rig, isolation_level, offset=0, **fields):
    return await read_one(rig, fetch(of(0, offset), isolation_level=isolation_level, **fields))


async def test_an_open_transaction_is_read_by_read_uncommitted_only(rig, producer):
    plain = batch(b"plain")
    await produce(rig, plain)
    assert not (await producer.produce("t")).error_code
    size, *rest = told(await read_at(rig, UNCOMMITTED))
    assert (size > len(plain), *rest) == (True, 2, 1, None)
    assert told(await read_at(rig, COMMITTED)) == (len(plain), 2, 1, [])
    assert told(await read_at(rig, COMMITTED, 1)) == (0, 2, 1, [])
    assert told(await read_at(rig, COMMITTED, 2)) == (0, 2, 1, [])
    assert (await read_at(rig, COMMITTED, 3)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_readers_are_told_which_transactions_to_skip(rig, producer):
    await producer.produce("t")
    await producer.end(is_commit=False)
    await producer.produce("t")
    await producer.end()
    await producer.produce("t")
    await producer.end(is_commit=False)
    pid = producer.producer_id
    whole, *rest = told(await read_at(rig, COMMITTED))
    assert rest == [6, 6, [(pid, 0), (pid, 4)]]
    assert told(await read_at(rig, UNCOMMITTED)) == (whole, 6, 6, None)
    assert told(await read_at(rig, COMMITTED, 2))[1:] == (6, 6, [(pid, 4)])
    assert told(await read_at(rig, COMMITTED, 2, max_bytes=1))[1:] == (6, 6, [])


async def begun(rig, isolation_level, **fields):
    """Begin a fetch, and return once it waits."""
    parked = rig.services.metrics.fetches_parked
    body = fetch(of(0, 0), isolation_level=isolation_level, max_wait_ms=WAIT_MS, **fields)
    task = asyncio.create_task(read(rig, body))
    while rig.services.metrics.fetches_parked == parked:
        assert not task.done(), "did not wait"
        await asyncio.sleep(0)
    return task


@pytest.mark.parametrize("is_commit", [True, False])
async def test_a_parked_fetch_waits_for_what_it_may_read(rig, producer, is_commit):
    tasks = [await begun(rig, level) for level in (UNCOMMITTED, COMMITTED)]
    await producer.produce("t")
    (early,) = await tasks[0]
    assert told(early)[1:] == (1, 0, None)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not tasks[1].done()
    await producer.end(is_commit=is_commit)
    async with asyncio.timeout(10):
        (late,) = await tasks[1]
    aborted = [] if is_commit else [(producer.producer_id, 0)]
    assert told(late)[1:] == (2, 2, aborted)
    assert len(late.records) > len(early.records)


async def test_only_bytes_that_may_be_read_count_for_min_bytes(rig, producer):
    await produce(rig, batch(b"plain"))
    await producer.produce("t")
    present = len((await read_at(rig, UNCOMMITTED)).records)
    task = await begun(rig, COMMITTED, min_bytes=present)
    await producer.end()
    async with asyncio.timeout(10):
        (answer,) = await task
    assert len(answer.records) >= present


async def offset(rig, timestamp, isolation_level):
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    body = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name="t", partitions=[asked])],
        timeout_ms=5_000,
    )
    (topic,) = (await ask(rig, body, 11)).topics
    (found,) = topic.partitions
    assert not found.error_code
    return found.offset


@pytest.mark.parametrize(
    ("timestamp", "uncommitted", "open_one", "ended"),
    [(LATEST, 1, 0, 2), (EARLIEST, 0, 0, 0), (MAX_TIMESTAMP, 0, -1, 0), (0, 0, -1, 0)],
)
async def test_offsets_of_an_open_transaction_are_not_listed(
    rig, producer, timestamp, uncommitted, open_one, ended
):
    await producer.produce("t")
    assert await offset(rig, timestamp, UNCOMMITTED) == uncommitted
    assert await offset(rig, timestamp, COMMITTED) == open_one
    await producer.end()
    if timestamp != MAX_TIMESTAMP:  # the marker may have a later one
        assert await offset(rig, timestamp, COMMITTED) == ended
