"""An answer that comes later: what a handler returns when it cannot answer now.

Smaller than an asyncio future, and its callback runs at once instead of in the next turn of the
loop: an acknowledgement waits for nothing but its fsync.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Pending:
    """Completed once, with the response message; whoever subscribed hears of it at once."""

    __slots__ = ("_subscriber", "done", "response")

    def __init__(self) -> None:
        self.done = False
        self.response: Any = None
        self._subscriber: Callable[[Any], None] | None = None

    def complete(self, response: Any) -> None:
        """Give the answer. A second completion (a deadline that lost the race) is ignored."""
        if self.done:
            return
        self.done = True
        self.response = response
        if self._subscriber is not None:
            self._subscriber(response)

    def then(self, subscriber: Callable[[Any], None]) -> None:
        """Call `subscriber(response)` when the answer is there, or now if it already is."""
        if self.done:
            subscriber(self.response)
        else:
            self._subscriber = subscriber
