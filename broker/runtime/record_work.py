"""Walks over single records, in threads: they take Python long, whichever request needs them.

Produce to a compacted topic or in maps, recompression, naming mistimed records, Fetch in maps and
ListOffsets by time all walk over records, and a batch of a few KiB may keep a thread busy for
seconds. At most AT_ONCE walks run at a time, which leaves the other threads of the pool to reads
and checkpoints. More would not be faster, as Python runs one thread at a time. Other walks wait,
and clients take turns, so a client with a hundred walks delays only itself. The number that waits
is bounded by the requests in flight. A stop waits only for the walks that run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from broker.runtime import owners
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.metrics import Metrics
from broker.runtime.owners import Owner
from protocol.record_errors import DecompressedTooLarge, TooManyRecords

AT_ONCE: Final = 2

Done = Callable[[BaseException | None], None]


class WalkAbandoned(Exception):
    """The broker is stopping and begins no more walks."""

    def __init__(self) -> None:
        super().__init__("The broker is stopping and has not checked these records; try again")


def _nothing(*_: object) -> None:
    """Do nothing: takes the place of a withdrawn walk's callbacks."""


class Walk:
    """One call, from `RecordWork.submit` to its end."""

    __slots__ = ("call", "done", "has_begun", "is_withdrawn", "owner")

    def __init__(self, owner: Owner, call: Callable[[], Any], done: Done) -> None:
        self.owner = owner
        self.call = call
        self.done = done
        self.has_begun = False
        self.is_withdrawn = False

    def withdraw(self) -> bool:
        """Prevent `call` and `done` from being called; return False if the walk has begun.

        The memory they hold, such as a frame, is released now, not when their turn would come.
        """
        self.is_withdrawn = not self.has_begun
        if self.is_withdrawn:
            self.call = self.done = _nothing
        return self.is_withdrawn


class RecordWork:
    """Runs calls in the pool's threads, few at a time. Used on the loop's thread."""

    def __init__(self, pool: BlockingPool, metrics: Metrics) -> None:
        self._pool = pool
        self._metrics = metrics
        self._running = 0
        self._is_stopped = False
        self._waiting: dict[object, deque[Walk]] = {}  # by client, the next one first

    def submit(self, owner: Owner, client: object, call: Callable[[], Any], done: Done) -> Walk:
        """Run `call` in a thread when it is the turn of `client`, then `done(error or None)`.

        `done` is called on the loop, as a step of `owner`.
        """
        walk = Walk(owner, call, done)
        self._metrics.record_walks += 1
        if self._is_stopped:
            walk.has_begun = True
            owners.soon(owner, done, WalkAbandoned())
        elif self._running < AT_ONCE:
            self._begin(walk)
        else:
            self._waiting.setdefault(client, deque()).append(walk)
            self._metrics.record_walks_waiting_now += 1
        return walk

    def stop(self) -> None:
        """Begin no more walks: those that wait, and new ones, end with WalkAbandoned."""
        self._is_stopped = True
        waiting, self._waiting = self._waiting, {}
        for walks in waiting.values():
            self._metrics.record_walks_waiting_now -= len(walks)
            for walk in walks:
                if not walk.is_withdrawn:
                    walk.has_begun = True
                    owners.soon(walk.owner, walk.done, WalkAbandoned())

    def _begin(self, walk: Walk) -> None:
        self._running += 1
        walk.has_begun = True
        self._pool.submit(walk.owner, walk.call, partial(self._ended, walk.done))

    def _ended(self, done: Done, error: BaseException | None) -> None:
        self._running -= 1
        self._begin_next()
        if isinstance(error, (TooManyRecords, DecompressedTooLarge)):
            self._metrics.record_walks_refused += 1
        done(error)

    def _begin_next(self) -> None:
        while self._waiting and self._running < AT_ONCE:
            client = next(iter(self._waiting))
            walks = self._waiting.pop(client)
            walk = walks.popleft()
            self._metrics.record_walks_waiting_now -= 1
            if walks:
                self._waiting[client] = walks  # behind the other clients
            if not walk.is_withdrawn:
                self._begin(walk)
