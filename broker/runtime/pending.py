"""An answer that comes later: what a handler returns when it cannot answer now.

Smaller than an asyncio future, and its callback runs at once instead of in the next turn of the
loop: an acknowledgement waits for nothing but its fsync.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Pending:
    """Completed once, with the response message; whoever subscribed hears of it at once."""

    __slots__ = ("_failed", "_subscriber", "done", "error", "response")

    def __init__(self) -> None:
        self.done = False
        self.response: Any = None
        self.error: Exception | None = None
        self._subscriber: Callable[[Any], None] | None = None
        self._failed: Callable[[Exception], None] | None = None

    def complete(self, response: Any) -> None:
        """Give the answer. A second completion (a deadline that lost the race) is ignored."""
        if self.done:
            return
        self.done = True
        self.response = response
        if self._subscriber is not None:
            self._subscriber(response)

    def fail(self, error: Exception) -> None:
        """Say that there is no answer, for a reason that nobody expected."""
        if self.done:
            return
        self.done = True
        self.error = error
        if self._failed is not None:
            self._failed(error)

    def then(
        self,
        subscriber: Callable[[Any], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Call `subscriber(response)`, or `failed(error)`, at the end, or now if that has come."""
        if not self.done:
            self._subscriber = subscriber
            self._failed = failed
        elif self.error is not None:
            failed(self.error)
        else:
            subscriber(self.response)
