"""One timer for all deadlines of a group.

A group keeps its deadlines as numbers (of the monotonic clock, in nanoseconds) and one alarm, set
for the earliest. A heartbeat postpones a deadline: it changes a number and leaves the alarm. If the
alarm rings too early, the group finds nothing due and returns the next deadline. So a thousand
groups of ten members need a thousand timers, and each fires once a session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

NEVER_NS: Final = 1 << 63
_SECOND_NS = 1_000_000_000
AGAIN_NS = _SECOND_NS  # after a ring that failed


class Handle(Protocol):
    """What `call_later` returns."""

    def cancel(self) -> None:
        """Do not call."""


class Alarm:
    """Calls `ring(now_ns)` once it is due; `ring` returns the next due time, or NEVER_NS."""

    __slots__ = ("_call_later", "_due_ns", "_handle", "_monotonic_ns", "_ring")

    def __init__(
        self,
        ring: Callable[[int], int],
        monotonic_ns: Callable[[], int],
        call_later: Callable[[float, Callable[[], None]], Handle],
    ) -> None:
        self._ring = ring
        self._monotonic_ns = monotonic_ns
        self._call_later = call_later
        self._due_ns = NEVER_NS
        self._handle: Handle | None = None

    def at_latest(self, due_ns: int) -> None:
        """Ring at `due_ns` or earlier."""
        if due_ns >= self._due_ns:
            return
        self.cancel()
        self._due_ns = due_ns
        wait_seconds = max(0, due_ns - self._monotonic_ns()) / _SECOND_NS
        self._handle = self._call_later(wait_seconds, self._rang)

    def cancel(self) -> None:
        """Do not ring."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._due_ns = NEVER_NS

    def _rang(self) -> None:
        self._handle = None
        self._due_ns = NEVER_NS
        now_ns = self._monotonic_ns()
        try:
            due_ns = self._ring(now_ns)
        except Exception:
            # Without another ring no member of the group would ever expire.
            self.at_latest(now_ns + AGAIN_NS)
            raise
        self.at_latest(due_ns)
