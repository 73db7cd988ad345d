"""An account releases its bytes once, and decides which requests may start."""

from broker.network.byte_budget import ByteBudget
from broker.network.connection_account import (
    USUAL_ANSWER_BYTES_MAX,
    ConnectionAccount,
    answer_bytes_max,
    own_bytes,
)
from broker.runtime.metrics import Metrics
from protocol.api_keys import ApiKey
from protocol.messages.fetch import FetchRequest


class Rig:
    """Two accounts on the same budgets; a connection's share of answers is 100 bytes."""

    def __init__(self) -> None:
        self.requests = ByteBudget(1_000, Metrics(), "budget_full_waits")
        self.answers = ByteBudget(400, Metrics(), "answers_full_waits")
        self.one = ConnectionAccount(self.requests, self.answers)
        self.two = ConnectionAccount(self.requests, self.answers)

    @property
    def used(self) -> tuple[int, int]:
        return self.requests.used_bytes, self.answers.used_bytes


def test_the_end_releases_all_but_started_requests_whose_answers_release_the_rest() -> None:
    rig = Rig()
    rig.one.received(70)
    rig.two.received(30)
    rig.one.reserved_bytes = 50
    rig.one.keep(20)
    rig.one.unsent(5)
    assert rig.used == (100, 25)
    rig.one.end(working_bytes=10)
    assert rig.used == (40, 0)
    rig.one.all_sent()
    rig.one.answered(10, 0)
    assert rig.used == (30, 0)
    rig.two.end(0)
    assert rig.used == (0, 0)


def test_reserved_bytes_count_for_requests_that_reserve() -> None:
    rig = Rig()
    rig.one.reserved_bytes = 90
    assert rig.one.may_start(10)
    assert not rig.one.may_start(11)
    assert rig.one.may_start(0)
    rig.one.keep(101)
    assert not rig.one.may_start(0), "too many answers wait"


def test_a_full_answer_budget_stops_large_answers_of_every_connection() -> None:
    rig = Rig()
    rig.one.keep(401)
    assert not rig.two.may_start(1)
    assert rig.two.may_start(0)
    rig.one.let_go(101)
    assert rig.two.may_start(1)


def test_a_fetch_reserves_its_max_bytes_and_other_requests_a_fixed_size() -> None:
    def fetch(max_bytes: int) -> FetchRequest:
        return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=max_bytes)

    for asked, reserved in ((-1, 0), (7, 7), (1_001, 1_000)):
        assert answer_bytes_max(ApiKey.FETCH, fetch(asked), 1_000) == reserved
    assert answer_bytes_max(ApiKey.PRODUCE, fetch(7), 1_000) == 0
    assert answer_bytes_max(ApiKey.METADATA, fetch(7), 1_000) == USUAL_ANSWER_BYTES_MAX


def test_views_of_mapped_files_are_not_counted() -> None:
    assert own_bytes([b"head", bytearray(b"ab"), memoryview(b"mapped")]) == 6
    assert own_bytes(()) == 0


def test_views_of_copies_are_counted() -> None:
    assert own_bytes([memoryview(bytearray(b"copied"))[:3]]) == 3
