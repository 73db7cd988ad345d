"""A watchdog for operators: logs steps of the loop that take longer than `barnabas.slow.step.ms`.

It does not run while the key is 0. Otherwise a thread pings the loop again and again. If no answer
comes in time, the thread looks at what the loop's thread is executing, and logs that with the
duration once the step has ended. The loop only answers pings.

The log names the calls that ran when the time was over. If a step makes many calls in turn, these
need not be the ones that took long.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading

from broker.runtime import owners
from broker.runtime.clock import MS_NS, Clock
from broker.runtime.owners import Owner

logger = logging.getLogger("barnabas.slow")

NAMES_MAX = 8  # of nested calls, from the innermost outwards
OURS = ("broker", "storage", "protocol", "config")


class SlowSteps:
    """Watches the loop that it is made on, from `start` to `stop`."""

    def __init__(self, limit_ms: int, clock: Clock) -> None:
        self._limit_ms = limit_ms
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._stopping = threading.Event()

    def start(self) -> None:
        """Begin to watch, unless the key is 0."""
        if self._limit_ms:
            threading.Thread(target=self._watch, name="slow steps", daemon=True).start()

    def stop(self) -> None:
        """Stop watching; a slow step that has not ended is not reported."""
        self._stopping.set()

    def _watch(self) -> None:
        limit_seconds = self._limit_ms / 1000
        while not self._stopping.wait(limit_seconds):
            answered = threading.Event()
            asked_ns = self._clock.monotonic_ns()
            try:
                owners.from_thread(self._loop, Owner.TICKER, answered.set)
            except RuntimeError:  # the loop is closed
                return
            if answered.wait(limit_seconds):
                continue
            names = self._names()
            while not answered.wait(limit_seconds):
                if self._stopping.is_set():
                    return
            elapsed_ms = (self._clock.monotonic_ns() - asked_ns) // MS_NS
            logger.warning(
                "a step of the loop took %(milliseconds)d ms, in %(tasks)s",
                {"milliseconds": elapsed_ms, "tasks": names},
            )

    def _names(self) -> str:
        """Return the calls that the loop's thread is executing, the innermost last."""
        names: list[str] = []
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - there is no other way
        while frame is not None and len(names) < NAMES_MAX:
            module = frame.f_globals.get("__name__", "")
            if module.partition(".")[0] in OURS:
                names.append(f"{module}.{frame.f_code.co_qualname}")
            frame = frame.f_back
        return " > ".join(reversed(names)) or "code outside the broker"
