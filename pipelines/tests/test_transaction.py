"""The transaction of one producer, with a broker."""

from __future__ import annotations

import uuid

import pytest

from pyspark_barnabas.sink.transaction import Transaction
from pyspark_barnabas.wire.errors import TransactionLost


@pytest.fixture
def begin(topic):
    name = uuid.uuid4().hex
    return lambda: Transaction(topic.cluster, name, 60_000)


def test_it_begins_once_and_adds_each_partition_once(topic, begin):
    transaction = begin()
    assert not transaction.is_begun
    holder = transaction.begin()
    assert transaction.begin() == holder
    transaction.add([(topic.name, 0), (topic.name, 1)])
    transaction.add([(topic.name, 1)])
    assert transaction.commit()


def test_another_that_takes_the_id_over_ends_it(topic, begin):
    transaction, later = begin(), begin()
    transaction.add([(topic.name, 0)])
    later.begin()
    words = r"is over: it was open for longer than kafka.transaction.timeout.ms \(60000 ms\)"
    with pytest.raises(TransactionLost, match=words):
        transaction.add([(topic.name, 1)])
    assert not transaction.commit()
    transaction.abort()  # quietly: it is over


def test_an_abort_of_what_was_not_begun_asks_nothing(topic):
    Transaction(None, "id", 1).abort()
    assert topic.name
