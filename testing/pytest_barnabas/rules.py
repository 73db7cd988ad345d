"""Rules of faults as a test sees them: how often they were met, and that they must be."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class RuleNotMet(AssertionError):
    """A rule that must be met was not."""


class Asked(NamedTuple):
    """One request of a client, as the broker has received it.

    `topics` are the partitions of each topic that it names, `rules` the numbers of the rules that
    it met.
    """

    api: str
    version: int
    client: str
    topics: dict[str, list[int]]
    rules: list[int]
    number: int
    at_ms: int
    software: str
    peer: str
    group_id: str | None = None
    transactional_id: str | None = None
    acks: int | None = None


class Rule:
    """A rule in force."""

    def __init__(
        self,
        number: int,
        given: dict[str, Any],
        look: Callable[[], Iterable[dict[str, Any]]],
        remove: Callable[[int], object],
    ) -> None:
        self.number = number
        self.given = given
        self._look = look
        self._remove = remove
        self._last: dict[str, Any] = {"met": 0, "seen": 0}

    @property
    def met(self) -> int:
        """How often it happened."""
        return int(self._row()["met"])

    @property
    def seen(self) -> int:
        """How many requests or calls fitted, also those that `nth` left alone."""
        return int(self._row()["seen"])

    def remove(self) -> None:
        """Take it out of force; its counts stay."""
        self._row()
        self._remove(self.number)

    def keep_counts(self) -> None:
        """Read the counts a last time, if it must be met: its broker is about to end."""
        if self.given.get("must_be_met"):
            self._row()

    def check(self) -> None:
        """Raise RuleNotMet if it must be met and was not."""
        if self.given.get("must_be_met") and not self.met:
            raise RuleNotMet(
                f"the rule {self.given} was never met: {self.seen} requests or calls fitted it"
            )

    def _row(self) -> dict[str, Any]:
        for row in self._look():
            if row["number"] == self.number:
                self._last = row
        return self._last
