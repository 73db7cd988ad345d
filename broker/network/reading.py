"""Whether a connection's socket is read, and what stands against it.

Any of the reasons in `Hold` stops reading; that is the client's backpressure, and no other
connection notices. Some of them also keep whole frames that are here from being submitted (`held`).

Whether the socket is read is asked of the transport each time, never remembered: uvloop begins to
read after `connection_made`, whatever that has said.

A frame that was begun has to end in time. The clock of its deadline runs only while the client is
what keeps it from ending, so it starts anew when reading resumes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from broker.runtime.clock import Clock


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
    REFUSED: Final = 64  # no more is read; what came before the refused bytes is still answered
    DECODING: Final = 128  # a thread decodes the first frame


# These stop reading and let the frames that are here be submitted.
_READING_ONLY: Final = Hold.BUDGET | Hold.REFUSED


class Reading:
    """The holds of one connection, and its transport's reading end.

    `frames` are the whole frames that wait in the connection. `transport` is None before it begins
    and after its end.
    """

    __slots__ = ("_clock", "_frames", "frame_begun_ns", "holds", "transport")

    def __init__(self, frames: deque[bytearray], clock: Clock) -> None:
        self._frames = frames
        self._clock = clock
        self.transport: asyncio.Transport | None = None
        self.holds: int = Hold.NONE
        self.frame_begun_ns = 0  # 0: no frame is begun

    @property
    def held(self) -> bool:
        """Whether the connection's frames must wait."""
        return bool(self.holds & ~_READING_ONLY)

    @property
    def waits_for_client(self) -> bool:
        """Whether only the client keeps its frame from ending; else the frame's clock rests."""
        transport = self.transport
        return transport is None or transport.is_reading() or bool(self.holds & Hold.UNSENT)

    def hold(self, reason: int) -> None:
        """Stop reading for one more reason."""
        self.holds |= reason
        self.pause_or_resume()

    def pause_or_resume(self) -> None:
        """Read while no reason stands against it; once stopped, only when no frame waits here.

        Without the second half each answer would let another receive buffer of small frames in.
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
            if self.frame_begun_ns:  # it was ours that waited, not the client
                self.frame_begun_ns = self._clock.monotonic_ns()
