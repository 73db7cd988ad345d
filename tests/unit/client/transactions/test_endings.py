"""What a refusal of a transaction's request means."""

from __future__ import annotations

import pytest

from client.codes import BrokerError
from client.transactions.endings import (
    OPERATOR,
    REPLACED,
    TIMEOUT,
    ended_by_broker,
    explained,
    fenced,
)
from client.transactions.errors import RequestFailed, TransactionAborted, TransactionTimedOut
from protocol.messages.describe_transactions import LastEnd


@pytest.mark.parametrize("of_commit", [True, False])
@pytest.mark.parametrize("code", REPLACED)
def test_a_replaced_epoch_is_not_explained_yet(code, of_commit):
    assert explained(RequestFailed("why", code), "x", of_commit=of_commit) is None


def test_a_state_that_allows_no_commit_is_over_and_other_refusals_are_themselves():
    wrong_state, too_large = RequestFailed("why", 48), RequestFailed("why", 10)
    assert explained(wrong_state, "x", of_commit=True) is None
    assert explained(wrong_state, "x") is wrong_state
    assert explained(too_large, "x", of_commit=True) is too_large
    lost = BrokerError("no answer")
    assert explained(lost, "x") is lost
    must_abort = explained(RequestFailed("why", 120), "x")
    assert isinstance(must_abort, TransactionAborted)
    assert not must_abort.is_over


@pytest.mark.parametrize(
    ("ended", "open_s", "cls", "words"),
    [
        (LastEnd(reason=TIMEOUT), 5.0, TransactionTimedOut, "open for 5.0 s, and its timeout is 9"),
        (None, 9.5, TransactionTimedOut, "open for 9.5 s"),
        (None, 5.0, TransactionAborted, "The broker does not say more"),
        (LastEnd(reason=OPERATOR), 50.0, TransactionAborted, "An operator ended it"),
    ],
)
def test_how_the_broker_ended_it(ended, open_s, cls, words):
    found = ended_by_broker("x", ended, open_s, 9000)
    assert type(found) is cls
    assert words in str(found)


def test_a_fenced_producer_is_told_by_whom():
    assert "an operator ended" in str(fenced("x", LastEnd(reason=OPERATOR)))
    assert "a newer producer has taken over" in str(fenced("x", None))
