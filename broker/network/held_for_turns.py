"""Connections that are held until a turn of the loop to come, in which a few of them go on.

A part of a turn is theirs. When it is used up, whatever would take more of it is held. All that is
held might try again in the next turn, but only a few would succeed: of 5,000 connections that cost
some 20 ms each time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.network.reading import Hold
from broker.runtime import owners
from broker.runtime.owners import Owner

if TYPE_CHECKING:
    from broker.network.connection import Connection


class HeldForTurns:
    """The connections of one processor that are held; `begin` is called when a turn is over."""

    __slots__ = ("_begin", "_is_called", "_of_a_turn", "_waiting")

    def __init__(self, begin: Callable[[], None], of_a_turn: int) -> None:
        self._begin = begin
        self._of_a_turn = of_a_turn
        self._waiting: deque[Connection] = deque()  # each once: it is held
        self._is_called = False

    def use(self) -> None:
        """Note that this turn is used: another is to begin."""
        if not self._is_called:
            self._is_called = True
            owners.soon(Owner.PROCESSOR, self._next)

    def add(self, connection: Connection) -> None:
        """Hold a connection until it is its turn."""
        connection.reading.hold(Hold.DECODING)
        self._waiting.append(connection)
        self.use()

    def _next(self) -> None:
        self._is_called = False
        self._begin()
        waiting = self._waiting
        try:
            for _ in range(min(len(waiting), self._of_a_turn)):
                waiting.popleft().release(Hold.DECODING)
        finally:
            if waiting:
                self.use()
