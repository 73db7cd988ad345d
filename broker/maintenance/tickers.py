"""Runs duties at intervals, until it is stopped.

A duty that never waits is a timer of the loop, and costs one callback a run. A duty that waits has
a task, which sleeps between two runs. An idle broker runs some twenty duties a second, so neither
makes a task, a cancellation or an exception for a run.

A run that fails is logged, and the duty runs again at its next turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from broker.runtime import owners
from broker.runtime.owners import Owner
from storage.errors import StorageError

logger = logging.getLogger("barnabas.housekeeping")

Duty = Callable[[], Coroutine[Any, Any, None]]
ShortDuty = Callable[[], None]  # that never waits


class Tickers:
    """The tickers of one broker."""

    def __init__(self) -> None:
        self.is_stopping = False
        self._tasks: list[asyncio.Task[None]] = []
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._resting: dict[str, asyncio.Future[None]] = {}  # of tasks, until their next run

    def call(self, seconds: float, duty: ShortDuty) -> None:
        """Call a duty every `seconds`."""
        self._call_later(seconds, duty, _name(duty))

    def run(self, seconds: float, first_seconds: float, duty: Duty) -> None:
        """Run a duty after `first_seconds`, and again `seconds` after each run has ended."""
        name = _name(duty)
        every = self._every(seconds, first_seconds, duty, name)
        self._tasks.append(owners.spawn(Owner.TICKER, every, name))

    @property
    def are_resting(self) -> bool:
        """Whether no duty that has a task runs, or is about to."""
        return not any(rest.done() for rest in self._resting.values())

    async def stop(self) -> None:
        """Stop all; a duty that runs ends first."""
        self.is_stopping = True
        for timer in self._timers.values():
            timer.cancel()
        for rest in self._resting.values():
            _wake(rest)
        await asyncio.gather(*self._tasks)

    def _call_later(self, seconds: float, duty: ShortDuty, name: str) -> None:
        self._timers[name] = owners.later(Owner.TICKER, seconds, self._tick, seconds, duty, name)

    def _tick(self, seconds: float, duty: ShortDuty, name: str) -> None:
        self._call_later(seconds, duty, name)
        try:
            duty()
        except Exception as error:
            _failed(error, name)

    async def _every(self, seconds: float, first_seconds: float, duty: Duty, name: str) -> None:
        await self._rest(first_seconds, name)
        while not self.is_stopping:
            try:
                await duty()
            except Exception as error:
                _failed(error, name)
            await self._rest(seconds, name)

    async def _rest(self, seconds: float, name: str) -> None:
        """Wait for `seconds`, or for the stop."""
        if self.is_stopping:
            return
        rest = self._resting[name] = asyncio.get_running_loop().create_future()
        timer = owners.later(Owner.TICKER, seconds, _wake, rest)
        await rest
        timer.cancel()


def _name(duty: Callable[..., object]) -> str:
    return f"the duty {duty.__name__.lstrip('_')}"


def _wake(rest: asyncio.Future[None]) -> None:
    if not rest.done():
        rest.set_result(None)


def _failed(error: Exception, name: str) -> None:
    if isinstance(error, OSError | StorageError):
        logger.error("%(duty)s failed, will retry: %(error)s", {"duty": name, "error": error})
    else:
        owners.failed(Owner.TICKER, error, name)
