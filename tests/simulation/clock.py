"""The broker's two clocks, on the world's time.

Each reading moves time a little, so that work that ends "after two milliseconds" does end. The
wall clock drifts and jumps; the monotonic clock does neither.
"""

from __future__ import annotations

from typing import Final

from tests.simulation.world import MS, World

STARTED_MS: Final = 1_700_000_000_000


class SimClock:
    """See the module. `reading_ns` is what a reading costs; `drift` is 1.0 for a true clock."""

    def __init__(self, world: World, reading_ns: int, drift: float) -> None:
        self._world = world
        self._reading_ns = reading_ns
        self._drift = drift
        self.jumped_ms = 0  # by how much it was set forward, in all

    def now_ms(self) -> int:
        """Wall-clock milliseconds since 1970."""
        self._world.now_ns += self._reading_ns
        return STARTED_MS + self.jumped_ms + int(self._world.now_ns * self._drift) // MS

    def monotonic_ns(self) -> int:
        """Nanoseconds of a clock that never goes back."""
        self._world.now_ns += self._reading_ns
        return self._world.now_ns + 1

    def jump(self, ms: int) -> None:
        """Set the wall clock forward, or back."""
        self.jumped_ms += ms
