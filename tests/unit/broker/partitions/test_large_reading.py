"""Fetches of many partitions: the same answers as of few, in steps, and counted once in a turn."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.handlers import fetch as handler
from broker.partitions import fetch_asked, fetch_reading, large_reading
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from storage.log import Log
from storage.segments.cold import Cold
from tests.support.broker_rig import Rig, batch
from tests.support.fake_connection import FakeConnection
from tests.support.rig_client import create, produce
from tests.support.rig_fetch import look_up_always
from tests.support.session_client import SessionClient, limit

COUNT = 12
LONG_MS = 60_000


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path / "data")
    yield rig
    await rig.close()


@pytest.fixture
def is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each fetch be a large one, in steps of a partition."""
    for module in (large_reading, handler):
        monkeypatch.setattr(module, "LARGE", 0)
    monkeypatch.setattr(large_reading, "PER_STEP", 1)


@pytest.fixture
def is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each step be the last of its turn."""
    monkeypatch.setattr("broker.runtime.steps.SLICE_NS", 1)


def request(*wanted: tuple[str, int, int], **fields: Any) -> FetchRequest:
    topics: dict[str, FetchTopic] = {}
    for name, number, offset in wanted:
        asked = FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics.setdefault(name, FetchTopic(topic=name)).partitions.append(asked)
    fields = {"max_wait_ms": 0, "min_bytes": 1, "topics": list(topics.values()), **fields}
    return FetchRequest(**fields)


async def some(rig: Rig) -> FetchRequest:
    """Return a fetch of partitions with and without records, unknown and out of range."""
    await create(rig, count=COUNT)
    for number in range(0, COUNT, 3):
        await produce(rig, batch(b"a" * number), partition=number)
    wanted = [("t", number, 0) for number in range(COUNT)]
    wanted += [("none", 0, 0), ("t", COUNT, 0), ("t", 1, 77), ("t", 0, 0)]
    return request(*wanted)


def plain(answer: FetchResponse) -> Any:
    return [
        (topic.topic, one.partition_index, one.error_code, one.high_watermark, bytes(one.records))
        for topic in answer.responses
        for one in topic.partitions
        if one.records is not None
    ]


@pytest.mark.parametrize("bytes_max", [1, 150, 1 << 20])
async def test_the_answer_is_that_of_few(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, bytes_max: int
) -> None:
    body = await some(rig)
    body.max_bytes = bytes_max
    errors = rig.services.metrics.traffic.errors
    expected = plain(await rig.call(body, 12))
    counted = dict(errors)
    assert len(expected) == COUNT + 2
    for module in (large_reading, handler):
        monkeypatch.setattr(module, "LARGE", 0)
    monkeypatch.setattr(large_reading, "PER_STEP", 1)
    monkeypatch.setattr("broker.runtime.steps.SLICE_NS", 1)
    steps = rig.services.metrics.answers_in_steps
    assert plain(await rig.call(body, 12)) == expected
    assert rig.services.metrics.answers_in_steps == steps + 1
    assert dict(errors) == {key: 2 * count for key, count in counted.items()}


@pytest.mark.usefixtures("is_small")
async def test_cold_records_are_loaded(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    body = await some(rig)
    expected = plain(await rig.call(body, 12))
    look_up_always(monkeypatch)
    monkeypatch.setattr("storage.segments.log_file.LogSlice.load_hot", lambda *_: None)
    monkeypatch.setattr("storage.segments.log_file.LogSlice.read_hot", lambda *_: None)
    assert plain(await rig.call(body, 12)) == expected
    assert rig.services.metrics.reads_cold == COUNT // 3


@pytest.mark.usefixtures("is_small")
async def test_look_ups_that_miss_something_start_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = await some(rig)
    expected = plain(await rig.call(body, 12))
    missed: list[int] = []

    class Missing(Cold):
        def pull(self) -> None:
            missed.append(1)

        def keep(self, pulled: Any) -> None:
            pass

    read_log = Log.read

    def missing_once(self: Log, *arguments: Any, **named: Any) -> Any:
        if not missed:
            raise Missing
        return read_log(self, *arguments, **named)

    monkeypatch.setattr(Log, "read", missing_once)
    assert plain(await rig.call(body, 12)) == expected
    assert missed


@pytest.mark.usefixtures("is_small", "is_slow")
async def test_one_that_waits_counts_once_for_all_news_of_a_turn(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(rig, count=COUNT)
    counts: list[int] = []
    count = fetch_asked.have_enough

    def counted(*arguments: Any, **named: Any) -> bool:
        counts.append(1)
        return count(*arguments, **named)

    monkeypatch.setattr(fetch_reading, "have_enough", counted)
    connection = FakeConnection()
    wanted = [("t", number, 0) for number in range(COUNT)]
    body = request(*wanted, max_wait_ms=LONG_MS, min_bytes=1_000)
    rig.dispatcher.dispatch(connection.request(body, api_key=1, version=12))
    while not rig.services.purgatory.parked_count:
        await asyncio.sleep(0)
    before = len(counts)
    for partition in rig.services.partitions.all():
        rig.services.purgatory.notify(partition)
    assert len(counts) == before
    await asyncio.sleep(0)
    assert len(counts) == before + 1
    await produce(rig, batch(b"x" * 600), partition=1)
    assert not connection.sent
    await produce(rig, batch(b"x" * 600), partition=2)
    async with asyncio.timeout(10):
        while not connection.sent:
            await asyncio.sleep(0)
    ((_, answer),) = connection.sent[0]
    assert sum(bool(one.records) for one in answer.responses[0].partitions) == 2


@pytest.mark.usefixtures("is_small", "is_slow")
async def test_a_client_that_leaves_meanwhile_is_let_go(rig: Rig) -> None:
    await create(rig, count=COUNT)
    client = SessionClient(rig)
    await client.begin(*(("t", number, 0) for number in range(COUNT)))
    connection = FakeConnection()
    left = connection.request(client.request(), api_key=1, version=12)
    rig.dispatcher.dispatch(left)
    assert client.session.running is left
    left.abandon()
    async with asyncio.timeout(10):
        while left.buffers is None:
            await asyncio.sleep(0)
    assert left.buffers == ()
    assert client.session.running is None
    client.epoch = client.session.epoch
    assert await client.more() == {}


@pytest.mark.usefixtures("is_small", "is_slow")
async def test_it_does_not_wait_for_a_partition_that_goes_while_others_are_looked_up(
    rig: Rig,
) -> None:
    await create(rig, count=COUNT)
    connection = FakeConnection()
    wanted = [("t", number, 0) for number in range(COUNT)]
    body = request(*wanted, max_wait_ms=LONG_MS, min_bytes=1_000)
    rig.dispatcher.dispatch(connection.request(body, api_key=1, version=12))
    partitions = rig.services.partitions
    while not partitions.get("t", COUNT // 2).fetches:
        await asyncio.sleep(0)
    assert not partitions.get("t", COUNT - 1).fetches
    gone = partitions.remove("t", 0)
    assert gone is not None
    rig.services.purgatory.release_all(gone)
    async with asyncio.timeout(10):
        while not connection.sent:
            await asyncio.sleep(0)
    assert not gone.watchers


@pytest.mark.usefixtures("is_small", "is_slow")
async def test_a_quota_counts_what_is_encoded_in_steps(rig: Rig) -> None:
    body = await some(rig)
    await limit(rig, 1.0)
    answer = await rig.call(body, 12)
    assert answer.throttle_time_ms > 0
    assert answer.responses == []


async def test_a_replica_is_refused_in_steps(rig: Rig) -> None:
    wanted = [("t", number, 0) for number in range(3 * large_reading.LARGE)]
    answer = await rig.call(request(*wanted, replica_id=7), 12)
    assert answer.error_code == 0
    codes = {one.error_code for one in answer.responses[0].partitions}
    assert codes == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert len(answer.responses[0].partitions) == len(wanted)


async def test_an_answer_that_is_too_large_is_refused(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.runtime.steps.ANSWER_BYTES_MAX", 1_000)
    monkeypatch.setattr("broker.runtime.steps.SLICE_NS", 1)
    wanted = [(f"none{number}", 0, 0) for number in range(2 * large_reading.LARGE)]
    answer = await rig.call(request(*wanted), 12)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
