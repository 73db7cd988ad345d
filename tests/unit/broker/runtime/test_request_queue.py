"""The request queue: its order, one worker awake at a time, and connections that wait for room."""

import asyncio

import pytest

from broker.runtime.metrics import Metrics
from broker.runtime.request_queue import RequestQueue
from tests.support.fake_connection import FakeConnection


class Waiter:
    """Hears of room, and answers whether it uses it."""

    def __init__(self, name: str, told: list[str], *, goes_on: bool = True) -> None:
        self.name = name
        self.told = told
        self.goes_on = goes_on

    def hear_of_room(self) -> bool:
        self.told.append(self.name)
        return self.goes_on


def numbered(count: int) -> list:
    connection = FakeConnection()
    return [connection.request(None, number=number) for number in range(count)]


async def test_requests_come_out_in_order_whichever_worker_takes_them() -> None:
    queue = RequestQueue(100, Metrics())
    taken: list[int] = []
    woken: list[int] = []

    async def worker(index: int) -> None:
        while True:
            await queue.rest(lambda _: None)
            woken.append(index)
            for _ in range(2):  # a slice of two requests
                request = queue.take()
                if request is not None:
                    taken.append(request.header.correlation_id)

    workers = [asyncio.create_task(worker(index)) for index in range(3)]
    await asyncio.sleep(0)
    for request in numbered(6):
        queue.put(request)
    for _ in range(10):
        await asyncio.sleep(0)
    for task in workers:
        task.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    assert taken == [0, 1, 2, 3, 4, 5]
    assert woken[:3] == [0, 1, 2]


async def test_room_is_offered_in_the_order_of_waiting() -> None:
    metrics = Metrics()
    queue = RequestQueue(2, metrics)
    first, second, third = numbered(3)
    queue.put(first)
    queue.put(second)
    assert queue.full
    told: list[str] = []
    queue.wait_for_room(Waiter("a", told))
    queue.wait_for_room(Waiter("b", told))
    assert queue.take() is first
    assert told == ["a"]
    queue.put(third)
    assert queue.take() is second
    assert told == ["a", "b"]
    assert metrics.queue_full_waits == 2
    assert queue.take() is third
    assert queue.take() is None


async def test_room_goes_to_the_next_waiter_that_uses_it() -> None:
    queue = RequestQueue(1, Metrics())
    (request,) = numbered(1)
    queue.put(request)
    told: list[str] = []
    gone = Waiter("gone", told)
    queue.wait_for_room(gone)
    queue.wait_for_room(Waiter("held", told, goes_on=False))
    queue.wait_for_room(Waiter("next", told))
    queue.wait_for_room(Waiter("last", told))
    queue.forget(gone)
    assert queue.take() is request
    assert told == ["held", "next"]
    queue.tell_next()  # by the waiter that was called before
    assert told == ["held", "next", "last"]
    assert queue.waiter_count == 0


async def test_no_waiter_is_offered_missing_room() -> None:
    queue = RequestQueue(1, Metrics())
    queue.put(numbered(1)[0])
    told: list[str] = []
    queue.wait_for_room(Waiter("a", told))
    queue.tell_next()
    assert told == []


async def test_a_cancelled_worker_is_not_woken_in_vain() -> None:
    queue = RequestQueue(10, Metrics())
    taken: list[int] = []

    async def worker() -> None:
        await queue.rest(lambda _: None)
        request = queue.take()
        assert request is not None
        taken.append(request.header.correlation_id)

    gone = asyncio.create_task(worker())
    stays = asyncio.create_task(worker())
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    (request,) = numbered(1)
    queue.put(request)
    await stays
    assert taken == [0]


async def test_a_resting_worker_serves_at_once_what_was_put_while_held() -> None:
    queue = RequestQueue(10, Metrics())
    taken: list[tuple[str, int]] = []

    def server(name: str):
        def serve(begun_ns: int) -> None:
            assert begun_ns == 7
            request = queue.take()  # its slice is short
            assert request is not None
            taken.append((name, request.header.correlation_id))
            queue.pass_on(7)  # one worker is awake at a time

        return serve

    async def worker(name: str) -> None:
        await queue.rest(server(name))
        taken.append((name, -1))

    workers = [asyncio.create_task(worker(name)) for name in ("gone", "a", "b")]
    await asyncio.sleep(0)
    assert queue.is_idle
    workers[0].cancel()
    await asyncio.sleep(0)
    queue.held = True
    for request in numbered(2):
        queue.put(request)
    await asyncio.sleep(0)
    assert taken == [], "nobody is woken while it is held"
    assert not queue.is_idle
    queue.pass_on(7)
    assert taken == [("a", 0)]
    await asyncio.sleep(0)
    assert taken == [("a", 0), ("a", -1)], "what is left wakes a worker"
    for task in workers:
        task.cancel()
    await asyncio.gather(*workers, return_exceptions=True)


async def test_without_a_resting_worker_requests_wait() -> None:
    queue = RequestQueue(10, Metrics())
    assert not queue.is_idle
    queue.held = True
    queue.put(numbered(1)[0])
    queue.pass_on(0)
    assert len(queue) == 1
    assert not queue.held


async def test_a_worker_that_fails_is_not_taken_for_awake() -> None:
    queue = RequestQueue(10, Metrics())

    def fail(_: int) -> None:
        queue.take()
        raise ValueError

    resting = asyncio.create_task(queue.rest(fail))
    await asyncio.sleep(0)
    queue.held = True
    queue.put(numbered(1)[0])
    with pytest.raises(ValueError):
        queue.pass_on(0)
    assert queue.is_idle
    queue.put(numbered(1)[0])
    await resting
