"""Whatever a handler returns or raises becomes an answer."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from broker.dispatch import LARGE_REQUEST_BYTES, Dispatcher
from broker.error_counts import SEARCHED_PER_STEP
from broker.handlers import HANDLERS
from broker.large_produces import LargeProduces
from broker.runtime.clock import MS_NS, ManualClock
from broker.runtime.metrics import Metrics
from broker.runtime.owners import Owner
from broker.runtime.record_work import WalkAbandoned
from broker.runtime.request import Pending
from broker.runtime.steps import SLICE_NS
from protocol.api_keys import ApiKey
from protocol.dialect import RequestHeader
from protocol.errors import EncodeError, ErrorCode
from protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from storage.errors import LogFailed
from tests.support import failures
from tests.support.fake_connection import FakeConnection

KEY = int(HANDLERS[0].api_key)


def dispatcher(handle: Any, error_response: Any = None, key: int = KEY) -> Dispatcher:
    config = SimpleNamespace(barnabas_read_only=False)
    quotas = SimpleNamespace(clients=None)
    services: Any = SimpleNamespace(
        large_produces=LargeProduces(),
        metrics=Metrics(),
        clock=ManualClock(),
        config=config,
        quotas=quotas,
        authorizer=None,
    )
    made = Dispatcher(services)
    handlers: dict[int, Any] = {
        key: SimpleNamespace(
            handle=handle, error_response=error_response or (lambda request, code: code)
        )
    }
    made._handlers = handlers
    made._served = made._counted()
    return made


def answered(connection: FakeConnection) -> list[Any]:
    return [buffers[0][1] if buffers else None for buffers in connection.sent]


async def test_each_kind_of_result_is_answered_once() -> None:
    pending = Pending()

    async def later() -> str:
        await asyncio.sleep(0)
        return "coroutine"

    async def later_still() -> Pending:
        made = Pending()
        asyncio.get_running_loop().call_soon(made.complete, "coroutine's pending")
        return made

    connection = FakeConnection()
    results = ["message", None, pending, later(), later_still()]
    under_test = dispatcher(lambda request, services: results.pop(0))
    for _ in range(5):
        under_test.dispatch(connection.request(None, api_key=KEY))
    assert answered(connection) == ["message", None]
    pending.complete("pending")
    await under_test.finish()
    await asyncio.sleep(0)
    assert sorted(answered(connection)[2:]) == ["coroutine", "coroutine's pending", "pending"]


class HastyClock(ManualClock):
    """Each look at it takes a slice of a turn."""

    def monotonic_ns(self) -> int:
        self.advance(SLICE_NS // MS_NS)
        return super().monotonic_ns()


async def test_an_answer_to_a_large_request_is_searched_and_encoded_in_steps() -> None:
    key = int(ApiKey.CREATE_TOPICS)
    connection = FakeConnection()
    topic = CreatableTopicResult(name="t", error_code=ErrorCode.TOPIC_ALREADY_EXISTS)
    response = CreateTopicsResponse(topics=[topic] * 5 * SEARCHED_PER_STEP)
    under_test = dispatcher(lambda request, services: response, key=key)
    request = connection.request(None, api_key=key)
    request.frame_bytes = LARGE_REQUEST_BYTES + 1
    under_test._stepper._clock = HastyClock()
    under_test.dispatch(request)
    assert connection.sent == []
    turns = 0
    while under_test._stepper.is_busy:
        await asyncio.sleep(0)
        turns += 1
    assert answered(connection) == [response]
    errors = under_test._services.metrics.traffic.errors
    assert errors == {(key, ErrorCode.TOPIC_ALREADY_EXISTS): len(response.topics)}
    assert turns >= 5


async def test_an_error_answer_to_a_large_request_is_tried_once() -> None:
    key = int(ApiKey.CREATE_TOPICS)
    connection = FakeConnection()
    under_test = dispatcher(
        lambda request, services: CreateTopicsResponse(),
        lambda request, code: CreateTopicsResponse(),
        key,
    )
    request = connection.request(None, api_key=key)
    request.frame_bytes = LARGE_REQUEST_BYTES + 1
    connection.info.dialect = SimpleNamespace()  # type: ignore[assignment]
    under_test.dispatch(request)
    await under_test.finish()
    assert connection.aborted == ["internal error"]
    assert connection.sent == [()]
    assert len(failures.take()) == 2


def fail(request: Any, services: Any) -> None:
    raise LogFailed("t-0", "fsync failed")


async def fail_later(request: Any, services: Any) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("handle", "code"),
    [(fail, ErrorCode.KAFKA_STORAGE_ERROR), (fail_later, ErrorCode.UNKNOWN_SERVER_ERROR)],
)
async def test_an_error_is_answered_and_logged_with_its_request(
    handle: Any, code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    connection = FakeConnection()
    under_test = dispatcher(handle)
    with caplog.at_level(logging.ERROR, "barnabas.requests"):
        under_test.dispatch(connection.request(None, api_key=KEY, number=77))
        await under_test.finish()
    assert answered(connection) == [code]
    assert "correlation id 77" in caplog.text
    assert under_test._services.metrics.request_errors == 1
    assert len(failures.take()) == (code is ErrorCode.UNKNOWN_SERVER_ERROR)


async def test_an_error_without_an_answer_closes_the_connection() -> None:
    connection = FakeConnection()

    def no_answer(request: Any, code: ErrorCode) -> None:
        raise ValueError

    dispatcher(fail, no_answer).dispatch(connection.request(None, api_key=KEY))
    assert connection.aborted == ["internal error"]
    assert connection.sent == [()]  # no answer, and the memory of the request is released
    assert len(failures.take()) == 1


async def test_a_pending_answer_that_cannot_be_encoded_does_not_affect_its_completer() -> None:
    connection = FakeConnection()
    pending = Pending()

    def encode(header: Any, response: Any) -> list[Any]:
        if response == "bad":
            raise ValueError("cannot encode")
        return [(header.correlation_id, response)]

    connection.info.dialect.encode_response = encode  # type: ignore[method-assign]
    try:
        dispatcher(lambda request, services: pending).dispatch(
            connection.request(None, api_key=KEY)
        )
        pending.complete("bad")
        assert answered(connection) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    finally:
        del connection.info.dialect.encode_response
    assert len(failures.take()) == 1


class SlowHeader(RequestHeader):
    """The header of a request whose answer a thread encodes."""

    opens_records = True

    def wants_thread(self, response: Any) -> bool:
        return bool(response == "slow")

    def refused_count(self) -> int:
        return 2


@pytest.mark.parametrize("error", [None, EncodeError("not this one")])
async def test_an_answer_that_takes_long_is_encoded_in_a_thread(
    error: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[Any] = []
    work = SimpleNamespace(submit=lambda *job: jobs.append(job))
    under_test = dispatcher(lambda request, services: request.body)
    under_test._services.record_work = work  # type: ignore[assignment]
    connection = FakeConnection()
    for body in ("slow", "quick"):
        request = connection.request(body, api_key=KEY)
        request.header = SlowHeader(KEY, 0, 1, "test")
        under_test.dispatch(request)
    assert answered(connection) == ["quick"]
    ((owner, client, encode, ended),) = jobs
    assert (owner, client) == (Owner.REQUEST, connection)
    if error is None:
        encode()
    ended(error)
    refused = 0 if error else 2
    assert answered(connection)[1:] == ["slow" if error is None else ErrorCode.UNKNOWN_SERVER_ERROR]
    assert under_test._services.metrics.record_walks_refused == refused
    assert len(failures.take()) == (error is not None)


async def test_an_answer_that_a_stop_leaves_unopened_is_no_error_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    jobs: list[Any] = []
    work = SimpleNamespace(submit=lambda *job: jobs.append(job))
    under_test = dispatcher(lambda request, services: request.body)
    under_test._services.record_work = work  # type: ignore[assignment]
    connection = FakeConnection()
    request = connection.request("slow", api_key=KEY)
    request.header = SlowHeader(KEY, 0, 1, "test")
    with caplog.at_level(logging.INFO, "barnabas.requests"):
        under_test.dispatch(request)
        jobs[0][3](WalkAbandoned())
    assert answered(connection) == [ErrorCode.REQUEST_TIMED_OUT]
    assert [record.levelname for record in caplog.records] == ["INFO"]
