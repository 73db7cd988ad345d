"""Lines of requests: those for one key go on in the order in which they came.

Most requests find no line and need none, as they end in the turn of the loop in which they come.
One that must first wait begins a line, and those that come while it waits stand behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Lines:
    """The lines of one kind of request, by key."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: dict[str, _Waiting] = {}  # bounded by the requests in flight

    def is_any(self, key: str) -> bool:
        """Whether a request for `key` waits, so that another one must not overtake it."""
        return key in self._lines

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """Wait until every request for `key` that came before has left the line."""
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Waiting()
        line.count += 1
        try:
            async with line.turn:
                yield
        finally:
            line.count -= 1
            if not line.count:
                del self._lines[key]


class _Waiting:
    __slots__ = ("count", "turn")

    def __init__(self) -> None:
        self.count = 0
        self.turn = asyncio.Lock()  # lets those that wait through in their order
