"""Whose step it is: the one door through which the broker puts work on its loop.

A task, a timer, a callback or a job of the pool has nobody above it who would catch what it
raises. So each begins here, with its `Owner`: the part of the broker that the step belongs to, and
what its failure is contained to. An exception that nobody expected

- ends that step, and nothing else: what it was about to do for others is theirs to contain;
- goes to the loop's exception handler, which is a `FailureLog`: an ERROR with the owner's name and
  the trace, and one more in `Metrics.unexpected_failures`. What uvloop itself catches, in a
  connection's callbacks say, comes to the same place.

No other module calls the loop's own functions for this (tests/test_tidy.py), so `Owner` is the
whole list. Tests fail when something was reported that they did not cause (tests/conftest.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from enum import Enum
from functools import partial
from typing import Any, TypeVar

from broker.runtime.clock import Clock
from broker.runtime.log_lines import RateLimiter
from broker.runtime.metrics import Metrics

logger = logging.getLogger("barnabas.failures")

T = TypeVar("T")
AGAIN_SECONDS = 0.05  # a pause, so that what fails at once does not fail without end
FAILURES_PER_SECOND_MAX = 20  # in the log; all are counted


class Owner(Enum):
    """Who puts steps on the loop. The value says what a failure of one is contained to."""

    ACCEPTOR = "the connection that was accepted"
    PROCESSOR = "the connection whose frames were decoded"
    WORKER = "the connection whose request it was"
    REQUEST = "the request"
    ANSWERS = "the connection that they go to"
    PARKED_FETCH = "the fetch that was parked"
    FETCH_READ = "the fetch that read"
    TIMESTAMP_LOOKUP = "the request that looked a time up"
    FLUSH = "the partitions of the round"
    APPEND = "the batch, and what waits behind it"
    GROUP_ALARM = "the group, whose alarm rings again a second later"
    GROUP_TARGETS = "the group, whose next heartbeat asks for targets again"
    GROUP_LOADING = "the groups that were to be loaded"
    TOPIC_CHANGE = "the change, which the next start looks at again"
    TICKER = "one turn of the duty"
    COMPACTION = "the pass"
    STOP = "this step of the stop"


def spawn(
    owner: Owner,
    coroutine: Coroutine[Any, Any, T],
    name: str = "",
    *,
    among: set[asyncio.Task[T]] | None = None,
) -> asyncio.Task[T]:
    """Run a coroutine as a task; whoever awaits it gets its exception as well.

    The task is `among` others for as long as it runs.
    """
    task = asyncio.get_running_loop().create_task(coroutine, name=name or owner.name.lower())
    tasks: set[Any] = _running if among is None else among  # the loop holds its tasks weakly
    tasks.add(task)
    task.add_done_callback(partial(_ended, owner, tasks))
    return task


async def keep_running(owner: Owner, run: Callable[[], Awaitable[None]]) -> None:
    """Run what never ends, again and again should it fail.

    An OSError of an acceptor is passed on: it means that its socket cannot be accepted from.
    """
    while True:
        try:
            await run()
        except Exception as error:
            if owner is Owner.ACCEPTOR and isinstance(error, OSError):
                raise
            failed(owner, error)
            await asyncio.sleep(AGAIN_SECONDS)
        else:
            return


def soon(owner: Owner, call: Callable[..., object], *arguments: Any) -> None:
    """Call in the next turn of the loop."""
    asyncio.get_running_loop().call_soon(_step, owner, call, arguments)


def later(
    owner: Owner, seconds: float, call: Callable[..., object], *arguments: Any
) -> asyncio.TimerHandle:
    """Call when so many seconds are over, unless the handle is cancelled."""
    return asyncio.get_running_loop().call_later(seconds, _step, owner, call, arguments)


def from_thread(
    loop: asyncio.AbstractEventLoop, owner: Owner, call: Callable[..., object], *arguments: Any
) -> None:
    """Call on the loop soon, from another thread."""
    loop.call_soon_threadsafe(_step, owner, call, arguments)


def failed(owner: Owner, error: BaseException, what: str = "") -> None:
    """Report what nobody expected. On the loop; never raises."""
    asyncio.get_running_loop().call_exception_handler(
        {"message": what or owner.name.lower(), "exception": error, "owner": owner}
    )


_running: set[asyncio.Task[Any]] = set()


def _step(owner: Owner, call: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    try:
        call(*arguments)
    except Exception as error:
        failed(owner, error)


def _ended(owner: Owner, tasks: set[Any], task: asyncio.Task[Any]) -> None:
    tasks.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        task.get_loop().call_exception_handler(
            {"message": task.get_name(), "exception": error, "owner": owner}
        )


class FailureLog:
    """The loop's exception handler."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._lines = RateLimiter(clock, FAILURES_PER_SECOND_MAX)

    def __call__(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Count and log one failure, as asyncio describes it."""
        self._metrics.unexpected_failures += 1
        dropped = self._lines.allow()
        if dropped is None:
            return
        owner = context.get("owner")
        error = context.get("exception")
        logger.error(
            "unexpected failure of %s, contained to %s%s: %r",
            context.get("message", "a step of the loop"),
            owner.value if isinstance(owner, Owner) else "what called it",
            f" ({dropped} more since the last line)" if dropped else "",
            error,
            exc_info=error,
        )
