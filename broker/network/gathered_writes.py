"""Answers on their way out: what becomes ready together leaves in one write.

A worker's slice, or the end of one flush, makes the answers to many requests ready, often several
of one connection. A write for each would be most of what a small request costs (measured: 5 µs of
20), so connections that have something to send gather here and are flushed once: by the worker at
the end of its slice, or else in the next turn of the loop.
"""

from __future__ import annotations

from typing import Protocol

from broker.runtime import owners
from broker.runtime.owners import Owner


class Sender(Protocol):
    """A connection that has gathered answers."""

    def flush(self) -> None:
        """Write all that is gathered."""
        ...

    def abort(self, reason: str) -> None:
        """Close at once: what was gathered cannot be written."""
        ...


class GatheredWrites:
    """The connections that have something to send."""

    __slots__ = ("_is_scheduled", "_senders", "held")

    def __init__(self) -> None:
        self._senders: list[Sender] = []
        self._is_scheduled = False
        self.held = False  # whoever sets it will call flush

    def add(self, sender: Sender) -> None:
        """Flush `sender` soon."""
        self._senders.append(sender)
        if not self.held and not self._is_scheduled:
            self._is_scheduled = True
            owners.soon(Owner.ANSWERS, self.flush)

    def flush(self) -> None:
        """Flush every connection that has something."""
        self._is_scheduled = False
        if self._senders:
            senders, self._senders = self._senders, []
            for sender in senders:
                try:
                    sender.flush()
                except Exception as error:  # those behind it have answers, too
                    owners.failed(Owner.ANSWERS, error)
                    sender.abort("internal error")
