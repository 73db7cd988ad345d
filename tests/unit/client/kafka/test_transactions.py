"""Transactions for operators: lists, descriptions, aborts, and what hangs."""

from __future__ import annotations

import pytest

from client.kafka import coordinators, transactions
from client.kafka.connection import BrokerError, Connection
from client.places import Place
from protocol.messages.describe_producers import DescribeProducersRequest, ProducerState
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from tests.support.scripted_broker import ScriptedBroker
from tests.support.scripted_transactions import ScriptedId, ScriptedTransactions

ORDERS = {"orders": [0, 1]}
LATER_MS = 1_800_000_000_000


@pytest.fixture
def scripted(monkeypatch):
    monkeypatch.setattr(coordinators, "RETRY_S", 0)
    found = ScriptedTransactions()
    found.ids["open"] = ScriptedId(5, state="Ongoing", partitions=[("orders", 0)])
    found.ids["done"] = ScriptedId(4, state="CompleteCommit", timeout_ms=1000)
    return found


@pytest.fixture
def connection(scripted):
    with ScriptedBroker(scripted.answers) as broker, Connection(broker.address, 2) as found:
        yield found


def stranger(**fields):
    values = {"producer_id": 99, "producer_epoch": 0, "last_timestamp": 1, "coordinator_epoch": 0}
    return ProducerState(**{**values, "current_txn_start_offset": 3, **fields})


def test_ids_are_listed_in_order_and_filtered(connection):
    def names(**filters):
        found = transactions.list_transactions(connection, **filters)
        return [one.transactional_id for one in found]

    assert names() == ["done", "open"]
    assert names(states=["Ongoing"]) == ["open"]
    assert names(producer_ids=[4]) == ["done"]
    assert names(open_for_ms=0) == ["open"]
    with pytest.raises(BrokerError, match="knows no state Nope"):
        names(states=["Nope"])


@pytest.mark.parametrize("code", [14, 15, 16])
def test_a_loading_coordinator_is_waited_for(scripted, connection, code):
    scripted.refuse[DescribeTransactionsRequest] = [code, code]
    scripted.refuse[ListTransactionsRequest] = [14]
    assert transactions.describe(connection, "open").producer_id == 5
    assert len(transactions.list_transactions(connection)) == 2


def test_an_unknown_id_is_an_error_with_a_suggestion(scripted, connection):
    with pytest.raises(BrokerError, match=r"no transactional id 'opn' .* Did you mean open\?"):
        transactions.describe(connection, "opn")
    scripted.ids.clear()
    with pytest.raises(BrokerError, match=r"There are none\."):
        transactions.describe(connection, "opn")


def test_a_coordinator_elsewhere_is_named(scripted, connection):
    scripted.refuse[DescribeTransactionsRequest] = [16] * 100
    with pytest.raises(BrokerError, match="Its coordinator is elsewhere:9: ask there"):
        transactions.describe(connection, "open")


def test_an_abort_is_an_operators(scripted, connection):
    scripted.refuse[InitProducerIdRequest] = [51, 51]
    epoch = transactions.abort(connection, "open", 60_000, wait=lambda _pause_s: None)
    assert epoch == ("open", 5, 2)
    ended = transactions.describe_once(connection, "open").last_end
    assert (ended.committed, ended.reason) == (False, "operator")
    assert transactions.describe_once(connection, "nobody") is None


def test_an_abort_that_does_not_come_to_an_end_says_so(scripted, connection):
    scripted.refuse[InitProducerIdRequest] = [51] * 100
    with pytest.raises(BrokerError, match=r"'open' is not aborted yet: .*CONCURRENT"):
        transactions.abort(connection, "open", 60_000, wait=lambda _pause_s: None)


def test_what_is_open_holds_the_stable_offset(scripted, connection):
    (one,) = transactions.open_in(connection, ORDERS)
    assert (one.place, one.producer_id, one.first_offset) == (Place("orders", 0), 5, 7)
    stable = transactions.stable_offsets(connection, ORDERS)
    assert stable == {Place("orders", 0): 7, Place("orders", 1): 12}
    scripted.refuse[DescribeProducersRequest] = [3]
    with pytest.raises(BrokerError, match="producers of orders-0: UNKNOWN_TOPIC"):
        transactions.open_in(connection, ORDERS)


def test_nothing_hangs_while_its_coordinator_knows_it(connection):
    assert transactions.find_hanging(connection, ORDERS, LATER_MS) == []


def test_what_no_coordinator_will_end_hangs(scripted, connection):
    scripted.strangers = [stranger(), stranger(producer_id=4)]
    found = {
        one.transaction.producer_id: (one.transactional_id, one.why)
        for one in transactions.find_hanging(connection, ORDERS, LATER_MS)
    }
    assert found == {
        99: (None, "no transactional id has this producer id"),
        4: ("done", "its id is CompleteCommit, without this partition"),
    }


def test_what_was_written_lately_does_not_hang_yet(scripted, connection):
    scripted.strangers = [stranger(last_timestamp=LATER_MS)]
    assert transactions.find_hanging(connection, ORDERS, LATER_MS) == []
