"""Pools of a few threads for calls that block: one for cold reads and checkpoints, one for fsync.

A standard thread pool whose results come back to the loop as plain callbacks.
`loop.run_in_executor` wraps each call in two futures; a call through here costs about a third of
that (docs/decisions/0040-append-inline-fsync-away.md has the figures).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeAlias, TypeVar

from broker.runtime import owners
from broker.runtime.owners import Owner

T = TypeVar("T")

Executors: TypeAlias = Callable[[int, str], Executor]  # makes one of so many threads, and a name


def thread_executor(threads: int, name: str) -> Executor:
    """Return an executor of up to `threads` threads, which are started on demand."""
    return ThreadPoolExecutor(threads, thread_name_prefix=name)


class BlockingPool:
    """The threads of `executor`; `submit` and `run` are called on the loop's thread."""

    def __init__(self, executor: Executor, loop: asyncio.AbstractEventLoop) -> None:
        self._executor = executor
        self._loop = loop
        self._outstanding = 0
        self.ended_count = 0  # calls whose result has reached the loop

    @property
    def is_busy(self) -> bool:
        """Whether the result of a call has not reached the loop yet."""
        return self._outstanding > 0

    def submit(
        self,
        owner: Owner,
        call: Callable[[], Any],
        done: Callable[[BaseException | None], None],
    ) -> None:
        """Run `call` in a thread, then `done(error or None)` on the loop, as a step of `owner`."""
        self._outstanding += 1
        future = self._executor.submit(call)
        future.add_done_callback(partial(self._hand_back, owner, done))

    def _hand_back(
        self,
        owner: Owner,
        done: Callable[[BaseException | None], None],
        future: Future[Any],
    ) -> None:
        owners.from_thread(self._loop, owner, self._came_back, done, future.exception())

    def _came_back(
        self, done: Callable[[BaseException | None], None], error: BaseException | None
    ) -> None:
        self._returned()
        done(error)

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
