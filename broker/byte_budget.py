"""The one bound on request bytes in memory: `queued.max.request.bytes` (256 MiB by default).

Bytes are taken as they arrive from sockets and given back when their request is answered. When
the budget is full, connections that have not begun a frame stop reading; those within a frame go
on, since their frame must end to free anything, and meet the frame deadline if it does not. Kafka
has the same key, unbounded by default and counted in announced sizes; here it counts what arrived.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from broker.metrics import Metrics


class ByteBudget:
    """Counts bytes in use, and tells its listeners when the bound is crossed either way."""

    __slots__ = ("_listeners", "_metrics", "full", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int, metrics: Metrics) -> None:
        self.limit_bytes = limit_bytes if limit_bytes > 0 else sys.maxsize  # as in Kafka: no bound
        self.used_bytes = 0
        self.full = False
        self._metrics = metrics
        self._listeners: list[Callable[[bool], None]] = []

    def listen(self, changed: Callable[[bool], None]) -> None:
        """Call `changed(full)` each time the budget fills up or has room again."""
        self._listeners.append(changed)

    def take(self, count: int) -> None:
        """Count `count` more bytes; never refuses, but may make the budget full."""
        self.used_bytes += count
        if self.used_bytes > self.limit_bytes and not self.full:
            self.full = True
            self._metrics.budget_full_waits += 1
            self._tell()

    def give_back(self, count: int) -> None:
        """Count `count` bytes less."""
        self.used_bytes -= count
        assert self.used_bytes >= 0, f"I10: {self.used_bytes} request bytes in use"
        # Half a step of hysteresis: resuming every connection for one freed frame would have
        # all of them stopped again by the next.
        if self.full and self.used_bytes <= self.limit_bytes * 3 // 4:
            self.full = False
            self._tell()

    def _tell(self) -> None:
        for changed in self._listeners:
            changed(self.full)
