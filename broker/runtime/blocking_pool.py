"""Pools of a few threads for calls that block: one for cold reads and checkpoints, one for fsync.

Results come back to the loop as plain callbacks, without futures. Those of calls that end together
come in one step of the loop, since each wake-up of the loop costs as much as a small request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, TypeAlias, TypeVar

from broker.runtime import owners
from broker.runtime.call_threads import CallThreads
from broker.runtime.owners import Owner

T = TypeVar("T")

Done: TypeAlias = Callable[[BaseException | None], None]
Executors: TypeAlias = Callable[[int, str], Executor]  # makes one of so many threads, and a name


def thread_executor(threads: int, name: str) -> Executor:
    """Return an executor of up to `threads` threads, which are started on demand."""
    return CallThreads(threads, name)


class BlockingPool:
    """The threads of `executor`; `submit` and `run` are called on the loop's thread."""

    def __init__(self, executor: Executor, loop: asyncio.AbstractEventLoop) -> None:
        self._executor = executor
        self._loop = loop
        self._outstanding = 0
        self._ended: deque[tuple[Owner, Done, BaseException | None]] = deque()  # untold, of threads
        self._is_told = False  # whether `_take_ended` will run
        self.ended_count = 0  # calls whose result has reached the loop

    @property
    def is_busy(self) -> bool:
        """Whether the result of a call has not reached the loop yet."""
        return self._outstanding > 0

    def submit(
        self,
        owner: Owner,
        call: Callable[[], Any],
        done: Done,
    ) -> None:
        """Run `call` in a thread, then `done(error or None)` on the loop, as a step of `owner`."""
        self._outstanding += 1
        executor = self._executor
        if isinstance(executor, CallThreads):
            executor.post(call, partial(self._hand_back, owner, done))
        else:
            future = executor.submit(call)
            future.add_done_callback(partial(self._hand_back_future, owner, done))

    def _hand_back_future(self, owner: Owner, done: Done, future: Future[Any]) -> None:
        self._hand_back(owner, done, future.exception())

    def _hand_back(self, owner: Owner, done: Done, error: BaseException | None) -> None:
        """Have the loop call `done`. In a thread."""
        self._ended.append((owner, done, error))
        if not self._is_told:
            self._is_told = True
            owners.from_thread(self._loop, owner, self._take_ended)

    def _take_ended(self) -> None:
        self._is_told = False  # first: what comes from here on is told again
        for _ in range(len(self._ended)):
            owner, done, error = self._ended.popleft()
            self._returned()
            owners.step(owner, done, error)

    async def run(self, call: Callable[[], T]) -> T:
        """Run `call` in a thread and return what it returns, or raise what it raises."""
        self._outstanding += 1
        future = self._loop.run_in_executor(self._executor, call)
        future.add_done_callback(self._ran)  # when the call ends, even if the caller is cancelled
        return await asyncio.shield(future)

    def _ran(self, _: asyncio.Future[T]) -> None:
        self._returned()

    def _returned(self) -> None:
        self._outstanding -= 1
        self.ended_count += 1

    def close(self) -> None:
        """Wait for the calls that run, and take no new ones."""
        self._executor.shutdown(wait=True)
