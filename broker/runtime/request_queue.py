"""The bounded queue between processors and IO workers (`queued.max.requests`).

Workers that find it empty rest, and one is woken when a request arrives. Handlers run to their end
without waiting, so a second worker would find nothing to do. Therefore one worker is awake at a
time, and wakes the next when its slice of the loop is used up.

To wake a worker takes a turn of the loop. A processor with the requests of one connection therefore
calls a resting one when it has put all (`held`, `pass_on`), and both share the time of one slice.

A full queue refuses no request. A processor checks `full` before it puts, and leaves the connection
waiting. When there is room, waiting connections are told, in the order they came. A connection that
cannot use the room, since something else holds it back, says so, and the next is told. A connection
that has used it tells the next itself (`tell_next`), so no room is left while a connection waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from broker.runtime.metrics import Metrics
from broker.runtime.request import Request
from broker.runtime.request_times import Sampling


class RoomWaiter(Protocol):
    """A connection whose frames wait for room in the queue."""

    def hear_of_room(self) -> bool:
        """Use the room; return whether the connection will."""
        ...


class RequestQueue:
    """First in, first out, at most `capacity` requests.

    While `held`, no worker is woken: its setter calls `pass_on`.
    """

    __slots__ = (
        "_capacity",
        "_items",
        "_metrics",
        "_resting",
        "_room_waiters",
        "_worker_awake",
        "has_timed",
        "held",
        "sampling",
        "timed_at",
    )

    def __init__(self, capacity: int, metrics: Metrics) -> None:
        self._capacity = capacity
        self._metrics = metrics
        self._items: deque[Request] = deque()
        # Workers at rest: what wakes one, and what it does with its slice.
        self._resting: deque[tuple[asyncio.Future[None], Callable[[int], None]]] = deque()
        self._room_waiters: dict[RoomWaiter, None] = {}  # in the order they came
        self._worker_awake = False
        self.held = False
        self.has_timed = False  # whether a timed request may be queued: workers ask once a slice
        self.sampling = Sampling()
        self.timed_at = 1  # the number of the next request that is timed

    def __len__(self) -> int:
        return len(self._items)

    @property
    def full(self) -> bool:
        """Whether `put` must not be called now."""
        return len(self._items) >= self._capacity

    @property
    def is_idle(self) -> bool:
        """Whether no request is queued and a worker rests."""
        return not self._items and not self._worker_awake and bool(self._resting)

    def put(self, request: Request) -> None:
        """Add a request; the caller has checked that the queue is not full."""
        self._items.append(request)
        if not self._worker_awake and not self.held:
            self._wake()

    def pass_on(self, begun_ns: int) -> None:
        """Have a worker that rests take what was put while `held`, as a part of the caller's step.

        The step has begun at `begun_ns`. What the worker's slice is too short for stays for the
        next worker, which is woken.
        """
        was_held, self.held = self.held, False
        if not was_held or self._worker_awake or not self._items:
            return
        resting = self._resting
        while resting:
            future, serve = resting[0]
            if future.done():  # it was cancelled
                resting.popleft()
                continue
            self._worker_awake = True
            try:
                serve(begun_ns)
            finally:
                self._end_slice()
            return

    @property
    def waiter_count(self) -> int:
        """How many connections wait for room."""
        return len(self._room_waiters)

    def wait_for_room(self, waiter: RoomWaiter) -> None:
        """Tell `waiter` once, when there is room again."""
        self._metrics.queue_full_waits += 1
        self._room_waiters[waiter] = None

    def forget(self, waiter: RoomWaiter) -> None:
        """Remove `waiter`, whose connection is gone."""
        self._room_waiters.pop(waiter, None)

    def tell_next(self) -> None:
        """Tell the next waiting connection, if there is room."""
        waiters = self._room_waiters
        while waiters and not self.full:
            waiter = next(iter(waiters))
            del waiters[waiter]
            if waiter.hear_of_room():
                return

    def take(self) -> Request | None:
        """Return the next request, or None."""
        items = self._items
        if not items:
            return None
        request = items.popleft()
        if self._room_waiters:
            self.tell_next()
        return request

    async def rest(self, serve: Callable[[int], None]) -> None:
        """Wait, as a worker, until woken; if requests are left, the next worker is woken.

        Meanwhile `serve(begun_ns)` may be called (`pass_on`).
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._resting.append((future, serve))
        self._end_slice()
        await future

    def _end_slice(self) -> None:
        self._worker_awake = False
        if self._items:
            self._wake()

    def _wake(self) -> None:
        while self._resting:
            future, _ = self._resting.popleft()
            if not future.done():
                self._worker_awake = True
                future.set_result(None)
                return
