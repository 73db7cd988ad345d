"""ListTransactions: every id that passes all filters."""

from types import SimpleNamespace

import pytest

from broker.handlers.list_transactions import error_response, handle
from broker.runtime.steps import finished
from broker.transactions.transaction_errors import TransactionError
from protocol.errors import ErrorCode
from protocol.messages.list_transactions import ListTransactionsRequest
from tests.support.broker_rig import Rig
from tests.support.rig_client import create
from tests.support.transaction_client import SETTINGS, begin


def answer(rig, **filters):
    request = SimpleNamespace(body=ListTransactionsRequest(**filters))
    return finished(handle(request, rig.services))


def names(rig, **filters):
    response = answer(rig, **filters)
    assert response.error_code == 0
    return sorted(one.transactional_id for one in response.transaction_states)


@pytest.fixture
async def rig(tmp_path):
    """A broker with an idle id, one that was committed, and an open one."""
    made = Rig(tmp_path / "data", **SETTINGS)
    made.idle = await begin(made, "idle")
    made.done, made.open = await begin(made, "done"), await begin(made, "open")
    await create(made, "a")
    for producer in (made.done, made.open):
        assert not (await producer.produce()).error_code
    await made.done.end()
    yield made
    await made.close()


async def test_without_filters_all_are_listed(rig):
    response = answer(rig)
    found = {one.transactional_id: one.transaction_state for one in response.transaction_states}
    assert found == {"idle": "Empty", "done": "CompleteCommit", "open": "Ongoing"}
    ids = {one.transactional_id: one.producer_id for one in response.transaction_states}
    assert ids["open"] == rig.open.producer_id


@pytest.mark.parametrize(
    ("states", "expected", "unknown"),
    [
        (["Ongoing"], ["open"], []),
        (["Ongoing", "Empty"], ["idle", "open"], []),
        (["Ongoing", "Sleepy"], ["open"], ["Sleepy"]),
        (["Sleepy"], [], ["Sleepy"]),
        (["ongoing"], [], ["ongoing"]),
        (["Dead", "PrepareEpochFence"], [], []),
    ],
)
async def test_states_have_kafkas_names(rig, states, expected, unknown):
    assert names(rig, state_filters=states) == expected
    assert answer(rig, state_filters=states).unknown_state_filters == unknown


async def test_producer_ids(rig):
    wanted = [rig.open.producer_id, rig.idle.producer_id, 77]
    assert names(rig, producer_id_filters=wanted) == ["idle", "open"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [(None, 3), ("", 3), ("open", 1), ("o", 0), ("[od].*", 2), (".*e.*", 3)],
)
async def test_a_pattern_matches_the_whole_id(rig, pattern, expected):
    assert len(names(rig, transactional_id_pattern=pattern)) == expected


async def test_an_invalid_pattern_is_refused(rig):
    response = answer(rig, transactional_id_pattern="[")
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert response.transaction_states == []


async def test_durations_count_from_the_last_start_and_an_id_without_one_passes(rig):
    """As in Kafka (tried)."""
    started_ms = rig.services.transactions.find("open").started_ms
    clock = rig.services.clock
    rig.services.clock = SimpleNamespace(now_ms=lambda: started_ms + 100)
    assert names(rig, duration_filter=-1) == ["done", "idle", "open"]
    assert "open" in names(rig, duration_filter=99)
    assert names(rig, duration_filter=100_000) == ["idle"]
    assert "open" not in names(rig, duration_filter=100)
    rig.services.clock = clock


async def test_while_ids_are_loaded_none_are_listed(rig):
    class Loading:
        def check_all(self):
            raise TransactionError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

        def stop(self):
            """Do nothing."""

    rig.services.transactions.loading = Loading()
    assert answer(rig).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_refused_request_has_a_code():
    assert error_response(None, ErrorCode.INVALID_REQUEST).error_code == 42
