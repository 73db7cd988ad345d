"""A bound on bytes in memory, of all connections together.

There are two of them. Both are counted by `broker.network.connection_account` and by nobody else.

- `queued.max.request.bytes` (256 MiB): bytes are taken as they arrive from sockets and given back
  when their request is answered. When it is full, connections that have not begun a frame stop
  reading; those within a frame go on to its end, since it must end to free anything, and meet the
  frame deadline if it does not. Kafka has the same key, unbounded by default and counted in
  announced sizes; here it counts what arrived.
- `barnabas.answer.bytes.max` (256 MiB): answers that cannot leave yet. When it is full, a
  connection has one request at a time that may have a large answer, and a fetch answers less.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Literal

from broker.runtime.metrics import Metrics

Counter = Literal["budget_full_waits", "answers_full_waits"]  # of `Metrics`


class ByteBudget:
    """Counts bytes in use, and tells its listeners when the bound is crossed either way."""

    __slots__ = ("_counter", "_listeners", "_metrics", "full", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int, metrics: Metrics, counter: Counter) -> None:
        self.limit_bytes = limit_bytes if limit_bytes > 0 else sys.maxsize  # as in Kafka: no bound
        self.used_bytes = 0
        self.full = False
        self._metrics = metrics
        self._counter = counter  # of how often it was full
        self._listeners: list[Callable[[bool], None]] = []

    def listen(self, changed: Callable[[bool], None]) -> None:
        """Call `changed(full)` each time the budget fills up or has room again."""
        self._listeners.append(changed)

    def take(self, count: int) -> None:
        """Count `count` more bytes; never refuses, but may make the budget full."""
        self.used_bytes += count
        if self.used_bytes > self.limit_bytes and not self.full:
            self.full = True
            waits = getattr(self._metrics, self._counter)
            setattr(self._metrics, self._counter, waits + 1)
            self._tell()

    def give_back(self, count: int) -> None:
        """Count `count` bytes less."""
        self.used_bytes -= count
        assert self.used_bytes >= 0, f"I10: {self.used_bytes} bytes in use"
        # A quarter of hysteresis: resuming every connection for one freed frame would have
        # all of them stopped again by the next.
        if self.full and self.used_bytes <= self.limit_bytes * 3 // 4:
            self.full = False
            self._tell()

    def _tell(self) -> None:
        for changed in self._listeners:
            changed(self.full)
