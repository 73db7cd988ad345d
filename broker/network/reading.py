"""Whether a connection's socket is read, and why not.

Each reason in `Hold` stops reading. That is the client's backpressure, and it affects no other
connection. Most reasons also keep the whole frames that are here from being submitted (`held`).

Ask the transport whether it reads; never remember it: uvloop starts to read after
`connection_made`, even if reading was paused there.

A client over a quota is not read for its throttle time (KIP-219). Throttling stops reading and
nothing else: answers leave, and whole frames that are here already are started, since they hold
memory that other connections need. It costs a timer, which goes with the connection.

A frame must be complete by its deadline. Its clock runs only while the client alone delays it, so
the clock restarts when reading resumes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from broker.runtime import owners
from broker.runtime.clock import MS_NS, SECOND_NS, Clock
from broker.runtime.owners import Owner

TIMER_SECONDS_MAX: Final = 3_600.0  # throttle times may be weeks


class Hold:
    """Why a connection is not being read: bits.

    Plain integers, since each request looks at them and an enum's operators are calls.
    """

    NONE: Final = 0
    QUEUE_FULL: Final = 1  # queued.max.requests
    IN_FLIGHT: Final = 2  # barnabas.requests.per.connection.max
    BUDGET: Final = 4  # queued.max.request.bytes
    UNSENT: Final = 8  # the client does not read its answers
    CLOSING: Final = 16
    ANSWERS: Final = 32  # barnabas.answer.bytes.max
    REFUSED: Final = 64  # nothing more is read; earlier requests are still answered
    DECODING: Final = 128  # a thread decodes the first frame, or another turn of the loop
    LOGIN: Final = 256  # a login is being checked, or its failure is delayed
    ONE_FRAME: Final = 512  # a client that is not logged in sends one frame at a time
    THROTTLED: Final = 1024  # over a quota


# All but these keep waiting frames from being submitted; these stop reading only.
HOLDS_FRAMES: Final = ~(Hold.BUDGET | Hold.REFUSED | Hold.ONE_FRAME | Hold.THROTTLED)


class Reading:
    """The holds of one connection, and its transport's reading end.

    `frames` are the whole frames that wait in the connection. `transport` is None before it begins
    and after its end.
    """

    __slots__ = (
        "_clock",
        "_frames",
        "_muted_until_ns",
        "_unmute",
        "frame_begun_ns",
        "holds",
        "transport",
    )

    can_wait: Final = True

    def __init__(self, frames: deque[bytearray], clock: Clock) -> None:
        self._frames = frames
        self._clock = clock
        self.transport: asyncio.Transport | None = None
        self.holds: int = Hold.NONE
        self.frame_begun_ns = 0  # 0: no frame is begun
        self._unmute: asyncio.TimerHandle | None = None
        self._muted_until_ns = 0

    @property
    def held(self) -> bool:
        """Whether the connection's frames must wait."""
        return bool(self.holds & HOLDS_FRAMES)

    @property
    def waits_for_client(self) -> bool:
        """Whether only the client delays its frame; otherwise the frame's clock is paused."""
        transport = self.transport
        return transport is None or transport.is_reading() or bool(self.holds & Hold.UNSENT)

    def hold(self, reason: int) -> None:
        """Stop reading for one more reason."""
        self.holds |= reason
        self.pause_or_resume()

    def hold_for_budget(self, *, within_frame: bool) -> None:
        """Stop reading: the budget is full. A frame that has begun is finished all the same.

        A throttled client would otherwise hold its part of a frame for its throttle time.
        """
        if not within_frame:
            self.hold(Hold.BUDGET)
        elif self.holds & Hold.THROTTLED:
            self.holds &= ~Hold.THROTTLED
            self.pause_or_resume()

    def mute(self, throttle_ms: int) -> None:
        """Do not read for `throttle_ms` from now on, or for longer if that was said before."""
        if self.transport is None:
            return
        now_ns = self._clock.monotonic_ns()
        self._muted_until_ns = max(self._muted_until_ns, now_ns + throttle_ms * MS_NS)
        self.hold(Hold.THROTTLED)
        if self._unmute is None:
            self._unmute_later(now_ns)

    def _unmute_later(self, now_ns: int) -> None:
        seconds = min((self._muted_until_ns - now_ns) / SECOND_NS, TIMER_SECONDS_MAX)
        self._unmute = owners.later(Owner.THROTTLING, seconds, self._unmute_now)

    def _unmute_now(self) -> None:
        self._unmute = None
        now_ns = self._clock.monotonic_ns()
        if now_ns < self._muted_until_ns:
            self._unmute_later(now_ns)
            return
        self.holds &= ~Hold.THROTTLED
        self.pause_or_resume()

    def end(self) -> None:
        """Note that the connection has ended."""
        self.holds |= Hold.CLOSING
        self.transport = None
        if self._unmute is not None:
            self._unmute.cancel()
            self._unmute = None

    def pause_or_resume(self) -> None:
        """Read while there is no reason against it; once paused, resume only if no frame waits.

        Otherwise each answer would admit another receive buffer of small frames.
        """
        transport = self.transport
        if transport is None:
            return
        is_reading = transport.is_reading()
        if bool(self.holds) or (not is_reading and bool(self._frames)):
            if is_reading:
                transport.pause_reading()
        elif not is_reading:
            transport.resume_reading()
            if self.frame_begun_ns:  # the broker caused the wait, not the client
                self.frame_begun_ns = self._clock.monotonic_ns()
