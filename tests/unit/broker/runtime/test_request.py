"""A request knows its connection, and calls back when the connection closes.

A pending answer is completed once, by the first caller.
"""

import pytest

from broker.runtime.request import ConnectionInfo, Pending
from tests.support.fake_connection import LISTENER, NO_DIALECT, FakeConnection


def test_a_connection_is_known_by_both_its_ends() -> None:
    info = ConnectionInfo(LISTENER, NO_DIALECT, ("127.0.0.1", 9092), ("10.0.0.7", 50_000))
    assert (info.local_host, info.local_port) == ("127.0.0.1", 9092)
    assert (info.peer_host, info.peer_port) == ("10.0.0.7", 50_000)
    assert info.listener is LISTENER


def test_a_request_is_the_empty_slot_of_its_answer() -> None:
    connection = FakeConnection()
    request = connection.request("body", api_key=3, version=9, number=7)
    assert request.buffers is None, "no answer yet, which () would be"
    assert (request.body, request.info) == ("body", connection.info)
    assert (request.header.api_key, request.header.correlation_id) == (3, 7)


@pytest.mark.parametrize("is_parked", [False, True])
def test_a_parked_request_calls_back_when_its_connection_closes(is_parked: bool) -> None:
    request = FakeConnection().request("body")
    told: list[str] = []
    if is_parked:
        request.on_abandon = lambda: told.append("gone")
    assert request.abandon() is is_parked
    assert request.abandoned
    assert told == (["gone"] if is_parked else [])


@pytest.mark.parametrize("is_answered", [False, True])
def test_an_abandoned_request_loses_its_connection_and_releases_its_memory(
    is_answered: bool,
) -> None:
    connection = FakeConnection()
    request = connection.request("body")
    request.buffers = (b"answer",) if is_answered else None
    request.give_up()
    assert connection.aborted == ["internal error"]
    assert connection.sent == ([] if is_answered else [()])


def unexpected(error: Exception) -> None:
    raise AssertionError(error)


def test_subscribers_before_and_after_completion_are_called_once() -> None:
    heard: list[str] = []
    early = Pending()
    early.then(heard.append, unexpected)
    early.complete("first")
    early.complete("second")
    assert heard == ["first"]
    late = Pending()
    late.complete("there")
    late.then(heard.append, unexpected)
    assert heard == ["first", "there"]


def test_waiters_learn_that_there_is_no_answer() -> None:
    failures: list[Exception] = []
    error = KeyError("nobody thought of it")
    early = Pending()
    early.then(unexpected, failures.append)
    early.fail(error)
    early.complete("too late")
    late = Pending()
    late.fail(error)
    late.then(unexpected, failures.append)
    assert failures == [error, error]


def test_the_first_answer_stays() -> None:
    heard: list[str] = []
    pending = Pending()
    pending.then(heard.append, unexpected)
    pending.complete("there")
    pending.fail(KeyError("afterwards"))
    assert heard == ["there"]
