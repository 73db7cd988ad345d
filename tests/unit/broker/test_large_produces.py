"""Produce requests for very many partitions: pieces, order, and answers."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker import large_produces
from broker.large_produces import (
    BEGUN_MAX,
    LARGE,
    LARGE_BYTES,
    PIECE_BYTES,
    PIECE_COUNT,
    LargeProduces,
    is_large,
    pieces,
)
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.broker_rig import Rig, batch
from tests.support.fake_connection import FakeConnection
from tests.support.rig_client import create

COUNT = 3 * LARGE


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path / "data")
    yield made
    assert await made.close()


def topic(name: str, count: int, size: int = 0) -> TopicProduceData:
    return TopicProduceData(
        name=name,
        partition_data=[
            PartitionProduceData(index=index, records=bytes(size)) for index in range(count)
        ],
    )


@pytest.mark.parametrize(
    ("topics", "frame_bytes", "expected"),
    [
        ([topic("t", LARGE - 1)], 0, False),
        ([topic("t", LARGE)], 0, True),
        ([topic("t", 0)] * LARGE, 0, False),
        ([topic("t", 0)] * (LARGE + 1), 0, True),
        ([topic("t", 1)], LARGE_BYTES, False),
        ([topic("t", 1)], LARGE_BYTES + 1, True),
    ],
)
def test_which_requests_are_large(
    topics: list[TopicProduceData], frame_bytes: int, expected: bool
) -> None:
    body = SimpleNamespace(topic_data=topics)
    request: Any = SimpleNamespace(body=body, frame_bytes=frame_bytes)
    assert is_large(request) == expected


@pytest.mark.parametrize(
    "topics",
    [
        [],
        [topic("a", 1)],
        [topic("a", 3 * PIECE_COUNT + 1)],
        [topic("a", PIECE_COUNT), topic("b", PIECE_COUNT), topic("c", 1)],
        [topic("a", PIECE_COUNT - 1), topic("b", 0), topic("c", 2)],
        [topic("a", 0)] * (2 * PIECE_COUNT),
        [topic("a", 5, PIECE_BYTES // 2), topic("b", 2, 2 * PIECE_BYTES)],
    ],
)
def test_pieces_are_small_and_whole_together(topics: list[TopicProduceData]) -> None:
    seen: list[Any] = []
    for some in pieces(topics):
        named = [data for piece in some for data in piece.partitions]
        assert len(named) <= PIECE_COUNT
        assert len(some) <= PIECE_COUNT + 1
        assert sum(len(data.records or b"") for data in named[:-1]) < PIECE_BYTES
        for one, partitions in some:
            if not seen or seen[-1][0] is not one or not one.partition_data:
                seen.append((one, []))
            seen[-1][1].extend(partitions)
    assert seen == [(one, one.partition_data) for one in topics]


def produce(*indexes: int, acks: int = -1, records: Any = None) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=5_000,
        topic_data=[
            TopicProduceData(
                name="t",
                partition_data=[
                    PartitionProduceData(index=index, records=records or batch(b"v"))
                    for index in indexes
                ],
            )
        ],
    )


def sent(rig: Rig, connection: FakeConnection, body: ProduceRequest, number: int) -> None:
    request = connection.request(body, version=9, number=number)
    request.frame_bytes = 100 * len(body.topic_data[0].partition_data)
    rig.dispatcher.dispatch(request)


async def answers(connection: FakeConnection, count: int) -> dict[int, Any]:
    async with asyncio.timeout(30):
        while len(connection.sent) < count:
            await asyncio.sleep(0.001)
    return {number: answer for ((number, answer),) in connection.sent}  # type: ignore[misc]


@pytest.mark.parametrize("acks", [1, -1])
async def test_the_requests_of_a_connection_are_appended_in_their_order(
    rig: Rig, acks: int
) -> None:
    await create(rig, count=COUNT)
    connection = FakeConnection()
    last = COUNT - 1
    for number, indexes in enumerate([range(COUNT), [last], range(COUNT), [last, 0]]):
        sent(rig, connection, produce(*indexes, acks=acks), number)
    assert connection in rig.services.large_produces.lines.waiting
    other = FakeConnection()
    sent(rig, other, produce(last, acks=acks), 0)  # overtakes: it is another client's
    (theirs,) = (await answers(other, 1))[0].responses[0].partition_responses
    assert theirs.base_offset == 0
    found = await answers(connection, 4)
    offsets = []
    for number in range(4):
        answered = found[number].responses[0].partition_responses
        offsets.append([(one.index, one.error_code, one.base_offset) for one in answered])
    assert offsets[0] == [(n, 0, int(n == last)) for n in range(COUNT)]
    assert offsets[1] == [(last, 0, 2)]
    assert offsets[2] == [(n, 0, 3 if n == last else 1) for n in range(COUNT)]
    assert offsets[3] == [(last, 0, 4), (0, 0, 2)]
    assert connection not in rig.services.large_produces.lines.waiting


async def test_other_requests_of_the_connection_are_handled_behind_it(rig: Rig) -> None:
    await create(rig)
    end = ListOffsetsPartition(partition_index=0, timestamp=-1)
    ask = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[end])], timeout_ms=9_000
    )
    connection, other = FakeConnection(), FakeConnection()
    sent(rig, connection, produce(*[0] * COUNT, acks=0), 0)
    rig.dispatcher.dispatch(connection.request(ask, api_key=2, version=10, number=1))
    rig.dispatcher.dispatch(other.request(ask, api_key=2, version=10, number=1))
    ends = []
    for one in (other, connection):
        async with asyncio.timeout(30):
            while not any(one.sent):
                await asyncio.sleep(0.001)
        answered = dict(buffers[0] for buffers in one.sent if buffers)  # type: ignore[misc]
        ends.append(answered[1].topics[0].partitions[0].offset)
    assert ends == [0, COUNT]
    assert connection not in rig.services.large_produces.lines.waiting


async def test_connections_take_turns_of_the_loop() -> None:
    large = LargeProduces()
    turns = 0
    appended: list[tuple[int, int]] = []  # in which turn of the loop, and for which connection

    async def count_turns() -> None:
        nonlocal turns
        while len(appended) < 4 * 3:
            await asyncio.sleep(0)
            turns += 1

    requests = [
        large.begin(
            connection,
            [topic("t", 3 * PIECE_COUNT)],
            lambda: None,
            lambda _, connection=connection: appended.append((turns, connection)),  # type: ignore[misc]
        )
        for connection in range(4)
    ]
    await asyncio.gather(count_turns(), *requests)
    assert len({turn for turn, _ in appended}) == len(appended)
    assert [connection for _, connection in appended] == [0, 1, 2, 3] * 3


async def test_so_many_are_begun_at_a_time_and_none_that_waits_for_a_transaction() -> None:
    large = LargeProduces()
    ended = asyncio.Event()
    pieces_of: dict[int, int] = {}

    async def wait() -> None:
        await ended.wait()

    def begin(connection: int, *, waits: bool = False) -> asyncio.Task[None]:
        def append(_: object) -> None:
            pieces_of[connection] = pieces_of.get(connection, 0) + 1
            half_made = [count for count in pieces_of.values() if count < 3]
            assert len(half_made) <= BEGUN_MAX

        def line_up() -> Coroutine[None, None, None] | None:
            return wait() if waits and not ended.is_set() else None

        topics = [topic("t", 3 * PIECE_COUNT)]
        return asyncio.ensure_future(large.begin(connection, topics, line_up, append))

    waiting = [begin(-number, waits=True) for number in range(1, BEGUN_MAX + 1)]
    async with asyncio.timeout(10):
        await asyncio.gather(*(begin(number) for number in range(3 * BEGUN_MAX)))
        assert not any(task.done() for task in waiting)
        ended.set()
        await asyncio.gather(*waiting)
    assert set(pieces_of.values()) == {3}


async def test_each_partition_has_its_own_error(rig: Rig) -> None:
    await create(rig, count=COUNT - 1)
    connection = FakeConnection()
    sent(rig, connection, produce(*range(COUNT)), 0)
    answered = (await answers(connection, 1))[0].responses[0].partition_responses
    codes = [one.error_code for one in answered]
    assert codes == [0] * (COUNT - 1) + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_an_error_without_acks_closes_the_connection_after_all_pieces(rig: Rig) -> None:
    await create(rig, count=COUNT)
    connection = FakeConnection()
    sent(rig, connection, produce(-1, *range(COUNT), acks=0), 0)
    async with asyncio.timeout(30):
        while not connection.sent:
            await asyncio.sleep(0.001)
    assert connection.sent == [()]
    assert len(connection.aborted) == 1
    assert rig.services.partitions.get("t", COUNT - 1).log.end_offset == 1


@pytest.mark.parametrize("acks", [5, -1])
async def test_a_large_answer_is_encoded_in_steps(
    rig: Rig, acks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.runtime.steps.QUICK_ANSWER_BYTES", 100)
    await create(rig)
    connection = FakeConnection()
    steps: list[object] = []
    dialect: Any = connection.info.dialect
    encode = dialect.encode_in_steps
    monkeypatch.setattr(
        dialect, "encode_in_steps", lambda *said: steps.append(said) or encode(*said)
    )
    sent(rig, connection, produce(*range(COUNT), acks=acks), 0)
    await answers(connection, 1)
    assert len(steps) == 1


def test_a_piece_is_named_as_a_request_names_it() -> None:
    whole = topic("t", 3)
    piece = large_produces.Piece(whole, whole.partition_data[1:])
    assert piece.topic_data() == TopicProduceData(name="t", partition_data=whole.partition_data[1:])
