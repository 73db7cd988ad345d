"""What the clients of one data directory share: they outlive its broker.

`gate` holds them back while the broker is down or being checked. Each runs on a connection of its
own, and on a new one whenever that ends.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from tests.faults.wire import Connection
from tests.support.history_checker import Anomaly
from tests.support.log_ledger import Ledger
from tests.support.patience import Limit
from tests.support.raw_client import Closed

RETRY_S = 0.02
PAUSE_S_MAX = 30.0


@dataclass(slots=True, kw_only=True)
class Clients:
    """All clients of one data directory. `address` is read at each connection."""

    address: tuple[str, int]
    ledger: Ledger
    chance: random.Random
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    topics: set[str] = field(default_factory=set)  # acknowledged
    found: list[Anomaly] = field(default_factory=list)
    acknowledged: int = 0  # operations whose answer is a promise
    committed: int = 0  # committed offsets
    _processes: int = 0
    _number: int = 0
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _connections: set[Connection] = field(default_factory=set)
    _busy: int = 0

    def runs(self) -> Sequence[Awaitable[None]]:
        """Return the work of every client; none ends by itself."""
        raise NotImplementedError

    def start(self) -> None:
        """Start all clients; they wait at the gate."""
        self._tasks = [asyncio.ensure_future(run) for run in self.runs()]

    def cancel(self) -> None:
        """End all clients at once, whatever they do."""
        for task in self._tasks:
            task.cancel()

    async def pause(self) -> None:
        """Close the gate and all connections, and wait until every client has reached it."""
        self.gate.clear()
        limit = Limit(PAUSE_S_MAX)
        while self._busy:
            for connection in tuple(self._connections):
                connection.close()
            if limit.is_over:
                raise TimeoutError(f"{self._busy} clients do not pause")
            await asyncio.sleep(0.001)

    async def stop(self) -> None:
        """End all clients."""
        await self.pause()
        for task in self._tasks:
            task.cancel()
        for outcome in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome

    def check_alive(self) -> None:
        """Raise the error that ended a client; none may end."""
        for task in self._tasks:
            if task.done():
                task.result()

    def new_process(self) -> int:
        """Return the number of a new process of the history."""
        self._processes += 1
        return self._processes

    def next_number(self) -> int:
        """Return a number that is higher than all before."""
        self._number += 1
        return self._number

    async def while_connected(self, work: Callable[[Connection], Awaitable[None]]) -> None:
        """Run `work` on a connection, and again on a new one whenever it ends."""
        while True:
            await self.gate.wait()
            self._busy += 1
            connection = None
            try:
                connection = await Connection.open(*self.address)
                self._connections.add(connection)
                await work(connection)
            except (OSError, Closed):  # TimeoutError is an OSError, too
                pass
            finally:
                self._busy -= 1
                if connection is not None:
                    self._connections.discard(connection)
                    connection.close()
            await asyncio.sleep(RETRY_S)
