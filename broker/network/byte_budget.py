"""A bound on bytes in memory, shared by all connections.

There are two. Only `broker.network.connection_account` counts against them.

- `queued.max.request.bytes` (256 MiB) counts bytes from their arrival at a socket until their
  request is answered. When it is full, connections between frames stop reading. Connections within
  a frame read to its end, since only the end of the frame can free its bytes; the frame deadline
  bounds that. Kafka has the same key, unbounded by default, and counts announced sizes.
- `barnabas.answer.bytes.max` (256 MiB) counts answers that cannot be sent yet. When it is full, a
  connection has at most one request in progress that may have a large answer, and a fetch returns
  less.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Literal

from broker.runtime.metrics import Metrics

Counter = Literal["budget_full_waits", "answers_full_waits"]  # of `Metrics`


class ByteBudget:
    """Counts bytes in use, and notifies its listeners when it fills up or has room again."""

    __slots__ = ("_counter", "_listeners", "_metrics", "full", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int, metrics: Metrics, counter: Counter) -> None:
        self.limit_bytes = limit_bytes if limit_bytes > 0 else sys.maxsize  # no bound, as in Kafka
        self.used_bytes = 0
        self.full = False
        self._metrics = metrics
        self._counter = counter  # counts how often it was full
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
        # A quarter of hysteresis: if one freed frame resumed every connection, the next frame
        # would stop them all again.
        if self.full and self.used_bytes <= self.limit_bytes * 3 // 4:
            self.full = False
            self._tell()

    def _tell(self) -> None:
        for changed in self._listeners:
            changed(self.full)
