"""The rules in force, and how often each was met.

The counts outlive the broker: its parent asks for the book before it ends a life, and gives it to
the next (`state`, `of`). Calls of the file system come from several threads.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

from broker.testing.command_refused import CommandRefused
from broker.testing.fault_rules import CallRule, RequestRule, Rule, parse
from broker.testing.message_line import Message

RULES_MAX: Final = 1_000


class RuleBook:
    """Rules by number."""

    def __init__(self) -> None:
        self._next = 1
        self._rules: dict[int, Rule] = {}
        self._turn = threading.Lock()
        self.requests: list[RequestRule] = []
        self.calls: list[CallRule] = []

    @classmethod
    def of(cls, state: Message) -> RuleBook:
        """Return the book that an earlier life has left."""
        book = cls()
        for one in state.get("rules", ()):
            rule = parse(one["rule"])
            rule.number, rule.seen, rule.met = one["number"], one["seen"], one["met"]
            book._put(rule)
        book._next = state.get("next", 1)
        return book

    def state(self) -> Message:
        """Return what the next life is given."""
        return {"next": self._next, "rules": self.all()}

    def add(self, given: object) -> Message:
        """Put a rule into force. Raises CommandRefused."""
        rule = parse(given)
        if len(self._rules) >= RULES_MAX:
            raise CommandRefused(f"{RULES_MAX} rules are in force, the most: remove some")
        for other in self._rules.values():
            if type(other) is type(rule) and rule.contradicts(other):  # type: ignore[arg-type]
                raise CommandRefused(
                    f"the rule contradicts rule {other.number}, {other.given}: both decide what"
                    " happens to the same times; remove that, or give them different nth"
                )
        rule.number = self._next
        self._next += 1
        self._put(rule)
        return _row(rule)

    def remove(self, number: int | None) -> Message:
        """Take a rule out of force, or all. Raises CommandRefused."""
        if number is None:
            self._rules.clear()
        elif self._rules.pop(number, None) is None:
            raise CommandRefused(f"there is no rule {number}")
        self._sort()
        return {}

    def all(self) -> list[Message]:
        """Return the rules with their counts."""
        return [_row(rule) for rule in self._rules.values()]

    def meet_request(
        self, api_key: int, client: str, topics: Mapping[str, list[int]]
    ) -> list[RequestRule]:
        """Return the rules for a request, which is counted."""
        found = []
        for rule in self.requests:
            if rule.fits(api_key, client, topics):
                rule.seen += 1
                if rule.nth.has(rule.seen):
                    rule.met += 1
                    found.append(rule)
        return found

    def meet_call(self, call: str, path: str) -> list[CallRule]:
        """Return the rules for a file call, which is counted. For any thread."""
        if not self.calls:
            return []
        found = []
        with self._turn:
            for rule in self.calls:
                if rule.fits(call, path):
                    rule.seen += 1
                    if rule.nth.has(rule.seen):
                        rule.met += 1
                        found.append(rule)
        return found

    def _put(self, rule: Rule) -> None:
        self._rules[rule.number] = rule
        self._sort()

    def _sort(self) -> None:
        rules = self._rules.values()
        self.requests = [rule for rule in rules if isinstance(rule, RequestRule)]
        self.calls = [rule for rule in rules if isinstance(rule, CallRule)]


def _row(rule: Rule) -> Message:
    return {
        "number": rule.number,
        "rule": rule.given,
        "seen": rule.seen,
        "met": rule.met,
        "must_be_met": rule.must_be_met,
    }
