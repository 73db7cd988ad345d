"""Flushes that one thread runs, one after the other, and how each went.

A round is given to a thread whole, since handing over each flush costs more than most of them
take. If one of them does not end, the rest must not wait for it: `take_rest` takes away, from
another thread, what has not begun.
"""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from broker.partitions.partition import Partition
from storage.flush import Flush

T = TypeVar("T")
Job = tuple[Partition, Flush]
EndedFlush = tuple[Partition, Flush, OSError | None]


class FlushRound:
    """`started_ns` is when it was given to its thread, or last seen to go on."""

    __slots__ = ("_ended", "_ended_count", "_seen_count", "_waiting", "started_ns")

    def __init__(self, jobs: list[Job], started_ns: int) -> None:
        self._waiting = deque(jobs)  # its operations are atomic
        self._ended: deque[EndedFlush] = deque()
        self._ended_count = 0
        self._seen_count = 0
        self.started_ns = started_ns

    def run(self) -> None:
        """For a thread of the pool."""
        while True:
            try:
                partition, flush = self._waiting.popleft()
            except IndexError:
                return
            error: OSError | None = None
            try:
                flush.run()
            except OSError as caught:
                error = caught
            except BaseException as caught:  # whatever it was, nothing was made durable
                error = OSError(f"the flush ended by {caught!r}")
            self._ended.append((partition, flush, error))
            self._ended_count += 1

    def is_stuck(self, now_ns: int, stall_ns: int) -> bool:
        """Whether no flush of it has ended for so long. Asked now and then, on the loop."""
        if self._seen_count != self._ended_count:
            self._seen_count = self._ended_count
            self.started_ns = now_ns
        return now_ns - self.started_ns > stall_ns

    def take_ended(self) -> list[EndedFlush]:
        """Take the flushes that have ended, each once."""
        return _all_of(self._ended)

    def take_rest(self) -> list[Job]:
        """Take away what has not begun."""
        return _all_of(self._waiting)


def _all_of(items: deque[T]) -> list[T]:
    """Take everything out, while another thread may do so too."""
    taken: list[T] = []
    while True:
        try:
            taken.append(items.popleft())
        except IndexError:
            return taken
