"""The broker's two clocks, and the only place in the project that reads them.

The wall clock (`now_ms`) stamps records and decides retention; it may jump. The monotonic clock
(`monotonic_ns`) drives deadlines, idle times and durations; it never goes back. The packages below
the broker take the time as an argument, so tests can choose it.
"""

from __future__ import annotations

import time
from typing import Protocol

MS_NS = 1_000_000
SECOND_NS = 1_000 * MS_NS


def let_others_run() -> None:
    """Yield the interpreter to other threads; called by threads that run Python code for long."""
    time.sleep(0)


def hold(seconds: float) -> None:
    """Let the calling thread wait; for tests that ask for a slow disk."""
    time.sleep(seconds)


class Clock(Protocol):
    """Both clocks, as the broker uses them."""

    def now_ms(self) -> int:
        """Return wall-clock milliseconds since 1970."""
        ...

    def monotonic_ns(self) -> int:
        """Return nanoseconds of a clock that never goes back; only differences mean anything."""
        ...


class SystemClock:
    """The clocks of this machine."""

    __slots__ = ()

    # Nanoseconds of the machine's clock. A request looks four times, and a method would be a call.
    monotonic_ns = staticmethod(time.monotonic_ns)

    def now_ms(self) -> int:
        """Return wall-clock milliseconds since 1970."""
        return time.time_ns() // MS_NS


class ManualClock:
    """A clock that only moves when a test advances it."""

    __slots__ = ("_monotonic_ns", "_now_ms")

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic_ns = 0

    def advance(self, ms: int) -> None:
        """Move both clocks forward by `ms` milliseconds."""
        self._now_ms += ms
        self._monotonic_ns += ms * MS_NS

    def now_ms(self) -> int:
        """Return the wall clock as last set."""
        return self._now_ms

    def monotonic_ns(self) -> int:
        """Return the monotonic clock as last set."""
        return self._monotonic_ns
