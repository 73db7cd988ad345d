"""A worker handles the queued requests, gives the loop a turn, and sleeps."""

import asyncio

from broker.io_worker import SLICE_NS, IoWorker
from broker.network.gathered_writes import GatheredWrites
from broker.runtime.clock import MS_NS, ManualClock
from broker.runtime.metrics import Metrics
from broker.runtime.request import Extras, Request
from broker.runtime.request_queue import RequestQueue
from broker.runtime.request_times import RequestTiming
from tests.support.fake_connection import FakeConnection


class SlowDispatcher:
    """Takes a millisecond of the clock a request."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.handled: list[int] = []

    def dispatch(self, request: Request) -> None:
        self.clock.advance(1)
        self.handled.append(request.header.correlation_id)


async def test_a_slice_ends_and_the_next_worker_continues() -> None:
    clock = ManualClock()
    queue = RequestQueue(100, Metrics())
    dispatcher = SlowDispatcher(clock)
    writes = GatheredWrites()
    workers = [
        asyncio.create_task(IoWorker(index, queue, dispatcher, writes, clock).run())  # type: ignore[arg-type]
        for index in range(2)
    ]
    await asyncio.sleep(0)
    connection = FakeConnection()
    for number in range(10):
        queue.put(connection.request(None, number=number))
    await asyncio.sleep(0)
    first_turn = len(dispatcher.handled)
    assert 0 < first_turn < 10, "one slice must not take everything"
    for _ in range(20):
        await asyncio.sleep(0)
    assert dispatcher.handled == list(range(10))
    for task in workers:
        task.cancel()
    await asyncio.gather(*workers, return_exceptions=True)


async def test_a_step_that_others_have_used_up_is_not_prolonged() -> None:
    clock = ManualClock()
    clock.advance(10)
    queue = RequestQueue(100, Metrics())
    dispatcher = SlowDispatcher(clock)
    worker = IoWorker(0, queue, dispatcher, GatheredWrites(), clock)  # type: ignore[arg-type]
    begun_ns = clock.monotonic_ns()
    connection = FakeConnection()
    for number in range(4):
        queue.put(connection.request(None, number=number))
    worker.serve(begun_ns - SLICE_NS - 1)
    assert dispatcher.handled == []
    worker.serve(begun_ns - SLICE_NS // 2)
    assert dispatcher.handled == [0, 1], "what is left of the slice"


async def test_of_the_queued_requests_those_that_are_timed_get_their_times() -> None:
    clock = ManualClock()
    queue = RequestQueue(100, Metrics())
    worker = IoWorker(0, queue, SlowDispatcher(clock), GatheredWrites(), clock)  # type: ignore[arg-type]
    connection = FakeConnection()
    timings = []
    for number in range(4):
        request = connection.request(None, number=number)
        if number in (1, 3):
            request.extras = extras = Extras()
            extras.timing = RequestTiming(0, clock.monotonic_ns())
            timings.append(extras.timing)
        queue.put(request)
    queue.has_timed = True
    begun_ns = clock.monotonic_ns()
    worker.serve(begun_ns)
    assert queue.has_timed, "the slice is over, and a timed request is left"
    worker.serve(clock.monotonic_ns())
    assert not queue.has_timed
    waited = [(timing.taken_ns - begun_ns) // MS_NS for timing in timings]
    handled = [(timing.handled_ns - timing.taken_ns) // MS_NS for timing in timings]
    assert (waited, handled) == ([1, 3], [1, 1])
