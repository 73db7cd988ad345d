"""The time for which a throttled connection is not read (KIP-219).

Throttling stops reading and nothing else: answers leave, and whole frames that are here already are
started, since they hold memory that other connections need. Further throttling extends the time.
One timer is all that a muted connection costs; it goes with the connection.
"""

from __future__ import annotations

import asyncio
from typing import Final

from broker.network.reading import Hold, Reading
from broker.runtime import owners
from broker.runtime.clock import MS_NS, SECOND_NS, Clock
from broker.runtime.owners import Owner

SLEEP_SECONDS_MAX: Final = 3_600.0  # a throttle time of weeks is no timer's


class Muting:
    """The throttling of one connection."""

    __slots__ = ("_clock", "_reading", "_timer", "_until_ns")

    def __init__(self, reading: Reading, clock: Clock) -> None:
        self._reading = reading
        self._clock = clock
        self._until_ns = 0
        self._timer: asyncio.TimerHandle | None = None

    def extend(self, throttle_ms: int) -> None:
        """Do not read for `throttle_ms` from now on, or for longer if that was said before."""
        now_ns = self._clock.monotonic_ns()
        self._until_ns = max(self._until_ns, now_ns + throttle_ms * MS_NS)
        self._reading.hold(Hold.THROTTLED)
        if self._timer is None:
            self._sleep(now_ns)

    def end(self) -> None:
        """Drop the timer: the connection has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sleep(self, now_ns: int) -> None:
        seconds = min((self._until_ns - now_ns) / SECOND_NS, SLEEP_SECONDS_MAX)
        self._timer = owners.later(Owner.THROTTLING, seconds, self._woke)

    def _woke(self) -> None:
        self._timer = None
        now_ns = self._clock.monotonic_ns()
        if now_ns < self._until_ns:
            self._sleep(now_ns)
            return
        self._reading.holds &= ~Hold.THROTTLED
        self._reading.pause_or_resume()
