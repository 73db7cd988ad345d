"""A whole broker without sockets, threads or a real disk: a run is a fixed sequence of calls.

It has everything that `broker_rig.Rig` has, but its files are in a `MemoryFileSystem`, calls of the
blocking pool run on the loop, and time is the loop's own: it jumps to the next timer when the loop
is idle. So a run takes milliseconds, its nth file call is the same in every run, and a request
that is never answered shows at once (`HangError`).

`Killed` ends the process: a file call raises it out of the loop, and every later file call raises
it again.
"""

import asyncio
import gc
import os
import selectors
from collections.abc import Callable, Coroutine
from typing import Any
from unittest import mock

from broker.assembly import Assembly, assemble
from broker.at_rest import left_over
from broker.data_directory import Opened, open_directory
from broker.dispatch import Dispatcher
from broker.maintenance.housekeeping import Housekeeping
from broker.maintenance.log_cleaner import LogCleaner
from broker.runtime import owners
from broker.runtime.blocking_pool import thread_executor
from broker.runtime.owners import Owner
from config.load import load
from storage.errors import StorageError
from tests.support.fake_connection import LISTENER, FakeConnection
from tests.support.memory_filesystem import MemoryFileSystem

DATA = "/data"
NOW_MS = 1_700_000_000_000
SWEEP_SECONDS = 1.0  # as housekeeping's tick
SWEPT_SECONDS = 600.0  # of one run: longer than any request waits
ENDING_TURNS = 9  # loop turns; code that awaits an ending task ends a turn or two after it


class Killed(KeyboardInterrupt):  # asyncio always lets a KeyboardInterrupt through
    """The process has ended."""


class HangError(Exception):
    """A coroutine waits for something that will not happen."""


class _Selector(selectors.SelectSelector):
    """Never waits: moves the loop's time instead."""

    loop: "JumpingLoop"

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise HangError("a coroutine waits, but the loop has no timer or callback left")
        if timeout > 0:
            self.loop.now += timeout
        if self.loop.now > self.loop.end:
            raise HangError("a coroutine waits for something that does not happen")
        return ()


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop on its own time, for programs without sockets and threads."""

    def __init__(self) -> None:
        selector = _Selector()
        selector.loop = self
        self.now = 0.0
        self.end = float("inf")
        super().__init__(selector)

    def time(self) -> float:
        return self.now


class LoopClock:
    """Both clocks of the broker, driven by the loop's time."""

    def __init__(self, loop: JumpingLoop, started_ms: int) -> None:
        self._loop = loop
        self._started_ms = started_ms

    def now_ms(self) -> int:
        return self._started_ms + int(self._loop.now * 1000)

    def monotonic_ns(self) -> int:
        return int(self._loop.now * 1e9) + 1


class InlinePool:
    """The blocking pool's interface, on the loop's own thread, one turn later."""

    def __init__(self, executor: Any, loop: asyncio.AbstractEventLoop, *_: Any) -> None:
        self._loop = loop

    def submit(
        self, owner: Owner, call: Callable[[], Any], done: Callable[[BaseException | None], None]
    ) -> None:
        owners.soon(owner, self._run, owner, call, done)

    def _run(
        self, owner: Owner, call: Callable[[], Any], done: Callable[[BaseException | None], None]
    ) -> None:
        error: Exception | None = None
        try:
            call()
        except Exception as caught:
            error = caught
        owners.soon(owner, done, error)

    async def run(self, call: Callable[[], Any]) -> Any:
        await asyncio.sleep(0)
        return call()

    def close(self) -> None:
        """Do nothing: no call is pending."""


class MemoryBroker:
    """One life of a broker over `filesystem`; `run` drives it, `start` may fail."""

    def __init__(
        self, filesystem: MemoryFileSystem, *, started_ms: int = NOW_MS, **settings: str
    ) -> None:
        self.filesystem = filesystem
        self.loop = JumpingLoop()
        self.clock = LoopClock(self.loop, started_ms)
        self.surprises: list[str] = []
        self.is_started = False
        self.has_compacted = False
        self._sweeping: asyncio.TimerHandle | None = None
        names = {name.replace("_", "."): value for name, value in settings.items()}
        self.loaded = load(
            file=None,
            environment={},
            set_values=[f"{name}={value}" for name, value in names.items()],
            data_dir=DATA,
        )

    async def _assemble(self, opened: Opened) -> Assembly:
        """Assemble the broker on the loop, as the server does: some parts start tasks there."""
        return assemble(
            self.loaded,
            opened,
            lambda: [(LISTENER, 9092)],
            self.clock,
            os.urandom,
            thread_executor,
            self.loop,
        )

    def start(self) -> None:
        """Open the directory, recover, and assemble the broker. Raises what the server raises."""
        with (
            mock.patch("broker.assembly.BlockingPool", InlinePool),
            mock.patch("broker.assembly.FlushPool", InlinePool),
        ):
            opened = open_directory(self.loaded.config, self.filesystem, self.clock, os.urandom)
            try:
                assembly = self.loop.run_until_complete(self._assemble(opened))
            except BaseException:
                opened.logs.close(clean=True)  # as the server does
                raise
        self.loop.set_exception_handler(self._surprised)
        self.assembly = assembly
        self.services = assembly.services
        self.is_started = True
        self.dispatcher = Dispatcher(self.services)
        self.housekeeping = Housekeeping(self.services, [])
        self.loading = self.loop.create_task(self.services.groups.load())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end. Raises Killed, HangError and whatever it raises.

        Requests that wait for too long are refused meanwhile, as by housekeeping.
        """
        self.loop.end = self.loop.now + SWEPT_SECONDS
        if self.is_started:
            self.loop.call_soon(self._sweep)
        return self.loop.run_until_complete(work)

    def _sweep(self) -> None:
        """Refuse what has waited for too long, and come back later."""
        services = self.services
        services.commit.sweep()
        services.appends.sweep()
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._sweeping = self.loop.call_later(SWEEP_SECONDS, self._sweep)

    async def call(self, body: Any, version: int) -> Any:
        """Handle one request; return its answer."""
        connection = FakeConnection()
        answered = self.loop.create_future()
        respond = connection.respond

        def tell(request: Any, buffers: Any) -> None:
            respond(request, buffers)
            if not answered.done():
                answered.set_result(None)

        connection.respond = tell  # type: ignore[method-assign]
        request = connection.request(body, api_key=body.MESSAGE.api_key, version=version)
        self.dispatcher.dispatch(request)
        await answered
        ((first,),) = connection.sent
        return first[1]

    async def duty(self, name: str) -> None:
        """Run a housekeeping duty once; a failure is only logged, as in housekeeping."""
        try:
            await getattr(self.housekeeping, f"_{name}")()
        except (OSError, StorageError):
            pass
        except Exception as error:
            self.surprises.append(f"duty {name}: {error!r}")

    async def compact(self, topic: str) -> None:
        """Run one compaction pass over partition 0 of a topic, if it is open."""
        self.has_compacted = True
        with mock.patch("broker.maintenance.log_cleaner.BlockingPool", InlinePool):
            cleaner = LogCleaner(self.services)
        for partition in self.services.partitions.all():
            if partition.log.topic == topic:
                await cleaner._clean(partition.log)

    async def stop(self) -> bool:
        """Stop as the server does; return whether it was clean. Held state is a surprise."""
        self.loading.cancel()
        self.services.purgatory.stop()
        self.services.groups.stop()
        if self.services.has_transactions:
            self.services.transactions.stop()
        await self.dispatcher.finish()
        if self.services.has_transactions:
            await self.services.transactions.finish()
        await self.services.commit.drained()
        self.surprises += left_over(self.assembly, self.dispatcher)
        return self.services.logs.close(clean=True, are_decided=True)

    def end(self) -> None:
        """Close the loop; tasks that still run end silently."""
        ended: set[asyncio.Task[Any]] = set()
        for _ in range(0 if self.loop.is_closed() else ENDING_TURNS):
            tasks = asyncio.all_tasks(self.loop)
            ended |= tasks
            for task in tasks:
                task.cancel()
            # One turn without a future to wait for: work that ended in the turn that killed the
            # process has left a stop callback in the loop, which would end any other wait.
            self.loop.stop()
            try:
                self.loop.run_forever()
                if not tasks:
                    break
            except KeyboardInterrupt:
                continue
        for task in ended:
            # A task's exception that nothing reads is logged when the task is collected, which may
            # be in the middle of anything.
            if task.done() and not task.cancelled():
                task.exception()
        self.loop.close()
        if self.has_compacted:
            # An interrupted pass cleans up when it is collected. Collect it now, while its file
            # system is dead, and not during the next broker's life.
            with mock.patch("sys.unraisablehook"):
                gc.collect()

    def _surprised(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, Killed):
            self.surprises.append(f"{context.get('message')}: {error!r}")
