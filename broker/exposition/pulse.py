"""How busy the loop is: measured four times a second while HTTP is on, and kept for a minute.

    busy   the share of time in which the loop's thread used the CPU
    lag    how much later than asked a timer of the loop rings

The free bytes of the disk are asked for in a thread, every ten seconds: the disk may not answer.
"""

from __future__ import annotations

import asyncio
import resource
from collections import deque
from functools import partial
from typing import Final

from broker.runtime import owners
from broker.runtime.clock import MS_NS, SECOND_NS
from broker.runtime.log_histogram import Buckets
from broker.runtime.owners import Owner
from broker.services import Services

TICK_SECONDS: Final = 0.25
KEPT: Final = 240
FREE_TICKS: Final = 40
LAG_BOUNDS_NS: Final = tuple(n * MS_NS for n in (1, 2, 5, 10, 20, 50, 100, 250, 1_000))


class Pulse:
    """Ticks from `start` to `stop`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._clock = services.clock
        self._ticks: deque[tuple[int, int, dict[str, tuple[int, int]]]] = deque(maxlen=KEPT)
        self._task: asyncio.Task[None] | None = None
        self._asks_disk = False
        self.started_ms = services.clock.now_ms()
        self.free_bytes = 0  # 0: not known yet
        self.lag = Buckets(LAG_BOUNDS_NS)

    def start(self) -> None:
        """Begin to tick."""
        run = partial(owners.keep_running, Owner.HTTP, self._run)
        self._task = owners.spawn(Owner.HTTP, run(), "pulse")

    async def stop(self) -> None:
        """End the ticks."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        count = 0
        while True:
            self._note()
            if not count % FREE_TICKS:
                self._ask_disk()
            count += 1
            asked_ns = self._clock.monotonic_ns() + int(TICK_SECONDS * SECOND_NS)
            await asyncio.sleep(TICK_SECONDS)
            self.lag.add(max(0, self._clock.monotonic_ns() - asked_ns))

    def _note(self) -> None:
        used = resource.getrusage(resource.RUSAGE_THREAD)
        cpu_ns = int((used.ru_utime + used.ru_stime) * SECOND_NS)
        listeners = {
            name: (one.accepted, one.closed)
            for name, one in self._services.metrics.traffic.listeners.items()
        }
        self._ticks.append((self._clock.monotonic_ns(), cpu_ns, listeners))

    def _ask_disk(self) -> None:
        if self._asks_disk or self._services.pool.is_busy:
            return
        self._asks_disk = True
        directory = self._services.logs.directory
        found: list[int] = []

        def ask() -> None:
            found.append(directory.filesystem.free_bytes(directory.path) or 0)

        def asked(_: BaseException | None) -> None:
            self._asks_disk = False
            if found:
                self.free_bytes = found[0]

        self._services.pool.submit(Owner.HTTP, ask, asked)

    def busy(self) -> float:
        """Return the share of the last minute in which the loop worked, 0 to 1."""
        if len(self._ticks) < 2:
            return 0.0
        (begun_ns, begun_cpu_ns, _), (ended_ns, ended_cpu_ns, _) = self._ticks[0], self._ticks[-1]
        share = (ended_cpu_ns - begun_cpu_ns) / max(1, ended_ns - begun_ns)
        return min(1.0, max(0.0, share))

    def rates(self, listener: str) -> tuple[float, float]:
        """Return the connections a second that were accepted, and that ended, in a minute."""
        if len(self._ticks) < 2:
            return 0.0, 0.0
        (begun_ns, _, before), (ended_ns, _, after) = self._ticks[0], self._ticks[-1]
        seconds = max(1, ended_ns - begun_ns) / SECOND_NS
        (accepted, closed), (accepted_now, closed_now) = (
            one.get(listener, (0, 0)) for one in (before, after)
        )
        return (accepted_now - accepted) / seconds, (closed_now - closed) / seconds
