"""Limit the speed of compaction. The cleaner's threads report every piece that they read or write.

Each report does three things. It ends the pass if the broker is stopping. It keeps the bytes of all
passes together below log.cleaner.io.max.bytes.per.second, with bursts of up to a tenth of a
second's worth. And every 16 KiB it lets other threads run: the cleaner works in Python, and the
event loop would otherwise wait up to 5 ms, the interpreter's switch interval.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from broker.runtime.clock import SECOND_NS, Clock, let_others_run
from storage.compaction.one_pass import CompactionAborted

STEP_BYTES = 16 * 1024
BURST_NS = SECOND_NS // 10


class CleanerPace:
    """Shared by all passes. `rate_max` gives the bytes a second that are allowed now."""

    def __init__(self, clock: Clock, rate_max: Callable[[], float]) -> None:
        self._clock = clock
        self._rate_max = rate_max
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._spent_until_ns = 0  # the time up to which the rate allows the bytes so far

    def stop(self) -> None:
        """End every pass at its next piece, waiting ones too."""
        self._stopping.set()

    def breath(self) -> Callable[[int], None]:
        """Return what a pass calls with the size of each piece. It may raise CompactionAborted."""
        pending = 0

        def proceed(size_bytes: int) -> None:
            nonlocal pending
            pending += size_bytes
            if pending >= STEP_BYTES:
                self._account(pending)
                pending = 0

        return proceed

    def _account(self, size_bytes: int) -> None:
        if self._stopping.is_set():
            raise CompactionAborted("the broker is stopping")
        let_others_run()
        seconds = size_bytes / max(1.0, self._rate_max())
        with self._lock:
            now_ns = self._clock.monotonic_ns()
            spent_ns = max(self._spent_until_ns, now_ns - BURST_NS) + int(seconds * SECOND_NS)
            self._spent_until_ns = spent_ns
        if spent_ns > now_ns and self._stopping.wait((spent_ns - now_ns) / SECOND_NS):
            raise CompactionAborted("the broker is stopping")
