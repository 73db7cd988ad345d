"""Time that moves on request: an event loop whose timers come due when a test lets time pass.

The loop is uvloop's. Its timers and both clocks of the broker are ahead of the machine's by the
same time (`Ahead`). `advance` adds to that, and lets everything that has become due happen, in its
order; each timer once, as after a long sleep of the machine.

Only loops of brokers with test control are of this kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any

import uvloop

from broker.runtime.clock import MS_NS, SECOND_NS, SystemClock


class Ahead:
    """By how much a broker's time is ahead of the machine's."""

    __slots__ = ("ns",)

    def __init__(self, ns: int = 0) -> None:
        self.ns = ns


class AheadClock:
    """The clocks of this machine, and what a test has added."""

    __slots__ = ("_ahead", "_system")

    def __init__(self, ahead: Ahead) -> None:
        self._ahead = ahead
        self._system = SystemClock()

    def now_ms(self) -> int:
        """Return wall-clock milliseconds since 1970."""
        return self._system.now_ms() + self._ahead.ns // MS_NS

    def monotonic_ns(self) -> int:
        """Return nanoseconds of a clock that never goes back."""
        return self._system.monotonic_ns() + self._ahead.ns


class ElasticTimer(asyncio.TimerHandle):
    """A timer that may come due earlier than the machine's clock says."""

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        arguments: tuple[Any, ...],
        loop: ElasticLoop,
        context: Context | None,
    ) -> None:
        super().__init__(when, callback, arguments, loop, context)
        self._timers = loop.timers
        self._real: asyncio.TimerHandle | None = None

    __hash__ = object.__hash__  # two timers may have the same time and callback
    __eq__ = object.__eq__

    def arm(self, real: asyncio.TimerHandle) -> None:
        """Replace the machine's timer that this one waits for."""
        if self._real is not None:
            self._real.cancel()
        self._real = real

    def fire(self) -> None:
        """Call back, unless it was cancelled or has been called back."""
        if self not in self._timers:
            return
        del self._timers[self]
        if self._real is not None:
            self._real.cancel()
        self._run()  # asyncio's own loops call it, too

    def cancel(self) -> None:
        """Do not call back."""
        self._timers.pop(self, None)
        if self._real is not None:
            self._real.cancel()
        asyncio.Handle.cancel(self)  # a loop of asyncio's own would want to hear of it


class ElasticLoop(uvloop.Loop):
    """An event loop whose timers are ahead of the machine's clock by `ahead`."""

    def __init__(self, ahead: Ahead) -> None:
        super().__init__()
        self._ahead = ahead
        self.timers: dict[ElasticTimer, None] = {}

    def time(self) -> float:
        """Return the loop's time in seconds."""
        return super().time() + self._ahead.ns / SECOND_NS

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back after `delay` seconds of the loop's time."""
        timer = ElasticTimer(self.time() + delay, callback, args, self, context)
        self.timers[timer] = None
        timer.arm(super().call_later(max(0.0, delay), timer.fire))
        return timer

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back at a time of the loop."""
        return self.call_later(when - self.time(), callback, *args, context=context)

    def advance(self, seconds: float) -> None:
        """Let time pass: call back what has become due, the earliest first, before this returns."""
        self._ahead.ns += int(seconds * SECOND_NS)
        now = self.time()
        for timer in sorted(self.timers, key=asyncio.TimerHandle.when):
            if timer.when() <= now:
                timer.fire()
            elif timer in self.timers:
                timer.arm(super().call_later(timer.when() - now, timer.fire))
