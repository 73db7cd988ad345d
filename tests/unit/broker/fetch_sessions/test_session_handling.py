"""Sessions are found, refused, and used by one fetch of a connection after the other."""

import asyncio
from typing import Any

import pytest

from broker.fetch_sessions import session_cache
from broker.handlers import HANDLERS
from broker.rights.asking import NAMES_PER_TURN
from broker.runtime.request import Pending
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from storage.files.filenames import TOPIC_NAME_MAX
from tests.support import failures
from tests.support.broker_rig import Rig, batch
from tests.support.fake_connection import FakeConnection
from tests.support.rig_client import create, produce
from tests.support.rights_cases import READ, TOPIC, grant
from tests.support.rights_rig import ALICE, RightsRig
from tests.support.session_client import SessionClient, dispatch, limit

LONG_MS = 60_000
FETCH = next(row for row in HANDLERS if row.api_key == ApiKey.FETCH)
DATA = PartitionData(partition_index=0, high_watermark=0, records=b"")


async def begun(rig: Rig, count: int = 2, version: int = 12) -> SessionClient:
    topic_id = await create(rig, count=count)
    client = SessionClient(rig, version, t=topic_id)
    await client.begin(*(("t", number, 0) for number in range(count)))
    return client


async def until(connection: FakeConnection, count: int) -> list[Any]:
    async with asyncio.timeout(10):
        while len(connection.sent) < count:
            await asyncio.sleep(0.001)
    return [buffers[0][1] for buffers in connection.sent]


async def test_a_replica_gets_no_session(rig: Rig) -> None:
    client = await begun(rig)
    answer = await client.fetch(("t", 0, 0), replica_id=3)
    assert answer.session_id == client.session_id  # it is not a follower's: Kafka does not look
    client.epoch = 0
    answer = await client.fetch(("t", 0, 0), replica_id=3)
    assert answer.session_id == 0
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("version", "epoch", "code"),
    [
        (12, 2, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (12, -2, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (13, 1, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
        (13, 2, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ],
)
async def test_a_refused_fetch_changes_nothing(
    rig: Rig, version: int, epoch: int, code: ErrorCode
) -> None:
    client = await begun(rig)
    client.epoch, client.version = epoch, version
    answer = await client.fetch(("t", 1, 7), forget=(("t", 0),))
    assert (answer.error_code, answer.session_id, answer.responses) == (code, 0, [])
    client.epoch, client.version = 1, 12
    assert await client.more() == {}


async def test_fetches_of_one_connection_go_one_after_the_other(rig: Rig) -> None:
    """As in Kafka, which handles one request of a connection at a time."""
    client = await begun(rig)
    connection = FakeConnection()
    requests = [client.request(max_wait_ms=LONG_MS) for _ in range(3)]
    requests[2].session_epoch = 77
    for body in requests:
        dispatch(rig, client, connection, body)
    await asyncio.sleep(0.01)
    assert connection.sent == []
    await produce(rig, batch(b"a"), partition=1)
    first, second, third = await until(connection, 3)
    assert list(client.told(first)) == list(client.told(second)) == [("t", 1)]
    assert third.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


async def test_a_session_that_would_be_too_large_ends(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_cache, "PARTITIONS_OF_ONE_MAX", 3)
    client = await begun(rig, 3)
    assert await client.more(("t", 0, 0)) == {}
    answer = await client.fetch(("t", 7, 0))
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert rig.services.metrics.fetch_session_partitions_now == 0
    await client.begin(*(("t", number, 0) for number in range(4)))
    assert client.session_id == 0


async def test_no_session_keeps_a_name_that_no_topic_may_have(rig: Rig) -> None:
    """Sessions without a right to anything would hold 32 KiB for each of 250,000 partitions."""
    client = await begun(rig)
    answer = await client.fetch(("x" * TOPIC_NAME_MAX, 0, 0))
    assert answer.error_code == ErrorCode.NONE
    answer = await client.fetch(("x" * (TOPIC_NAME_MAX + 1), 0, 0))
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert rig.services.metrics.fetch_session_partitions_now == 0
    await client.begin(("t", 0, 0), ("x" * (TOPIC_NAME_MAX + 1), 0, 0))
    assert client.session_id == 0
    assert rig.services.metrics.fetch_sessions_declined == 1


async def test_a_failing_handler_lets_the_next_fetch_begin(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await begun(rig)

    def fail(*_: Any) -> None:
        raise RuntimeError("as the test wants")

    with monkeypatch.context() as patched:
        patched.setattr("broker.handlers.fetch.FetchReading", fail)
        answer = await client.fetch()
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(failures.take()) == 1
    assert client.session.running is None
    assert await client.more() == {}


# -- rights ----------------------------------------------------------------------------------------


async def rightful(rights: RightsRig, version: int) -> SessionClient:
    rights.allow(grant(TOPIC, READ))
    other = await create(rights.rig, "u")
    client = SessionClient(rights.rig, version, t=rights.topic_id, u=other)
    await client.begin(("t", 0, 0), ("u", 0, 0), principal=ALICE)
    assert await client.more(principal=ALICE) == {}
    return client


def codes(answer: dict[Any, Any]) -> dict[str, int]:
    return {place[0]: one.error_code for place, one in answer.items()}


@pytest.mark.parametrize("version", [12, 13])
async def test_a_right_that_is_taken_away_and_given_again(rights: RightsRig, version: int) -> None:
    client = await rightful(rights, version)
    rights.allow(grant(TOPIC, READ, "u"))
    for _ in range(2):
        assert codes(await client.more(principal=ALICE)) == {"t": 29}
    await produce(rights.rig, batch(b"a"))
    await produce(rights.rig, batch(b"a"), topic="u")
    told = await client.more(principal=ALICE)
    assert codes(told) == {"t": 29, "u": 0}
    assert not told["t", 0].records
    rights.allow(grant(TOPIC, READ))
    told = await client.more(("u", 0, 1), principal=ALICE)
    assert codes(told) == {"t": 0}
    assert told["t", 0].records


async def test_a_right_that_goes_while_the_fetch_waits(rights: RightsRig) -> None:
    """The partition sleeps, so it is not among those that rights were asked for."""
    client = await rightful(rights, 12)
    connection = FakeConnection()
    connection.info.principal = ALICE
    dispatch(rights.rig, client, connection, client.request(max_wait_ms=LONG_MS))
    await asyncio.sleep(0)
    rights.allow(grant(TOPIC, READ, "u"))
    await produce(rights.rig, batch(b"a"))
    (answer,) = await until(connection, 1)
    told = client.told(answer)
    assert codes(told) == {"t": 29}
    assert not told["t", 0].records
    assert codes(await client.more(principal=ALICE)) == {"t": 29}


async def test_a_right_that_goes_while_those_of_many_others_are_asked(rights: RightsRig) -> None:
    """That takes several turns; a partition that sleeps then is not asked for in any of them."""
    client = await rightful(rights, 12)
    many = [(f"unknown{number}", 0, 0) for number in range(NAMES_PER_TURN + 100)]
    assert len(await client.more(*many, principal=ALICE)) == len(many)
    connection = FakeConnection()
    connection.info.principal = ALICE
    dispatch(rights.rig, client, connection, client.request(max_wait_ms=LONG_MS))
    await asyncio.sleep(0)
    rights.allow(*(grant(TOPIC, READ, name) for name in ("u", "unknown0")))
    async with asyncio.timeout(10):
        while client.session.parked is None and not connection.sent:
            await asyncio.sleep(0)
    await produce(rights.rig, batch(b"a"))
    (answer,) = await until(connection, 1)
    told = client.told(answer)
    assert told["t", 0].error_code == 29
    assert not told["t", 0].records


async def test_another_user_of_the_session_needs_the_rights(rights: RightsRig) -> None:
    client = await rightful(rights, 12)
    await produce(rights.rig, batch(b"a"))
    told = await client.more(principal="User:bob")
    assert codes(told) == {"t": 29, "u": 29}
    assert codes(await client.more(principal=ALICE)) == {"t": 0, "u": 0}


# -- clients that leave, and sessions that end while they are used ---------------------------------


async def test_a_third_fetch_does_not_overtake_the_second(rig: Rig) -> None:
    """The second begins a turn after the first has ended; the third may arrive in this turn."""
    client = await begun(rig)
    connection = FakeConnection()
    first, second, third = (client.request(max_wait_ms=LONG_MS) for _ in range(3))
    dispatch(rig, client, connection, first)
    dispatch(rig, client, connection, second)
    await asyncio.sleep(0.01)
    rig.services.purgatory.release_all(rig.services.partitions.get("t", 0))
    assert client.session.running is None
    assert len(client.session.behind) == 1
    dispatch(rig, client, connection, third)
    await produce(rig, batch(b"a"), partition=1)
    answers = await until(connection, 3)
    assert [answer.error_code for answer in answers] == [0, 0, 0]


@pytest.mark.parametrize("is_parked", [True, False])
async def test_a_connection_that_ends_takes_along_what_waits_behind(
    rig: Rig, is_parked: bool
) -> None:
    """All of its requests are released, and none of them moves the session's epoch later."""
    client = await begun(rig)
    connection = FakeConnection()
    requests = [
        connection.request(client.request(max_wait_ms=LONG_MS), api_key=1, version=12)
        for _ in range(3)
    ]
    session = client.session
    if not is_parked:
        for request in requests:
            request.abandon()
    for request in requests:
        rig.dispatcher.dispatch(request)
    await asyncio.sleep(0.01)
    if is_parked:
        assert [request.abandon() for request in requests] == [True, False, False]
        requests[0].buffers = ()
    await asyncio.sleep(0.01)
    assert [request.buffers for request in requests] == [(), (), ()]
    assert session.running is session.parked is None
    assert not session.behind
    client.epoch = session.epoch
    assert await client.more() == {}


async def test_a_connection_that_ends_while_rights_are_asked_ends_the_fetch(rig: Rig) -> None:
    client = await begun(rig)
    connection = FakeConnection()
    request = connection.request(client.request(max_wait_ms=LONG_MS), api_key=1, version=12)
    inner = FETCH.handle

    def late(request: Any, services: Any) -> Any:
        request.abandon()
        return inner(request, services)

    rig.services.fetch_sessions.around(late)(request, rig.services)
    assert request.buffers == ()
    assert client.session.running is client.session.parked is None


@pytest.mark.parametrize("has_begun", [True, False])
async def test_steps_that_are_closed_end_the_fetch(rig: Rig, has_begun: bool) -> None:
    client = await begun(rig)
    connection = FakeConnection()

    def in_steps(request: Any, services: Any) -> Any:
        yield 0
        raise AssertionError("it is closed before")

    request = connection.request(client.request(), api_key=1, version=12)
    steps = rig.services.fetch_sessions.around(in_steps)(request, rig.services)
    assert client.session.running is request
    if has_begun:
        next(steps)
    steps.close()
    assert client.session.running is None


async def test_a_session_that_another_connection_empties_while_it_is_used(rig: Rig) -> None:
    client = await begun(rig)
    connection = FakeConnection()
    pending = Pending()
    request = connection.request(client.request(), api_key=1, version=12)
    result = rig.services.fetch_sessions.around(lambda *_: pending)(request, rig.services)
    await client.fetch(forget=(("t", 0), ("t", 1)))
    assert client.session is None
    pending.complete(
        FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[DATA])])
    )
    assert result.response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


async def test_a_fetch_without_an_answer_is_no_failure_under_a_quota(rig: Rig) -> None:
    client = await begun(rig)
    await limit(rig, 1.0)
    connection = FakeConnection()
    request = connection.request(client.request(), api_key=1, version=12)
    request.abandoned = True
    rig.dispatcher.dispatch(request)
    assert request.buffers == ()
    assert rig.services.metrics.request_errors == 0
