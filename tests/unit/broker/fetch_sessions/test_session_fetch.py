"""Fetches within a session: what they look at, wait for and answer.

The rules are compared with Kafka in tests/interop/test_fetch_sessions.py. Here, a session is also
compared with one that looks at everything each time.
"""

import asyncio
import random
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.broker_rig import Rig, batch
from tests.support.fake_connection import FakeConnection
from tests.support.log_house import flush
from tests.support.log_transactions import end, send
from tests.support.rig_client import create, produce
from tests.support.session_client import MANY, SessionClient, dispatch, limit

LONG_MS = 60_000


def marks(answer: dict[Any, Any]) -> dict[Any, tuple[int, bool]]:
    return {place: (one.high_watermark, bool(one.records)) for place, one in answer.items()}


async def settled(client: SessionClient) -> None:
    """Let all partitions of a session fall asleep."""
    await client.more()
    assert client.awake == []


async def waiting(rig: Rig, client: SessionClient, *wanted: Any, **fields: Any) -> FakeConnection:
    """Begin a fetch that waits; return its connection."""
    connection = FakeConnection()
    fields = {"max_wait_ms": LONG_MS, **fields}
    dispatch(rig, client, connection, client.request(*wanted, **fields))
    await asyncio.sleep(0)
    assert not connection.sent
    return connection


async def answered(client: SessionClient, connection: FakeConnection) -> Any:
    async with asyncio.timeout(10):
        while not connection.sent:
            await asyncio.sleep(0.001)
    ((_, response),) = connection.sent[-1]
    return response, client.told(response)


def sleeper_count(rig: Rig) -> int:
    return sum(len(one.sleepers) for one in rig.services.partitions.all())


# -- what is looked at -----------------------------------------------------------------------------


async def test_a_fetch_looks_only_at_what_may_have_news(rig: Rig) -> None:
    await create(rig, count=50)
    client = SessionClient(rig)
    assert len(await client.begin(*(("t", number, 0) for number in range(50)))) == 50
    await settled(client)
    assert sleeper_count(rig) == 50
    await produce(rig, batch(b"a"), partition=7)
    await produce(rig, batch(b"b"), partition=3)
    assert sorted(client.awake) == [("t", 3), ("t", 7)]
    assert marks(await client.more()) == {("t", 3): (1, True), ("t", 7): (1, True)}
    assert await client.more(("t", 3, 1), ("t", 7, 1)) == {}
    assert client.awake == []


async def test_what_waits_watches_what_wakes(rig: Rig) -> None:
    await create(rig, count=20)
    client = SessionClient(rig)
    await client.begin(*(("t", number, 0) for number in range(20)))
    await settled(client)
    connection = await waiting(rig, client)
    assert sum(len(one.watchers) for one in rig.services.partitions.all()) == 0
    await produce(rig, batch(b"a"), partition=11)
    _, told = await answered(client, connection)
    assert marks(told) == {("t", 11): (1, True)}


async def test_min_bytes_count_what_wakes_one_after_the_other(rig: Rig) -> None:
    await create(rig, count=3)
    client = SessionClient(rig)
    await client.begin(*(("t", number, 0) for number in range(3)))
    await settled(client)
    size = len(batch(b"a"))
    connection = await waiting(rig, client, min_bytes=2 * size)
    await produce(rig, batch(b"a"), partition=2)
    assert not connection.sent
    await produce(rig, batch(b"a"), partition=0)
    _, told = await answered(client, connection)
    assert list(told) == [("t", 0), ("t", 2)]


async def test_records_that_nobody_has_flushed_wake_a_sleeper(rig: Rig) -> None:
    """With acks=1, a partition that sleeps has its log flushed as one that is watched."""
    await create(rig, count=2)
    client = SessionClient(rig)
    await client.begin(("t", 0, 0), ("t", 1, 0))
    await settled(client)
    connection = await waiting(rig, client)
    await produce(rig, batch(b"a"), partition=1, acks=1)
    _, told = await answered(client, connection)
    assert list(told) == [("t", 1)]


async def test_a_deleted_topic_ends_the_wait_although_all_of_it_sleeps(rig: Rig) -> None:
    ids = {"t": await create(rig), "u": await create(rig, "u")}
    for version in (12, 13):
        client = SessionClient(rig, version, **ids)
        await client.begin(("t", 0, 0), ("u", 0, 0))
        await settled(client)
        connection = await waiting(rig, client)
        await rig.services.topics.delete("t")
        _, told = await answered(client, connection)
        assert {place: one.error_code for place, one in told.items()} == {
            ("t", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
        ids["t"] = await create(rig)


async def test_a_moved_log_start_is_told(rig: Rig) -> None:
    await create(rig, count=2)
    await produce(rig, batch(b"a"))
    client = SessionClient(rig)
    await client.begin(("t", 0, 1), ("t", 1, 0))
    await settled(client)
    rig.services.partitions.get("t", 0).log.delete_records_before(1)
    await rig.services.checkpoints.write()
    told = await client.more()
    assert {place: one.log_start_offset for place, one in told.items()} == {("t", 0): 1}
    assert await client.more() == {}


async def test_a_change_of_isolation_looks_at_everything(rig: Rig) -> None:
    await create(rig)
    log = rig.services.partitions.get("t", 0).log
    send(log, 7)
    flush(log)
    client = SessionClient(rig)
    await client.begin(("t", 0, 0), isolation_level=1)
    await client.more(isolation_level=1)
    assert client.awake == []
    assert marks(await client.more()) == {("t", 0): (1, True)}
    assert marks(await client.more(isolation_level=1)) == {}
    connection = await waiting(rig, client, isolation_level=1)
    end(log, 7, commit=True)
    rig.services.purgatory.notify(rig.services.partitions.get("t", 0))
    _, told = await answered(client, connection)
    assert marks(told) == {("t", 0): (2, True)}


async def test_a_lost_wake_up_costs_a_second(rig: Rig) -> None:
    await create(rig)
    client = SessionClient(rig)
    await client.begin(("t", 0, 0))
    await settled(client)
    rig.services.partitions.get("t", 0).sleepers.clear()
    await produce(rig, batch(b"a"))
    assert await client.more() == {}
    client.session.roused_ms -= 1_000
    assert marks(await client.more()) == {("t", 0): (1, True)}
    assert rig.services.metrics.fetch_wakeups_lost == 1


# -- what becomes of the session -------------------------------------------------------------------


async def test_what_leaves_takes_its_sleepers_along(rig: Rig) -> None:
    await create(rig, count=5)
    client = SessionClient(rig)
    places = [("t", number, 0) for number in range(5)]
    await client.begin(*places)
    await settled(client)
    assert sleeper_count(rig) == 5
    await client.begin(*places)
    assert sleeper_count(rig) == 0
    assert rig.services.metrics.fetch_sessions_now == 1
    await settled(client)
    client.epoch = -1
    answer = await client.fetch(*places)
    assert (answer.session_id, len(answer.responses)) == (0, 1)
    assert sleeper_count(rig) == rig.services.metrics.fetch_session_partitions_now == 0


async def test_a_fetch_of_an_evicted_session_puts_nothing_to_sleep(rig: Rig) -> None:
    await create(rig)
    client = SessionClient(rig)
    await client.begin(("t", 0, 0))
    connection = await waiting(rig, client)
    rig.services.fetch_sessions.cache.remove(client.session_id)
    await produce(rig, batch(b"a"))
    response, told = await answered(client, connection)
    assert (response.session_id, list(told)) == (client.session_id, [("t", 0)])
    assert sleeper_count(rig) == 0
    assert (await client.fetch()).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_fetch_of_an_evicted_session_still_hears_of_what_slept(rig: Rig) -> None:
    """Else it would wait for its deadline, however much arrives."""
    await create(rig, count=3)
    client = SessionClient(rig)
    await client.begin(*(("t", number, 0) for number in range(3)))
    await settled(client)
    connection = await waiting(rig, client)
    rig.services.fetch_sessions.cache.remove(client.session_id)
    assert sleeper_count(rig) == 0
    await produce(rig, batch(b"a"), partition=2)
    _, told = await answered(client, connection)
    assert marks(told) == {("t", 2): (1, True)}
    assert sum(len(one.watchers) for one in rig.services.partitions.all()) == 0


async def test_an_overtaken_fetch_changes_nothing(rig: Rig) -> None:
    await create(rig, count=2)
    client = SessionClient(rig)
    await client.begin(("t", 0, 0), ("t", 1, 0))
    await settled(client)
    first = await waiting(rig, client, ("t", 1, 0))
    assert await client.more() == {}
    await produce(rig, batch(b"a"), partition=1)
    response, told = await answered(client, first)
    assert response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert (response.session_id, told) == (client.session_id, {})
    assert marks(await client.more()) == {("t", 1): (1, True)}


async def test_a_client_that_leaves_while_it_waits_leaves_a_session_that_goes_on(rig: Rig) -> None:
    await create(rig, count=2)
    client = SessionClient(rig)
    await client.begin(("t", 0, 0), ("t", 1, 0))
    connection = FakeConnection()
    body = client.request(max_wait_ms=LONG_MS)
    request = connection.request(body, api_key=1, version=12)
    rig.dispatcher.dispatch(request)
    await asyncio.sleep(0)
    assert client.session.running is request
    request.abandon()
    assert client.session.running is client.session.parked is None
    await produce(rig, batch(b"a"))
    assert marks(await client.more()) == {("t", 0): (1, True)}


# -- quotas ----------------------------------------------------------------------------------------


async def test_what_is_withheld_is_told_later(rig: Rig) -> None:
    await create(rig, count=2)
    client = SessionClient(rig)
    await client.begin(("t", 0, 0), ("t", 1, 0))
    await settled(client)
    await produce(rig, batch(b"a"), partition=1)
    await limit(rig, 1.0)
    answer = await client.fetch()
    assert answer.throttle_time_ms
    assert (answer.session_id, answer.error_code) == (client.session_id, 0)
    assert answer.responses == []
    await limit(rig, None)
    assert marks(await client.more()) == {("t", 1): (1, True)}


async def test_no_session_begins_with_an_answer_that_is_withheld(rig: Rig) -> None:
    await create(rig)
    await limit(rig, 1.0)
    client = SessionClient(rig)
    answer = await client.fetch(("t", 0, 0))
    assert answer.throttle_time_ms
    assert (answer.session_id, rig.services.metrics.fetch_sessions_now) == (0, 0)


# -- beside one that looks at everything -----------------------------------------------------------


class Model:
    """A session by Kafka's rules, that asks for all its partitions each time, without a session."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.offsets: dict[int, int] = {}  # by partition, in order
        self._told: dict[int, tuple[int, int]] = {}

    def forget(self, number: int) -> None:
        self.offsets.pop(number, None)
        self._told.pop(number, None)

    async def fetch(self, max_bytes: int, isolation_level: int) -> dict[int, Any]:
        partitions = [
            FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=MANY)
            for number, offset in self.offsets.items()
        ]
        body = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            topics=[FetchTopic(topic="t", partitions=partitions)],
        )
        answer = await self._rig.call(body, 12)
        found = {}
        for one in answer.responses[0].partitions:
            number, now = one.partition_index, (one.high_watermark, one.log_start_offset)
            if one.records or one.error_code or self._told.get(number) != now:
                found[number] = one
            self._told[number] = (-1, now[1]) if one.error_code else now
            if one.records:
                self.offsets[number] = self.offsets.pop(number)
        return found


PARTITIONS = 6


async def history(rig: Rig, draw: random.Random) -> None:
    await create(rig, count=PARTITIONS)
    model, client = Model(rig), SessionClient(rig)
    offsets = dict.fromkeys(draw.sample(range(PARTITIONS), 4), 0)
    model.offsets = dict(offsets)
    await client.begin(*(("t", number, offset) for number, offset in offsets.items()))
    await model.fetch(MANY, 0)
    open_ids: dict[int, int] = {}
    for step in range(60):
        wanted: dict[int, int] = {}
        forget = []
        for _ in range(draw.randrange(4)):
            number = draw.randrange(PARTITIONS)
            log = rig.services.partitions.get("t", number).log
            kind = draw.choice(["produce"] * 4 + ["move", "move", "forget", "cut", "begin", "end"])
            if kind == "produce":
                await produce(rig, batch(b"x" * draw.randrange(1, 200)), partition=number)
            elif kind == "move":
                wanted[number] = draw.choice([log.end_offset, 0, log.end_offset + 1])
            elif kind == "forget":
                forget.append(number)
            elif kind == "cut":
                log.delete_records_before(draw.randint(log.start_offset, log.high_watermark))
                await rig.services.checkpoints.write()
            elif kind == "begin" and number not in open_ids:
                open_ids[number] = 100 + step
                send(log, 100 + step)
                flush(log)
                rig.services.purgatory.notify(rig.services.partitions.get("t", number))
            elif kind == "end" and number in open_ids:
                end(log, open_ids.pop(number), commit=draw.random() < 0.5)
                rig.services.purgatory.notify(rig.services.partitions.get("t", number))
        for number, offset in wanted.items():
            model.offsets[number] = offset
        for number in forget:
            model.forget(number)
        if not model.offsets:
            return
        max_bytes, level = draw.choice([1, 300, MANY]), draw.choice([0, 0, 0, 1])
        told = await client.more(
            *(("t", number, offset) for number, offset in wanted.items()),
            forget=tuple(("t", number) for number in forget),
            max_bytes=max_bytes,
            isolation_level=level,
        )
        expected = await model.fetch(max_bytes, level)
        assert [
            (place[1], one.error_code, one.high_watermark, one.log_start_offset, one.records)
            for place, one in sorted(told.items())
        ] == [
            (number, one.error_code, one.high_watermark, one.log_start_offset, one.records)
            for number, one in sorted(expected.items())
        ], step
    assert not rig.services.metrics.fetch_wakeups_lost


@pytest.mark.parametrize("seed", range(8))
async def test_a_session_tells_what_one_tells_that_looks_at_everything(rig: Rig, seed: int) -> None:
    await history(rig, random.Random(seed))
