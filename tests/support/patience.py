"""How long to wait on a machine that is busy with other work.

A time limit says how long something may take on a machine that does nothing else. While more
threads want to run than there are processors, everything takes longer by about that factor; a
broker that a test runs with `nice` by more. So the limit is looked at with the load of the moment,
each time anew: a machine that becomes busy in between is noticed.
"""

from __future__ import annotations

import os
import time
from typing import Final

STRETCH_MAX: Final = 20.0  # a machine that is busier than that is of no use
NICE_FACTOR: Final = 0.1  # by which each step of `nice` stretches a limit while others run


def stretch() -> float:
    """Return by how much longer things may take now than on an idle machine."""
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    if load <= 1.0:
        return 1.0
    niceness = max(0, os.getpriority(os.PRIO_PROCESS, 0))
    return min(load * (1 + NICE_FACTOR * niceness), STRETCH_MAX)


class Limit:
    """A time limit that begins now, in seconds of an idle machine; `stretch_max` bounds it."""

    def __init__(self, seconds: float, stretch_max: float = STRETCH_MAX) -> None:
        self._seconds = seconds
        self._stretch_max = stretch_max
        self._began_s = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether it has passed, by the load of this moment."""
        return time.monotonic() - self._began_s > self._seconds * min(stretch(), self._stretch_max)
