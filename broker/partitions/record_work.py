"""Work on single records, in threads: what Python takes long for, whoever asks for it.

Produce to a compacted topic or in maps, packing anew, naming mistimed records, Fetch in maps,
ListOffsets by time: each goes over records, and a batch of a few KiB may keep a thread busy for
seconds. So at most AT_ONCE of them run at a time, and leave the other threads of the pool to reads
and checkpoints; more would not be faster, as Python runs one thread at a time. The rest waits, in
turn among the clients: who sent a hundred waits for their own. What waits is bounded by the
requests in flight. A stop waits for what runs alone.
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
    """The broker stops, and nothing more is begun."""

    def __init__(self) -> None:
        super().__init__("The broker stops, and has not looked at these records; try again")


def _nothing(*_: object) -> None:
    """Do nothing: what a withdrawn walk would do."""


class Walk:
    """One call, from `RecordWork.submit` to the end of it."""

    __slots__ = ("call", "done", "has_begun", "is_withdrawn", "owner")

    def __init__(self, owner: Owner, call: Callable[[], Any], done: Done) -> None:
        self.owner = owner
        self.call = call
        self.done = done
        self.has_begun = False
        self.is_withdrawn = False

    def withdraw(self) -> bool:
        """See to it that `call` and `done` are not called; False if it has begun.

        What they hold (a frame, say) is let go now, not when it would have been their turn.
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
        """Begin nothing more: what waits, and what comes, ends with WalkAbandoned."""
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
                self._waiting[client] = walks  # behind the others
            if not walk.is_withdrawn:
                self._begin(walk)
