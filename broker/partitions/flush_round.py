"""A round of flushes: one thread runs them one after the other, and keeps the result of each.

A thread gets a whole round, since handing over each flush costs more than most of them take. If a
flush does not end, the rest must not wait for it: `take_rest`, called from another thread, takes
back the flushes that have not begun.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from broker.partitions.partition import Partition
from broker.runtime import owners
from broker.runtime.owners import Owner
from storage.flush import Flush

T = TypeVar("T")
Job = tuple[Partition, Flush]
EndedFlush = tuple[Partition, Flush, OSError | None]


class FlushRound:
    """Flushes for one thread. `started_ns`: when the round began, or was last seen to advance."""

    __slots__ = ("_ended", "_ended_count", "_now_ns", "_seen_count", "_waiting", "started_ns")

    def __init__(
        self, jobs: list[Job], started_ns: int, now_ns: Callable[[], int] = lambda: 0
    ) -> None:
        """`now_ns` is the clock by which each flush is timed."""
        self._now_ns = now_ns
        self._waiting = deque(jobs)  # its operations are atomic
        self._ended: deque[EndedFlush] = deque()
        self._ended_count = 0
        self._seen_count = 0
        self.started_ns = started_ns

    def run(self) -> None:
        """Run the flushes; called in a thread of the pool."""
        while True:
            try:
                partition, flush = self._waiting.popleft()
            except IndexError:
                return
            error: OSError | None = None
            begun_ns = self._now_ns()
            try:
                flush.run()
                flush.elapsed_ns = self._now_ns() - begun_ns
            except OSError as caught:
                error = caught
            except BaseException as caught:  # whatever it was, the log is not durable
                error = OSError(f"the flush failed: {caught!r}")
            self._ended.append((partition, flush, error))
            self._ended_count += 1

    def is_stuck(self, now_ns: int, stall_ns: int) -> bool:
        """Whether no flush of the round has ended for `stall_ns`. Called on the loop's ticks."""
        if self._seen_count != self._ended_count:
            self._seen_count = self._ended_count
            self.started_ns = now_ns
        return now_ns - self.started_ns > stall_ns

    @property
    def untold_count(self) -> int:
        """How many flushes have ended since the last `take_ended`."""
        return len(self._ended)

    def take_ended(self) -> list[EndedFlush]:
        """Return the flushes that have ended since the last call."""
        return _all_of(self._ended)

    def take_rest(self) -> list[Job]:
        """Take back the flushes that have not begun."""
        return _all_of(self._waiting)


def begin_flushes(
    due: dict[Partition, None], count_max: int, now_ns: int
) -> tuple[list[Job], list[Partition]]:
    """Take partitions that are due and begin their flushes, up to `count_max`.

    Also returns those whose log has failed: nothing more of it will be flushed.
    """
    jobs: list[Job] = []
    failed: list[Partition] = []
    for partition in tuple(due):
        del due[partition]
        if partition.flush_started_ns:  # it was due for a round and for a lane
            continue
        try:
            flush = partition.log.begin_flush()
        except Exception as error:  # the flushes before it have begun, and go on
            owners.failed(Owner.FLUSH, error, f"the beginning of a flush of {partition.log}")
            continue
        if partition.log.failed is not None:
            failed.append(partition)
        elif flush is not None:
            partition.flush_started_ns = now_ns
            jobs.append((partition, flush))
        if len(jobs) == count_max:
            break
    return jobs, failed


def _all_of(items: deque[T]) -> list[T]:
    """Take all items out, while another thread may be taking some too."""
    taken: list[T] = []
    while True:
        try:
            taken.append(items.popleft())
        except IndexError:
            return taken
