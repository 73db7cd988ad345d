"""Calls that take a thread some milliseconds, one at a time, whoever asks for them.

Clients that are not logged in yet can ask for such calls (key derivations), as many as they like.
One at a time leaves the other threads of the pool to reads and checkpoints. `WAITING_MAX` calls
wait; a further one is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from broker.runtime import owners
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.owners import Owner

T = TypeVar("T")

WAITING_MAX: Final = 1_024


class TooManyWait(Exception):
    """So many calls wait that another is refused."""


class OneByOne:
    """Runs calls in the threads of `pool`."""

    def __init__(self, pool: BlockingPool) -> None:
        self._pool = pool
        self._turn = asyncio.Lock()
        self.waiting_count = 0

    async def run(self, call: Callable[[], T]) -> T:
        """Run `call` in a thread when it is its turn. Raises TooManyWait.

        A caller that is cancelled leaves its turn; a call that has begun keeps it until it ends.
        """
        if self.waiting_count >= WAITING_MAX:
            raise TooManyWait
        self.waiting_count += 1
        try:
            await self._turn.acquire()
        finally:
            self.waiting_count -= 1
        return await asyncio.shield(owners.spawn(Owner.LOGIN, self._keep_turn(call)))

    async def _keep_turn(self, call: Callable[[], T]) -> T:
        try:
            return await self._pool.run(call)
        finally:
            self._turn.release()
