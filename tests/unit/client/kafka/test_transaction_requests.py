"""What the attempts make of answers; the producer's tests cover the good ones."""

from __future__ import annotations

import pytest

from client.kafka import transaction_requests as requests
from client.kafka.connection import Connection, NotServed
from client.kafka.patience import Again
from client.places import Place
from client.transactions.epoch import Epoch
from client.transactions.errors import RequestFailed
from protocol.messages import add_partitions_to_txn as messages
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.metadata import MetadataRequest
from tests.support.scripted_broker import ScriptedBroker
from tests.support.scripted_transactions import ScriptedTransactions


@pytest.fixture
def scripted():
    return ScriptedTransactions()


@pytest.fixture
def connection(scripted):
    with (
        ScriptedBroker(scripted.answers, features=scripted.features) as broker,
        Connection(broker.address, 2) as found,
    ):
        yield found


@pytest.mark.parametrize(
    ("level", "newest", "expected"), [(2, 5, True), (1, 5, False), (0, 5, False), (2, 4, False)]
)
def test_version_2_must_be_finalized_and_served(scripted, level, newest, expected):
    versions = {EndTxnRequest: (0, newest)}
    features = {"transaction.version": level}
    with (
        ScriptedBroker(scripted.answers, versions=versions, features=features) as broker,
        Connection(broker.address, 2) as connection,
    ):
        assert requests.has_version_2(connection) is expected


def test_the_partition_that_is_at_fault_is_named(scripted, connection):
    def refuse(_request):
        result = messages.AddPartitionsToTxnPartitionResult
        return messages.AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                messages.AddPartitionsToTxnTopicResult(
                    name="orders",
                    results_by_partition=[
                        result(partition_index=0, partition_error_code=55),
                        result(partition_index=9, partition_error_code=3),
                    ],
                )
            ]
        )

    scripted.answers[messages.AddPartitionsToTxnRequest] = refuse
    with (
        ScriptedBroker(scripted.answers) as broker,
        Connection(broker.address, 2) as second,
        pytest.raises(RequestFailed, match=r"orders-9 in the transaction: UNKNOWN_TOPIC"),
    ):
        requests.add_partitions(second, Epoch("t", 0, 0), [Place("orders", 0), Place("orders", 9)])


def test_a_missing_coordinator_is_looked_for(scripted, connection):
    scripted.refuse[InitProducerIdRequest] = [16]
    with pytest.raises(Again, match=r"NOT_COORDINATOR.* Its coordinator is elsewhere:9\."):
        requests.initialize(connection, Epoch("t", -1, -1), 60_000)


@pytest.mark.parametrize(("code", "error"), [(5, Again), (17, RequestFailed), (29, RequestFailed)])
def test_a_topic_without_partitions_is_asked_for_again_or_not(scripted, connection, code, error):
    scripted.refuse[MetadataRequest] = [code]
    with pytest.raises(error, match="topic 'orders'"):
        requests.partition_count(connection, "orders")
    assert requests.partition_count(connection, "orders") == 2


def test_an_old_broker_cannot_reset_an_epoch(scripted):
    with (
        ScriptedBroker(scripted.answers, versions={InitProducerIdRequest: (0, 2)}) as broker,
        Connection(broker.address, 2) as connection,
    ):
        assert requests.initialize(connection, Epoch("t", -1, -1), 1).producer_epoch == 0
        with pytest.raises(NotServed, match="version 3 or later"):
            requests.initialize(connection, Epoch("t", 0, 0), 1)
