"""The one place that reads the time and sleeps; code that needs either takes a Clock."""

from __future__ import annotations

import time


class Clock:
    """The machine's clock. Tests pass one that moves only when told to."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def elapsed_ms(self) -> int:
        """Monotonic milliseconds, for deadlines."""
        return time.monotonic_ns() // 1_000_000

    def wait_ms(self, duration_ms: int) -> None:
        """Return after this many milliseconds."""
        time.sleep(duration_ms / 1000)
