"""Requests that are repeated: for how long, after which errors, on which connection."""

from __future__ import annotations

import pytest

from client.kafka import patience
from client.kafka.connection import BrokerError, NotServed
from client.kafka.patience import Again, OutOfTime, PatientConnection
from client.transactions.errors import ProducerFenced, RequestFailed
from tests.support.scripted_broker import ScriptedBroker


class Pauses:
    """A clock, and the pauses that were asked for."""

    def __init__(self):
        self.now_s = 0.0
        self.taken = []

    def wait(self, pause_s):
        self.taken.append(pause_s)
        self.now_s += pause_s


@pytest.fixture
def pauses():
    return Pauses()


@pytest.fixture
def broker():
    with ScriptedBroker({}) as scripted:
        yield scripted


@pytest.fixture
def patient(broker, pauses):
    made = PatientConnection(broker.address, 2, clock=lambda: pauses.now_s, wait=pauses.wait)
    yield made
    made.close()


def attempts(*outcomes):
    """Return an attempt with these outcomes, and the connections that it was given."""
    left, given = list(outcomes), []

    def attempt(connection):
        given.append(connection)
        outcome = left.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return attempt, given


def test_an_answer_that_asks_for_it_repeats_on_the_same_connection(patient, pauses):
    attempt, given = attempts(Again("a"), Again("b"), "done")
    assert patient.repeat(attempt, 1) == "done"
    assert given[0] is given[1] is given[2]
    assert pauses.taken == [patience.FIRST_PAUSE_S, 2 * patience.FIRST_PAUSE_S]


def test_a_lost_connection_is_opened_again(patient):
    attempt, given = attempts(BrokerError("it hung up"), "done")
    assert patient.repeat(attempt, 1) == "done"
    assert given[0] is not given[1]


@pytest.mark.parametrize("error", [NotServed("n"), RequestFailed("r", 3), ProducerFenced("f")])
def test_errors_that_last_are_raised_at_once(patient, pauses, error):
    attempt, _ = attempts(error)
    with pytest.raises(type(error)):
        patient.repeat(attempt, 1)
    assert pauses.taken == []


def test_time_runs_out_with_the_last_reason(patient, pauses):
    attempt, _ = attempts(*[Again("still loading")] * 100)
    with pytest.raises(OutOfTime, match="no success within 3 s: still loading"):
        patient.repeat(attempt, 3)
    assert 2 < pauses.now_s <= 3
    assert max(pauses.taken) <= patience.PAUSE_S_MAX


def test_an_interrupted_request_closes_the_connection(patient):
    attempt, given = attempts(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        patient.repeat(attempt, 1)
    attempt, later = attempts("done")
    patient.repeat(attempt, 1)
    assert given[0] is not later[0]
