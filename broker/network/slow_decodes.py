"""Requests that take a while to decode, though not long: so much of them in a turn of the loop.

A request that names thousands of topics or partitions takes some milliseconds for each 10 KiB. One
is decoded where it arrives, but many clients may send theirs at once, as after a restart: without a
bound, all of them would be decoded in one step. When a processor has spent `OF_A_TURN_NS` in this
turn, the next such request waits for another turn, and its connection with it
(`broker.network.held_for_turns`).

Only decodes of at least `SLOW_NS` count. A Produce in Kafka's dialect, whose batches are not
opened, never waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.network.held_for_turns import HeldForTurns
from broker.runtime.clock import MS_NS, Clock
from protocol.dialect import DecodedRequest, Dialect
from protocol.errors import TakesLong

if TYPE_CHECKING:
    from broker.network.connection import Connection

LARGE_BYTES: Final = 1024  # smaller requests are decoded without a look at the clock
SLOW_NS: Final = MS_NS // 10
OF_A_TURN_NS: Final = 3 * MS_NS


class TurnUsedUp(TakesLong):
    """The request is to be decoded in another turn."""


class SlowDecodes:
    """The decoding of one processor's larger requests."""

    __slots__ = ("_clock", "_held", "_spent_ns")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._spent_ns = 0  # in this turn
        self._held = HeldForTurns(self._begin, OF_A_TURN_NS // SLOW_NS)

    def decode(self, dialect: Dialect, frame: memoryview) -> DecodedRequest:
        """Decode a frame. Raises TurnUsedUp, and what the dialect raises."""
        if self._spent_ns >= OF_A_TURN_NS:
            raise TurnUsedUp("this turn is used up")
        begun_ns = self._clock.monotonic_ns()
        try:
            return dialect.decode_request(frame)
        finally:
            spent_ns = self._clock.monotonic_ns() - begun_ns
            if spent_ns >= SLOW_NS:
                self._held.use()
                self._spent_ns += spent_ns

    def wait(self, connection: Connection) -> None:
        """Hold a connection until its turn."""
        self._held.add(connection)

    def _begin(self) -> None:
        self._spent_ns = 0
