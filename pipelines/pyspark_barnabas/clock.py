"""The one place that reads the time and waits; whoever needs either takes a Clock."""

from __future__ import annotations

import time


class Clock:
    """The machine's own. Tests pass one that stands still until it is told to go on."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def elapsed_ms(self) -> int:
        """Milliseconds that only ever go on, for deadlines."""
        return time.monotonic_ns() // 1_000_000

    def wait_ms(self, duration_ms: int) -> None:
        """Come back after so many milliseconds."""
        time.sleep(duration_ms / 1000)
