"""Parked fetches: requests that wait for bytes (`min.bytes`) until a deadline (`max.wait`).

A parked fetch watches every partition it asked for. When one of them has more to read, the fetch
counts the bytes again. If they are enough, or at its deadline, it reads and answers (Kafka's
DelayedFetch). It leaves every watch list when it is answered or its connection ends, so the lists
are no longer than the fetches in flight. The fetch of a session watches those of its partitions
that are awake; one that wakes meanwhile joins them.

A fetch of more than a few partitions counts at most once in a turn of the loop: a round of flushes,
or the end of a transaction, may have news of each of them, and to count looks at all of them. Such
fetches count in turns, several in each: one in a turn would have the last of a hundred consumers of
a busy broker wait for its records until a hundred turns are over.

A fetch that fails unexpectedly loses its connection. The other fetches, and the caller that
notified them, are not affected.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from broker.partitions.partition import ParkedFetch, Partition
from broker.runtime import owners
from broker.runtime.metrics import Metrics
from broker.runtime.owners import Owner
from broker.runtime.request import Responder

COUNTED_AT_ONCE: Final = 4  # partitions of a fetch; each takes some 5 us
COUNTED_PER_TURN: Final = 100  # partitions, which may be read then, too


class Purgatory:
    """Keeps parked fetches, and releases them."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._parked: dict[ParkedFetch, None] = {}  # in the order they came
        self._looks: dict[ParkedFetch, None] = {}  # of which partitions have news
        self._looks_soon = False
        self._is_stopping = False

    @property
    def parked_count(self) -> int:
        """How many fetches wait."""
        return len(self._parked)

    @property
    def looks_due(self) -> int:
        """How many fetches that wait are to count again."""
        return len(self._looks)

    def park(self, fetch: ParkedFetch, wait_ms: int) -> None:
        """Keep `fetch` until it is satisfied, at most for `wait_ms`; drop it with its client."""
        if fetch.request.abandoned:  # its connection ended while it was queued
            fetch.request.connection.respond(fetch.request, ())
            return
        if self._is_stopping:
            fetch.complete()
            return
        self._parked[fetch] = None
        for partition in fetch.partitions:
            partition.watchers[fetch] = None
        fetch.timer = owners.later(Owner.PARKED_FETCH, wait_ms / 1000, self._release, fetch)
        fetch.request.on_abandon = partial(self._forget, fetch)
        self._metrics.fetches_parked += 1
        self._metrics.fetches_parked_now += 1

    def notify(self, partition: Partition) -> None:
        """Release the fetches that watch `partition` and are now satisfied."""
        if partition.sleepers:
            self._wake(partition)
        for fetch in tuple(partition.watchers):
            if fetch.is_large or len(fetch.partitions) > COUNTED_AT_ONCE:
                self._look_soon(fetch)
            else:
                self._look(fetch)

    def _look(self, fetch: ParkedFetch) -> None:
        if fetch.timer is None:
            return
        try:
            is_satisfied = fetch.is_satisfied()
        except Exception as error:  # the read that follows answers it
            owners.failed(Owner.PARKED_FETCH, error, "counting what a parked fetch waits for")
            is_satisfied = True
        if is_satisfied:
            self._release(fetch)

    def _look_soon(self, fetch: ParkedFetch) -> None:
        """Look at a fetch once, however many of its partitions have news in this turn."""
        self._looks[fetch] = None
        self._call_look()

    def _call_look(self) -> None:
        if self._looks and not self._looks_soon:
            self._looks_soon = True
            owners.soon(Owner.PARKED_FETCH, self._look_at_next)

    def _look_at_next(self) -> None:
        """Look at some such fetches in each turn of the loop, or at a large one."""
        self._looks_soon = False
        left = COUNTED_PER_TURN
        while self._looks and left > 0:
            fetch = next(iter(self._looks))
            del self._looks[fetch]
            left = 0 if fetch.is_large else left - len(fetch.partitions)
            self._look(fetch)
        self._call_look()

    def release_all(self, partition: Partition) -> None:
        """Answer all fetches that watch a partition that is being removed."""
        if partition.sleepers:
            self._wake(partition)
        for fetch in tuple(partition.watchers):
            self._release(fetch)

    def release_of(self, connection: Responder) -> None:
        """Answer the fetches of a client that is about to leave, and waits for later answers."""
        for fetch in [one for one in self._parked if one.request.connection is connection]:
            self._release(fetch)

    def _wake(self, partition: Partition) -> None:
        """Let the fetch of each session that hears of news here watch the partition."""
        for sleeper in tuple(partition.sleepers):
            fetch = sleeper.wake()
            if fetch is not None:
                fetch.watch(partition)

    def stop(self) -> None:
        """Answer all parked fetches, and from now on each new one at once."""
        self._is_stopping = True
        for fetch in tuple(self._parked):
            self._release(fetch)

    def _release(self, fetch: ParkedFetch) -> None:
        if not self._forget(fetch):
            return
        try:
            fetch.complete()
        except Exception as error:
            owners.failed(Owner.PARKED_FETCH, error, "answering a parked fetch")
            fetch.request.give_up()

    def _forget(self, fetch: ParkedFetch) -> bool:
        if fetch.timer is None:
            return False
        fetch.timer.cancel()
        fetch.timer = None
        fetch.request.on_abandon = None
        self._parked.pop(fetch, None)
        self._looks.pop(fetch, None)
        for partition in fetch.partitions:
            partition.watchers.pop(fetch, None)
        self._metrics.fetches_parked_now -= 1
        return True
