"""Which of the times that a rule's place is passed the rule is for: the nth, some, or all."""

from __future__ import annotations

import re
from dataclasses import dataclass

from broker.testing.command_refused import CommandRefused

_WRITTEN = re.compile(r"([1-9][0-9]{0,17})(?:(\+)|-([1-9][0-9]{0,17}))?\Z")


@dataclass(frozen=True, slots=True)
class NthTimes:
    """From the `first` to the `last` time, both included; None: for ever."""

    first: int = 1
    last: int | None = None

    @classmethod
    def of(cls, given: object) -> NthTimes:
        """Read 3, "3", "3+" or "2-5"; None is each time. Raises CommandRefused."""
        if given is None:
            return cls()
        match = _WRITTEN.match(str(given)) if not isinstance(given, bool) else None
        if match is None:
            raise CommandRefused(
                f"nth is {given!r}, expected the number of a time as 3, the times from it on as"
                " '3+', or a range as '2-5'"
            )
        first = int(match[1])
        last = None if match[2] else int(match[3] or first)
        if last is not None and last < first:
            raise CommandRefused(f"nth is {given!r}, which ends before it begins")
        return cls(first, last)

    def has(self, time: int) -> bool:
        """Return whether the `time`th time is one of them."""
        return self.first <= time and (self.last is None or time <= self.last)

    def meets(self, other: NthTimes) -> bool:
        """Return whether a time is in both."""
        return (self.last is None or other.first <= self.last) and (
            other.last is None or self.first <= other.last
        )
