"""The owner of each step of the loop: the one place through which the broker schedules work.

A task, a timer, a callback or a job of the pool has no caller that would catch its exceptions. So
each begins here, with its `Owner`: the part of the broker that the step belongs to, and what its
failure is contained to. An unexpected exception

- ends that step and nothing else: code that works for several requests contains each failure
  itself;
- goes to the loop's exception handler, a `FailureLog`: an ERROR with the owner's name and the
  trace, and one more in `Metrics.unexpected_failures`. Exceptions that uvloop catches itself, such
  as those in a connection's callbacks, arrive there too.

No other module calls the loop's own functions for this (tests/test_tidy.py), so `Owner` is the
complete list. Tests fail if a failure was reported that they did not cause (tests/conftest.py).
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
AGAIN_SECONDS = 0.05  # a pause, so that a task that fails at once does not spin
FAILURES_PER_SECOND_MAX = 20  # in the log; all are counted


class Owner(Enum):
    """The parts of the broker that schedule steps. The value: what a failure is contained to."""

    ACCEPTOR = "the connection that was accepted"
    HANDSHAKE = "the connection whose handshake it is"
    LOGIN = "the connection that logs in"
    PROCESSOR = "the connection whose frames were decoded"
    WORKER = "the connection of the request"
    REQUEST = "the request"
    ANSWERS = "the connection of the answers"
    THROTTLING = "the throttled connection"
    PARKED_FETCH = "the parked fetch"
    FETCH_READ = "the fetch"
    TIMESTAMP_LOOKUP = "the request that looked up a timestamp"
    FLUSH = "the partitions of the round"
    APPEND = "the batch, and the batches queued behind it"
    GROUP_ALARM = "the group, whose alarm rings again a second later"
    GROUP_TARGETS = "the group, whose next heartbeat asks for targets again"
    GROUP_LOADING = "the groups that were being loaded"
    TRANSACTION = "the transaction, which is tried again"
    TRANSACTION_LOADING = "the transactional ids that were being loaded"
    TOPIC_CHANGE = "the change, which the next start checks again"
    TICKER = "one run of the periodic duty"
    COMPACTION = "the compaction pass"
    HTTP = "the HTTP connection, or what was asked"
    TEST_CONTROL = "the command of the test"
    RELOAD = "the reload, which the next SIGHUP tries again"
    STOP = "this step of the stop"


def spawn(
    owner: Owner,
    coroutine: Coroutine[Any, Any, T],
    name: str = "",
    *,
    among: set[asyncio.Task[T]] | None = None,
) -> asyncio.Task[T]:
    """Run a coroutine as a task; a caller that awaits it gets its exception as well.

    The set `among` holds the task for as long as it runs.
    """
    task = asyncio.get_running_loop().create_task(coroutine, name=name or owner.name.lower())
    tasks: set[Any] = _running if among is None else among  # the loop holds its tasks weakly
    tasks.add(task)
    task.add_done_callback(partial(_ended, owner, tasks))
    return task


async def keep_running(owner: Owner, run: Callable[[], Awaitable[None]]) -> None:
    """Run a coroutine that never ends, and run it again each time it fails.

    An OSError of an acceptor is passed on: its socket accepts no more connections.
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
    """Call after `seconds`, unless the handle is cancelled."""
    return asyncio.get_running_loop().call_later(seconds, _step, owner, call, arguments)


def from_thread(
    loop: asyncio.AbstractEventLoop, owner: Owner, call: Callable[..., object], *arguments: Any
) -> None:
    """Call on the loop soon, from another thread."""
    loop.call_soon_threadsafe(_step, owner, call, arguments)


def on_readable(
    loop: asyncio.AbstractEventLoop, owner: Owner, descriptor: int, call: Callable[..., object]
) -> None:
    """Call each time a descriptor is readable, until `remove_reader`."""
    loop.add_reader(descriptor, _step, owner, call, ())


def when_done(owner: Owner, future: asyncio.Future[Any], call: Callable[[], object]) -> None:
    """Call in the turn of the loop after a future is done."""
    future.add_done_callback(lambda _: _step(owner, call, ()))


def step(owner: Owner, call: Callable[..., object], *arguments: Any) -> None:
    """Call now; its failure is contained as that of a step of its own."""
    _step(owner, call, arguments)


def failed(owner: Owner, error: BaseException, what: str = "") -> None:
    """Report an unexpected exception. Called on the loop; never raises."""
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
            "unexpected failure of %(what)s, contained to %(owner)s%(note)s: %(error)r",
            {
                "what": context.get("message", "a step of the loop"),
                "owner": owner.value if isinstance(owner, Owner) else "its caller",
                "note": f" ({dropped} more since the last line)" if dropped else "",
                "error": error,
            },
            exc_info=error,
        )
