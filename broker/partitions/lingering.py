"""Partitions that no request waits for: their flush begins after a pause, with one timer for all.

A timer for each append would cost more than most appends. So the first partition starts the timer
of its pause, and those that come later leave with it: none waits for longer than its pause.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.partitions.partition import Partition
from broker.runtime import owners
from broker.runtime.owners import Owner


class Lingering:
    """Calls `passed` with the partitions whose pause is over; each is in at most one pause."""

    __slots__ = ("_is_stopped", "_partitions", "_passed")

    def __init__(self, passed: Callable[[list[Partition]], None]) -> None:
        self._passed = passed
        self._partitions: dict[float, list[Partition]] = {}  # by the seconds of their pause
        self._is_stopped = False

    def add(self, partition: Partition, seconds: float) -> None:
        """Let `partition` wait for `seconds` or less, unless it already waits."""
        if partition.flush_scheduled:
            return
        partition.flush_scheduled = True
        waiting = self._partitions.get(seconds)
        if waiting is None:
            self._partitions[seconds] = [partition]
            owners.later(Owner.FLUSH, seconds, self._end, seconds)
        else:
            waiting.append(partition)

    def stop(self) -> None:
        """Let no pause end any more: the stop of the broker flushes all logs itself."""
        self._is_stopped = True

    def _end(self, seconds: float) -> None:
        partitions = self._partitions.pop(seconds)
        for partition in partitions:
            partition.flush_scheduled = False
        if not self._is_stopped:
            self._passed(partitions)
