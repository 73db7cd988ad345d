"""The bounded queue between processors and IO workers (`queued.max.requests`).

Workers that find it empty rest, and one is woken when a request arrives. Handlers run to their end
without waiting, so a second worker would find nothing to do. Therefore one worker is awake at a
time, and wakes the next when its slice of the loop is used up.

A full queue refuses no request. A processor checks `full` before it puts, and leaves the connection
waiting. When there is room, waiting connections are told, in the order they came. A connection that
cannot use the room, since something else holds it back, says so, and the next is told. A connection
that has used it tells the next itself (`tell_next`), so no room is left while a connection waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from broker.runtime.metrics import Metrics
from broker.runtime.request import Request


class RoomWaiter(Protocol):
    """A connection whose frames wait for room in the queue."""

    def hear_of_room(self) -> bool:
        """Use the room; return whether the connection will."""
        ...


class RequestQueue:
    """First in, first out, at most `capacity` requests."""

    __slots__ = ("_capacity", "_items", "_metrics", "_resting", "_room_waiters", "_worker_awake")

    def __init__(self, capacity: int, metrics: Metrics) -> None:
        self._capacity = capacity
        self._metrics = metrics
        self._items: deque[Request] = deque()
        self._resting: deque[asyncio.Future[None]] = deque()
        self._room_waiters: dict[RoomWaiter, None] = {}  # in the order they came
        self._worker_awake = False

    def __len__(self) -> int:
        return len(self._items)

    @property
    def full(self) -> bool:
        """Whether `put` must not be called now."""
        return len(self._items) >= self._capacity

    def put(self, request: Request) -> None:
        """Add a request; the caller has checked that the queue is not full."""
        self._items.append(request)
        if not self._worker_awake:
            self._wake()

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

    async def rest(self) -> None:
        """Wait, as a worker, until woken; if requests are left, the next worker is woken."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._resting.append(future)
        self._worker_awake = False
        if self._items:
            self._wake()
        await future

    def _wake(self) -> None:
        while self._resting:
            future = self._resting.popleft()
            if not future.done():
                self._worker_awake = True
                future.set_result(None)
                return
