"""The errors of the transactional producer: what a caller can tell by them."""

from __future__ import annotations

import pytest

from client.kafka.connection import BrokerError
from client.transactions import errors


@pytest.mark.parametrize(
    "cls",
    [
        errors.ProducerFenced,
        errors.TransactionTimedOut,
        errors.TransactionAborted,
        errors.OutcomeUnknown,
    ],
)
def test_each_is_an_error_of_the_transaction_and_of_the_broker(cls):
    error = cls("why")
    assert isinstance(error, errors.TransactionError)
    assert isinstance(error, BrokerError)
    assert (str(error), error.is_over) == ("why", True)


def test_a_transaction_that_must_be_aborted_is_not_over():
    assert not errors.TransactionAborted("why", is_over=False).is_over


def test_a_failed_request_keeps_its_code():
    assert errors.RequestFailed("why", 45).code == 45
