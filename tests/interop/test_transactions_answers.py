"""Transactions, request by request: the answers of Apache Kafka 4.3, and the same of Barnabas.

One table (`transaction_cases`, `transaction_effects`), asked of both brokers; the answers stand in
it. Where Barnabas is meant to answer something else, that stands beside them, with the reason.
"""

from collections.abc import Iterator

import pytest

from protocol.api_keys import ApiKey
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.interop import transaction_cases, transaction_effects
from tests.interop.group_requests import State
from tests.interop.transaction_brokers import kafka_with_transactions, ours_with_transactions
from tests.interop.transaction_requests import STATE_TOPIC
from tests.interop.transactor import Transactor

pytestmark = pytest.mark.interop

CASES = {**transaction_cases.CASES, **transaction_effects.CASES}
EPOCH_GIVEN_MAX = 32766  # the last one is for the marker of what it writes
# The versions that Kafka's clients and brokers may use.
VERSIONS = {
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 5),
    ApiKey.WRITE_TXN_MARKERS: (1, 2),
    ApiKey.TXN_OFFSET_COMMIT: (0, 5),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 2),
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[State]:
    """Apache Kafka."""
    with kafka_with_transactions(tmp_path_factory.mktemp("kafka")) as state:
        yield state


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[State]:
    """Barnabas."""
    with ours_with_transactions(tmp_path_factory.mktemp("ours")) as state:
        yield state


@pytest.mark.parametrize("name", CASES)
def test_answers_of_kafka(kafka: State, name: str) -> None:
    case = CASES[name]
    assert case.ask(Transactor.create(kafka, name)) == case.kafkas


@pytest.mark.parametrize("name", CASES)
def test_our_answers(ours: State, name: str) -> None:
    case = CASES[name]
    assert case.ask(Transactor.create(ours, name)) == case.ours


def test_a_commit_can_be_read_as_soon_as_it_is_answered(ours: State) -> None:
    t = Transactor.create(ours, "read-at-once")
    t.init()
    for number in range(50):
        assert t.produce() == ("NONE", 2 * number)
        assert t.commit_offset(offset=number) == "NONE"
        assert t.end() == f"e+{number + 1}"
        assert t.offset_at() == 2 * number + 2
        assert t.offset_of_group(stable=True) == number
        assert t.state_name() == "CompleteCommit"


def test_the_state_topic_neither_grows_nor_goes(ours: State) -> None:
    t = Transactor(ours, "clerk")
    assert t.grow(STATE_TOPIC, 60) == "INVALID_REQUEST"
    assert t.delete_topic(STATE_TOPIC) == "INVALID_REQUEST"


def finalized(state: State) -> dict[str, int]:
    """Return the level of each finalized feature."""
    request = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
    answer = state.call(request, ApiVersionsResponse, 4)
    return {one.name: one.max_version_level for one in answer.finalized_features}


def test_version_2_of_transactions_is_finalized(ours: State) -> None:
    assert finalized(ours)["transaction.version"] == 2


def test_version_2_of_transactions_is_finalized_in_kafka(kafka: State) -> None:
    assert finalized(kafka)["transaction.version"] == 2


def exhausted(state: State) -> list[object]:
    """Use up the epochs of a producer id, and say what follows."""
    t = Transactor.create(state, "exhausted")
    t.init()
    pid = t.producer_id
    while t.epoch < EPOCH_GIVEN_MAX:
        t.init()
    last = t.epoch
    found: list[object] = [last, t.produce(), t.end(keep=False)]
    t.rest()
    found += [t.end(keep=False), t.end(), t.producer_id != pid, t.read()]
    found += [t.produce(), t.end()]
    t.rest()
    found.append(t.state_name())
    # The same without a transaction.
    other = Transactor.create(state, "exhausted-by-starts")
    other.init()
    pid = other.producer_id
    while other.epoch < EPOCH_GIVEN_MAX:
        other.init()
    return [*found, other.init() == "another id, epoch 0", other.producer_id != pid]


EXHAUSTED = [
    *[EPOCH_GIVEN_MAX, ("NONE", 0), "another id, epoch 0"],
    *["another id, epoch 0", "another id, epoch 0", True, ([b"v"], 2, 2, [])],
    *[("NONE", 2), "another id, epoch 1", "CompleteCommit"],
    *[True, True],
]


def test_epochs_of_kafka_are_used_up(kafka: State) -> None:
    assert exhausted(kafka) == EXHAUSTED


def test_our_epochs_are_used_up(ours: State) -> None:
    assert exhausted(ours) == EXHAUSTED


def test_versions_are_kafkas(kafka: State) -> None:
    assert {key: kafka.connection.versions[key] for key in VERSIONS} == VERSIONS


def test_our_versions(ours: State) -> None:
    assert {key: ours.connection.versions[key] for key in VERSIONS} == VERSIONS
