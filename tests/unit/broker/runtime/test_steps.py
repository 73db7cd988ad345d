"""Answers in steps: one slice per turn for all, in rotation, and a limit on their size."""

import asyncio
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

from broker.runtime import steps as under_test
from broker.runtime.clock import MS_NS, ManualClock
from broker.runtime.metrics import Metrics
from broker.runtime.request import Pending
from broker.runtime.steps import SLICE_NS, AnswerTooLarge, Stepper, finished
from protocol.api_keys import ApiKey
from tests.support.fake_connection import FakeConnection

SLICE_MS = SLICE_NS // MS_NS


class Bench:
    """A stepper whose steps take a millisecond of the clock each."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.metrics = Metrics()
        self.taken: list[str] = []
        self.answers: dict[str, Any] = {}
        self.connection = FakeConnection()
        self.stepper = Stepper(self.clock, self.metrics, self._answer, self._fail)

    def _answer(self, request: Any, result: Any) -> None:
        if type(result) is Pending:
            result.then(lambda response: self._answer(request, response), print)
        else:
            self.answers[request.body] = result

    def _fail(self, request: Any, error: Exception) -> None:
        self.answers[request.body] = error

    def steps(self, name: str, count: int, size: int = 0, result: Any = "made") -> Any:
        for _ in range(count):
            self.taken.append(name)
            self.clock.advance(1)
            yield size
        return result

    def begin(self, name: str, count: int, **how: Any) -> Any:
        request = self.connection.request(name)
        self.stepper.begin(request, self.steps(name, count, **how))
        return request

    async def turns(self, count: int = 1) -> None:
        for _ in range(count):
            await asyncio.sleep(0)


async def test_a_small_answer_is_sent_at_once() -> None:
    bench = Bench()
    bench.begin("small", SLICE_MS - 1)
    assert bench.answers == {"small": "made"}
    assert not bench.stepper.is_busy
    assert bench.metrics.answers_in_steps == 0


async def test_a_turn_of_the_loop_has_one_slice_for_all_requests_in_work() -> None:
    bench = Bench()
    for name in "abc":
        bench.begin(name, 5 * SLICE_MS)
    assert bench.taken == ["a"] * SLICE_MS
    longest = 0
    while bench.stepper.is_busy:
        before = len(bench.taken)
        await bench.turns()
        longest = max(longest, len(bench.taken) - before)
    assert longest <= SLICE_MS
    assert set(bench.taken[: 5 * SLICE_MS]) == {"a", "b", "c"}, "in rotation"
    assert [buffers[0][1] for buffers in bench.connection.sent] == ["made"] * 3
    assert bench.metrics.answers_in_steps == 3


async def test_an_answer_made_in_steps_is_encoded_in_steps_even_after_a_wait() -> None:
    bench = Bench()
    pending = Pending()
    bench.begin("waits", 3 * SLICE_MS, result=pending)
    while bench.stepper.is_busy:
        await bench.turns()
    assert bench.connection.sent == []
    pending.complete("response")
    assert bench.connection.sent == []
    while bench.stepper.is_busy:
        await bench.turns()
    assert [buffers[0][1] for buffers in bench.connection.sent] == ["response"]


async def test_an_answer_may_be_made_in_steps_once_more_after_a_wait() -> None:
    """As that of OffsetFetch, if the offsets that it has found do not become durable."""
    bench = Bench()
    pending = Pending()
    bench.begin("waits", 3 * SLICE_MS, result=pending)
    while bench.stepper.is_busy:
        await bench.turns()
    pending.complete(bench.steps("again", 3 * SLICE_MS, result="other"))
    while bench.stepper.is_busy:
        await bench.turns()
    assert bench.taken.count("again") == 3 * SLICE_MS
    assert [buffers[0][1] for buffers in bench.connection.sent] == ["other"]


@pytest.mark.parametrize("count", [1, SLICE_MS, 3 * SLICE_MS])
async def test_the_time_of_steps_counts_for_quotas(count: int) -> None:
    bench = Bench()
    spent: list[int] = []

    def finish(request: Any, response: Any) -> Any:
        spent.append(request.spent_ns)
        yield 0
        return response

    def answer(request: Any, _: Any) -> None:
        spent.append(request.spent_ns)

    bench.stepper = Stepper(bench.clock, bench.metrics, answer, bench._fail, finish)
    request = bench.connection.request("counted")
    request.spent_ns = 7
    bench.stepper.begin(request, bench.steps("counted", count))
    while bench.stepper.is_busy:
        await bench.turns()
    assert spent == [7 + count * MS_NS]


async def test_an_answer_that_is_too_large_is_refused_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(under_test, "ANSWER_BYTES_MAX", 100)
    bench = Bench()
    bench.begin("large", 1000, size=10)
    while bench.stepper.is_busy:
        await bench.turns()
    assert isinstance(bench.answers["large"], AnswerTooLarge)
    assert len(bench.taken) == 11


async def test_an_answer_that_becomes_too_large_when_it_is_encoded_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(under_test, "ANSWER_BYTES_MAX", 100)
    bench = Bench()

    def encode(header: Any, response: Any) -> Generator[int, None, list[Any]]:
        yield from bench.steps("encode", 20, 10)
        return [response]

    dialect = type("Dialect", (), {"encode_in_steps": staticmethod(encode)})
    monkeypatch.setattr(bench.connection.info, "dialect", dialect)
    bench.begin("large", 2 * SLICE_MS)
    while bench.stepper.is_busy:
        await bench.turns()
    assert isinstance(bench.answers["large"], AnswerTooLarge)


async def test_work_for_a_closed_connection_stops() -> None:
    bench = Bench()
    gone = bench.begin("gone", 100 * SLICE_MS)
    gone.abandoned = True
    await bench.turns(2)
    assert bench.answers == {"gone": None}
    assert len(bench.taken) == SLICE_MS


async def test_a_step_that_fails_fails_its_request_alone() -> None:
    bench = Bench()

    def fails() -> Generator[int, None, None]:
        yield from bench.steps("fails", 2 * SLICE_MS)
        raise ValueError("on purpose")

    bench.stepper.begin(bench.connection.request("fails"), fails())
    bench.begin("fine", 2 * SLICE_MS)
    while bench.stepper.is_busy:
        await bench.turns()
    assert isinstance(bench.answers["fails"], ValueError)
    assert [buffers[0][1] for buffers in bench.connection.sent] == ["made"]


def test_all_steps_at_once() -> None:
    assert finished(Bench().steps("all", 3)) == "made"


async def test_records_are_not_opened_in_steps() -> None:
    """An answer whose records are opened is encoded whole, in a thread if they are many."""
    bench = Bench()
    request = bench.begin("maps", 3 * SLICE_MS)
    request.header = SimpleNamespace(opens_records=True)
    await bench.turns(4)
    assert bench.answers == {"maps": "made"}
    assert bench.connection.sent == []


@pytest.mark.parametrize(
    ("api_key", "size", "is_made"),
    [(ApiKey.FETCH, 1_500, True), (ApiKey.FETCH, 1_501, False), (ApiKey.METADATA, 501, False)],
)
async def test_records_that_a_fetch_may_have_come_on_top_of_the_limit(
    monkeypatch: pytest.MonkeyPatch, api_key: int, size: int, *, is_made: bool
) -> None:
    monkeypatch.setattr(under_test, "ANSWER_BYTES_MAX", 500)
    bench = Bench()
    request = bench.connection.request("fetch", api_key=api_key)
    request.answer_bytes_max = 1_000
    bench.stepper.begin(request, bench.steps("fetch", 1, size=size))
    assert (bench.answers["fetch"] == "made") is is_made
