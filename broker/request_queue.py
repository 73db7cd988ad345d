"""The bounded queue between processors and IO workers (`queued.max.requests`).

Workers that find it empty rest, and one is woken when something arrives. Handlers run to their
end without waiting, so a second worker awake at the same time would find nothing to do: one is
woken at a time, and hands over to the next when its slice of the loop is used up.

A full queue refuses nobody: a processor asks `full` before it puts, and leaves the connection
waiting; waiting connections are told, in the order they came, when there is room.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from broker.metrics import Metrics
from broker.request import Request


class RequestQueue:
    """First in, first out, at most `capacity` requests."""

    __slots__ = ("_capacity", "_items", "_metrics", "_resting", "_room_waiters", "_worker_awake")

    def __init__(self, capacity: int, metrics: Metrics) -> None:
        self._capacity = capacity
        self._metrics = metrics
        self._items: deque[Request] = deque()
        self._resting: deque[asyncio.Future[None]] = deque()
        self._room_waiters: deque[Callable[[], None]] = deque()
        self._worker_awake = False

    def __len__(self) -> int:
        return len(self._items)

    @property
    def full(self) -> bool:
        """Whether `put` must not be called now."""
        return len(self._items) >= self._capacity

    def put(self, request: Request) -> None:
        """Add a request; the caller has seen that the queue is not full."""
        self._items.append(request)
        if not self._worker_awake:
            self._wake()

    def when_room(self, call: Callable[[], None]) -> None:
        """Call back once, when there is room again."""
        self._metrics.queue_full_waits += 1
        self._room_waiters.append(call)

    def take(self) -> Request | None:
        """Return the next request, or None."""
        items = self._items
        if not items:
            return None
        request = items.popleft()
        if self._room_waiters and len(items) < self._capacity:
            self._room_waiters.popleft()()
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
