"""Who sends requests one at a time while nobody else does: a latency worth saving turns for.

A request that finds the broker at rest may be handled in the step of the loop that received it.
That saves the turns in which a processor and a worker would be woken, some 10 µs. But while many
connections are busy, it costs more than it saves: each answer leaves by itself and wakes a client
by itself, where one turn would have gathered the answers of all.

The loop does not tell how many sockets are ready at the same time. So a connection counts as alone
if the last bytes before were its own, too, or if nothing was received for a millisecond. Both are
guesses that decide about time only. An order is not at stake: one connection's requests are started
as they arrive either way.
"""

from __future__ import annotations

from typing import Final

from broker.runtime.clock import MS_NS

QUIET_NS: Final = MS_NS


class LoneSenders:
    """Who sent last, and when."""

    __slots__ = ("_at_ns", "_last")

    def __init__(self) -> None:
        self._last: object | None = None
        self._at_ns = 0

    def is_alone(self, sender: object, now_ns: int) -> bool:
        """Return whether `sender`, which sends now, does so alone."""
        is_alone = sender is self._last or now_ns - self._at_ns > QUIET_NS
        self._last = sender
        self._at_ns = now_ns
        return is_alone

    def forget(self, sender: object) -> None:
        """Forget one that has ended."""
        if sender is self._last:
            self._last = None
