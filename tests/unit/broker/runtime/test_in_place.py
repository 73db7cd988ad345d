"""Coroutines that need no task: when they run, what they may wait for, and how they end."""

import asyncio
from typing import Any

import pytest

from broker.runtime.in_place import PER_TURN, InPlace, Told
from broker.runtime.owners import Owner


class Outcomes:
    """Begins coroutines in place, and keeps what became of them."""

    def __init__(self) -> None:
        self.running = InPlace(Owner.REQUEST)
        self.results: list[Any] = []
        self.errors: list[Exception] = []

    def begin(self, coroutine: Any) -> None:
        self.running.begin(coroutine, self.results.append, self.errors.append)


@pytest.fixture
async def outcomes() -> Outcomes:
    return Outcomes()


async def test_it_begins_at_once_and_goes_on_within_tell(outcomes: Outcomes) -> None:
    first: Told[int] = Told()
    second: Told[int] = Told()

    async def both() -> int:
        return await first + await second

    outcomes.begin(both())
    assert outcomes.running.count == 1
    first.tell(1)
    assert not outcomes.results
    second.tell(2)
    assert outcomes.results == [3]
    assert outcomes.running.count == 0


async def test_what_is_told_before_it_is_awaited_does_not_wait(outcomes: Outcomes) -> None:
    told: Told[str] = Told()
    told.tell("early")

    async def run() -> str:
        return await told

    outcomes.begin(run())
    assert outcomes.results == ["early"]
    assert await told == "early"


async def test_it_waits_for_futures_and_turns_as_a_task_does(outcomes: Outcomes) -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run() -> int:
        await asyncio.sleep(0)
        return await future

    outcomes.begin(run())
    await asyncio.sleep(0)
    future.set_result(7)
    await outcomes.running.finish()
    assert outcomes.results == [7]


async def test_a_failed_future_and_an_exception_are_its_failure(outcomes: Outcomes) -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    told: Told[int] = Told()

    async def of_future() -> None:
        await future

    async def of_its_own() -> None:
        raise KeyError(await told)

    outcomes.begin(of_future())
    outcomes.begin(of_its_own())
    told.tell(1)
    future.set_exception(ValueError("a disk"))
    await outcomes.running.finish()
    assert [type(error) for error in outcomes.errors] == [KeyError, ValueError]


async def test_a_task_may_await_what_is_told(outcomes: Outcomes) -> None:
    told: Told[int] = Told()

    async def wait() -> int:
        return await told

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    outcomes.begin(_tell(told))
    assert not task.done()
    assert await task == 5


async def _tell(told: Told[int]) -> None:
    told.tell(5)


async def test_a_cancelled_task_does_not_hinder_who_tells(outcomes: Outcomes) -> None:
    told: Told[int] = Told()

    async def wait() -> int:
        return await told

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    outcomes.begin(_tell(told))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not outcomes.errors


async def test_one_may_end_another_and_each_goes_on_in_place(outcomes: Outcomes) -> None:
    told: Told[int] = Told()
    after: Told[int] = Told()

    async def waits() -> int:
        return await told + await after

    async def tells() -> str:
        told.tell(1)
        return "told"

    outcomes.begin(waits())
    outcomes.begin(tells())
    assert outcomes.results == ["told"]
    after.tell(2)
    assert outcomes.results == ["told", 3]


async def test_finish_waits_for_all(outcomes: Outcomes) -> None:
    told: list[Told[int]] = [Told(), Told()]

    async def wait(one: Told[int]) -> int:
        return await one

    for one in told:
        outcomes.begin(wait(one))
    finishing = [asyncio.create_task(outcomes.running.finish()) for _ in range(2)]
    told[0].tell(1)
    await asyncio.sleep(0)
    assert not any(one.done() for one in finishing)
    told[1].tell(2)
    await asyncio.gather(*finishing)
    await outcomes.running.finish()


async def test_very_many_that_are_told_at_once_go_on_in_turns(outcomes: Outcomes) -> None:
    """As 2,000 ends of transactions, which one flush lets go on."""
    told: list[Told[int]] = [Told() for _ in range(3 * PER_TURN)]

    async def wait(one: Told[int]) -> int:
        return await one

    for one in told:
        outcomes.begin(wait(one))
    for number, one in enumerate(told):
        one.tell(number)
    finishing = asyncio.create_task(outcomes.running.finish())
    for turn in range(1, 4):
        assert outcomes.results == list(range(turn * PER_TURN))
        await asyncio.sleep(0)
    await finishing
    first: Told[int] = Told()
    outcomes.begin(wait(first))
    await asyncio.sleep(0)
    first.tell(7)
    assert outcomes.results[-1] == 7, "at once again"


async def test_one_that_fails_in_a_turn_to_come_keeps_none_from_going_on() -> None:
    running = InPlace(Owner.REQUEST)
    told: list[Told[int]] = [Told() for _ in range(PER_TURN + 3)]
    results: list[int] = []
    reported: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))

    async def wait(one: Told[int]) -> int:
        return await one

    def ended(number: int) -> None:
        if number == PER_TURN + 1:
            raise KeyError(number)
        results.append(number)

    for one in told:
        running.begin(wait(one), ended, reported.append)
    for number, one in enumerate(told):
        one.tell(number)
    await running.finish()
    assert results == [*range(PER_TURN + 1), PER_TURN + 2]
    assert [type(error) for error in reported] == [KeyError]
