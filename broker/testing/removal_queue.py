"""Directories that nobody needs any more: renamed at once, removed file by file while it is quiet.

A removal costs as much as a start of a broker, and a test would wait for it. So a directory only
loses its name, and its files go between two commands. WAITING_MAX directories may wait; the next
one is removed at once.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from broker.testing.directory_copy import finish, removing

WAITING_MAX: Final = 4


class RemovalQueue:
    """Directories that wait for their removal in `place`, which is on their disk."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._waiting: deque[Iterator[None]] = deque()
        self._count = 0

    def take(self, path: str) -> None:
        """Take a directory out of the way. Raises OSError if it cannot be renamed to `place`."""
        os.makedirs(self._place, exist_ok=True)
        self._count += 1
        there = os.path.join(self._place, str(self._count))
        os.rename(path, there)
        while len(self._waiting) >= WAITING_MAX:
            self._finish(self._waiting.popleft())
        self._waiting.append(removing(there))

    def step(self) -> bool:
        """Remove one file; return whether there is more to remove."""
        if self._waiting:
            try:
                if next(self._waiting[0], self) is self:
                    self._waiting.popleft()
            except OSError:  # it goes with `place` later
                self._waiting.popleft()
        return bool(self._waiting)

    def _finish(self, steps: Iterator[None]) -> None:
        with suppress(OSError):
            finish(steps)
