"""DescribeTransactions: state, producer and partitions of an id, and how its last one ended."""

from types import SimpleNamespace

import pytest

from broker.handlers.describe_transactions import error_response, handle
from broker.runtime.steps import finished
from protocol.errors import ErrorCode
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from storage.errors import LogFailed
from tests.support.broker_rig import Rig
from tests.support.rig_client import create
from tests.support.transaction_client import SETTINGS, begin


@pytest.fixture
async def rig(tmp_path):
    made = Rig(tmp_path / "data", **SETTINGS)
    yield made
    await made.close()


def describe(rig, *names):
    request = SimpleNamespace(body=DescribeTransactionsRequest(transactional_ids=list(names)))
    return finished(handle(request, rig.services)).transaction_states


def topics_of(state):
    return {topic.topic: topic.partitions for topic in state.topics}


async def test_without_the_log_of_transactions_nothing_is_coordinated(rig):
    (state,) = describe(rig, "t")
    assert state.error_code == ErrorCode.NOT_COORDINATOR


async def test_ids_that_do_not_exist(rig):
    await begin(rig)
    unknown, empty = describe(rig, "other", "", "other")
    assert (unknown.transactional_id, unknown.error_code) == ("other", 105)
    assert (empty.transactional_id, empty.error_code) == ("", ErrorCode.INVALID_REQUEST)


async def test_an_id_through_its_life(rig):
    producer = await begin(rig)
    await create(rig, "a", 2)
    await create(rig, "b")
    (state,) = describe(rig, "t")
    assert (state.transaction_state, state.transaction_start_time_ms) == ("Empty", -1)
    assert (state.producer_id, state.producer_epoch) == (producer.producer_id, 0)
    assert state.transaction_timeout_ms == 60_000
    assert state.topics == []
    assert state.last_end is None

    for topic, number in (("a", 1), ("b", 0), ("a", 0)):
        assert not (await producer.produce(topic, number)).error_code
    (state,) = describe(rig, "t")
    assert state.transaction_state == "Ongoing"
    assert state.transaction_start_time_ms > 0
    assert topics_of(state) == {"a": [1, 0], "b": [0]}

    started_ms = state.transaction_start_time_ms
    await producer.end(is_commit=False)
    (state,) = describe(rig, "t")
    assert state.transaction_state == "CompleteAbort"
    assert state.transaction_start_time_ms == started_ms, "as in Kafka"
    assert topics_of(state) == {}
    assert (state.last_end.committed, state.last_end.reason) == (False, "client")
    assert state.last_end.time_ms >= started_ms


async def test_an_end_that_is_owed_names_the_partitions_that_lack_its_marker(rig):
    producer = await begin(rig)
    await create(rig, "a", 2)
    for number in (0, 1):
        await producer.produce("a", number)
    log = rig.services.partitions.get("a", 1).log
    log.failed = LogFailed("a-1", "on purpose")
    assert await producer.end(is_commit=False) == 0
    (state,) = describe(rig, "t")
    assert state.transaction_state == "PrepareAbort"
    assert topics_of(state) == {"a": [1]}
    log.failed = None


def test_a_refused_request_has_a_code_for_each_id():
    request = SimpleNamespace(body=DescribeTransactionsRequest(transactional_ids=["a", "b"]))
    states = error_response(request, ErrorCode.INVALID_REQUEST).transaction_states
    assert [(one.transactional_id, one.error_code) for one in states] == [("a", 42), ("b", 42)]
