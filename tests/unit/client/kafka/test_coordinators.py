"""Asking a coordinator again, with answers that are scripted."""

from types import SimpleNamespace

import pytest

from client.kafka.connection import BrokerError
from client.kafka.coordinators import RETRY_S, TRIES, ask_patiently, find_coordinator
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import GROUP, TRANSACTION

LOADING, MOVED, INVALID = 14, 16, 42


class Scripted:
    """A connection whose broker names a coordinator, or none."""

    def __init__(self, host="elsewhere"):
        self.host = host
        self.asked = []
        self.versions = []

    def call(self, request, _response, version_min=0):
        self.asked.append((request.key_type, request.coordinator_keys))
        self.versions.append(version_min)
        code = 0 if self.host else 15
        found = SimpleNamespace(error_code=code, host=self.host, port=9192)
        return SimpleNamespace(coordinators=[found])


def ask(connection, codes, key="g", kind=GROUP):
    """Ask for answers with these codes; return the answer's number and the pauses."""
    pauses = []
    numbers = iter(codes)
    answers = iter(range(len(codes)))
    found = ask_patiently(
        connection,
        (kind, key),
        lambda: (next(answers), next(numbers)),
        "it failed",
        lambda code: code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        wait=pauses.append,
    )
    return found, pauses


def test_what_is_worth_waiting_for_is_asked_again():
    connection = Scripted()
    assert ask(connection, [0]) == (0, [])
    assert ask(connection, [LOADING, LOADING, 0]) == (2, [RETRY_S, RETRY_S])
    assert connection.asked == []


def test_other_errors_are_told_at_once():
    with pytest.raises(BrokerError, match=r"it failed: INVALID_REQUEST \(42\)"):
        ask(Scripted(), [INVALID])


@pytest.mark.parametrize(("kind", "version_min"), [(GROUP, 0), (TRANSACTION, 1)])
def test_a_coordinator_elsewhere_is_looked_for_and_named(kind, version_min):
    connection = Scripted()
    with pytest.raises(BrokerError, match="Its coordinator is elsewhere:9192: ask there"):
        ask(connection, [MOVED] * TRIES, kind=kind)
    assert connection.asked == [(kind, ["g"])] * TRIES
    assert set(connection.versions) == {version_min}


def test_a_request_about_all_looks_for_no_coordinator():
    connection = Scripted()
    with pytest.raises(BrokerError):
        ask(connection, [MOVED], key="")
    assert connection.asked == []


def test_none_is_named_while_there_is_none():
    assert find_coordinator(Scripted(host=""), GROUP, "g") == ""
