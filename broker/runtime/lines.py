"""Lines of requests: those for one key go on in the order in which they came.

Most requests find no line and need none, as they end in the turn of the loop in which they come.
One that must first wait begins a line, and those that come while it waits stand behind it.

    turn = lines.turn(key)      in the handler: takes the next place
    async with turn: …          in its task: waits for those before

A handler takes the place, not its coroutine: that begins in a later turn of the loop, when the next
request may have been handled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from types import TracebackType


class Lines:
    """The lines of one kind of request, by key."""

    __slots__ = ("_lines", "waiting")

    def __init__(self) -> None:
        self._lines: dict[object, _Waiting] = {}  # bounded by the requests in flight
        # The keys of which a request waits, so that another one must not overtake it. Each request
        # asks, so it is the dictionary itself.
        self.waiting: Collection[object] = self._lines

    def turn(self, key: object) -> Turn:
        """Take the next place in the line of `key`; it must be entered, in the order of places."""
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Waiting()
        line.count += 1
        return Turn(self._lines, key, line)


class Turn:
    """A place in a line; to enter it waits until every request before it has left the line."""

    __slots__ = ("_key", "_line", "_lines")

    def __init__(self, lines: dict[object, _Waiting], key: object, line: _Waiting) -> None:
        self._lines = lines
        self._key = key
        self._line = line

    async def __aenter__(self) -> None:
        """Wait for the turn."""
        try:
            await self._line.lock.acquire()
        except BaseException:
            self._leave()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the next one go on."""
        self._line.lock.release()
        self._leave()

    def _leave(self) -> None:
        self._line.count -= 1
        if not self._line.count:
            del self._lines[self._key]


class _Waiting:
    __slots__ = ("count", "lock")

    def __init__(self) -> None:
        self.count = 0
        self.lock = asyncio.Lock()  # lets those that wait through in their order
