"""A held id: what is asked of the broker, and when. The producer's tests cover the errors."""

from __future__ import annotations

import pytest

from client.kafka.connection import BrokerError
from client.kafka.held_id import HeldId
from client.kafka.patience import PatientConnection
from client.transactions.endings import FENCED
from client.transactions.errors import ProducerFenced, RequestFailed, TransactionAborted
from protocol.errors import ErrorCode
from tests.support.scripted_broker import ScriptedBroker
from tests.support.scripted_transactions import ScriptedTransactions


@pytest.fixture
def scripted():
    return ScriptedTransactions()


@pytest.fixture
def held(scripted):
    with ScriptedBroker(scripted.answers, features=scripted.features) as broker:
        patient = PatientConnection(broker.address, 2, wait=lambda _pause_s: None)
        made = HeldId(patient, "billing", 60_000, 1.0)
        made.initialize()
        yield made
        patient.close()


def test_an_id_begins_with_an_epoch_and_keeps_it_until_it_must_be_reset(held):
    held.prepare()
    assert held.epoch == ("billing", 0, 0)
    held.must_reset = True
    held.prepare()
    assert held.epoch == ("billing", 0, 1)
    assert not held.must_reset


def test_a_fenced_id_stays_fenced(scripted, held):
    scripted.ids["billing"].epoch += 5
    held.must_reset = True
    for _ in range(2):
        with pytest.raises(ProducerFenced):
            held.prepare()
    assert held.is_fenced


def test_errors_of_records_and_of_connections_are_what_they_say(held):
    for error in (BrokerError("it hung up"), RequestFailed("too large", 10)):
        assert held.explained(error, 1) is error
    must = held.explained(RequestFailed("x", ErrorCode.TRANSACTION_ABORTABLE), 1)
    assert isinstance(must, TransactionAborted)
    assert not must.is_over


def test_an_invalid_state_ends_a_commit_only(scripted, held):
    error = RequestFailed("x", ErrorCode.INVALID_TXN_STATE)
    assert held.explained(error, 1) is error
    scripted.ids["billing"].epoch += 1
    assert isinstance(held.explained(error, 1, of_commit=True), TransactionAborted)
    assert held.epoch.producer_epoch == 1


def test_the_open_transaction_of_a_newer_producer_is_left_alone(scripted, held):
    newer = scripted.ids["billing"]
    newer.epoch, newer.state = 1, "Ongoing"
    error = RequestFailed("x", ErrorCode.INVALID_PRODUCER_EPOCH)
    assert isinstance(held.explained(error, 1), ProducerFenced)
    assert (newer.epoch, newer.state) == (1, "Ongoing")


def test_an_id_that_is_being_taken_over_is_not_asked_for(scripted, held):
    """The newer producer was told to ask again; until it does, the older one could go on."""
    scripted.end_all("billing", FENCED)
    error = RequestFailed("x", ErrorCode.INVALID_PRODUCER_EPOCH)
    assert isinstance(held.explained(error, 1), ProducerFenced)
    assert scripted.ids["billing"].epoch == 1
