"""A whole broker without sockets: tests call its handlers with message objects, on real files.

`Rig.call` handles a request as an IO worker does, and returns the response message that the
connection would have got.
"""

import asyncio
import gc
import logging
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from broker.assembly import Assembly, assemble
from broker.at_rest import left_over
from broker.data_directory import open_directory
from broker.dispatch import Dispatcher
from broker.runtime.blocking_pool import thread_executor
from broker.runtime.clock import SystemClock
from broker.runtime.request import ANONYMOUS
from config.listeners import Listener
from config.load import load
from protocol.records import Record, build
from storage.files.os_filesystem import OsFileSystem
from storage.files.overlay import Overlay
from tests.support import loop_guard
from tests.support.fake_connection import FakeConnection

LISTENER = Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)
DROPPED_TURNS = 50  # until nothing may hold a file any more


class Rig:
    """The services of one broker over a directory. Its file calls are watched, unless timed."""

    def __init__(self, directory: Path, *, is_timed: bool = False, **settings: str) -> None:
        names = {name.replace("_", "."): value for name, value in settings.items()}
        self.loaded = load(
            file=None,
            environment={},
            set_values=[f"{name}={value}" for name, value in names.items()],
            data_dir=str(directory),
        )
        self.clock = SystemClock()
        self._is_watched = not is_timed
        filesystem = OsFileSystem() if is_timed else loop_guard.GuardedFileSystem()
        opened = open_directory(self.loaded.config, filesystem, self.clock, os.urandom)
        self.assembly: Assembly = assemble(
            self.loaded,
            opened,
            lambda: [(LISTENER, 9092)],
            self.clock,
            os.urandom,
            thread_executor,
            asyncio.get_running_loop(),
        )
        self.services = self.assembly.services
        self._watch(serving=True)
        self.dispatcher = Dispatcher(self.services)
        self.loading = asyncio.create_task(self._load_groups())
        self.connection = FakeConnection()

    def _watch(self, *, serving: bool) -> None:
        if self._is_watched:
            filesystem: Any = self.services.logs.directory.filesystem
            if isinstance(filesystem, Overlay):
                filesystem = filesystem._below
            filesystem.serving = serving

    async def _load_groups(self) -> None:
        if self.services.has_groups:
            await self.services.groups.load()

    async def call(
        self, body: Any, version: int, *, timeout_seconds: float = 10, principal: str = ANONYMOUS
    ) -> Any:
        """Handle one request; return the response, or None if there is none to send."""
        connection = FakeConnection()
        connection.info.principal = principal
        return await self.call_on(connection, body, version, timeout_seconds=timeout_seconds)

    async def call_on(
        self, connection: FakeConnection, body: Any, version: int, *, timeout_seconds: float = 10
    ) -> Any:
        """Handle one request of a connection that has no other; return the response, or None."""
        self.connection = connection
        request = connection.request(body, api_key=body.MESSAGE.api_key, version=version)
        connection.sent.clear()
        self.dispatcher.dispatch(request)
        async with asyncio.timeout(timeout_seconds):
            while not connection.sent:
                await asyncio.sleep(0.001)
        (buffers,) = connection.sent
        return buffers[0][1] if buffers else None

    async def close(self) -> bool:
        """Stop as the server does; return whether the stop was clean.

        Raises AssertionError if client state or a file descriptor is still held (I12).
        """
        await self.loading
        self.services.purgatory.stop()
        if self.services.has_groups:
            self.services.groups.stop()
        if self.services.has_transactions:
            self.services.transactions.stop()
        await self.dispatcher.finish()
        if self.services.has_transactions:
            await self.services.transactions.finish()
        await self.services.topics.finish()
        await self.services.commit.drained()
        left = left_over(self.assembly, self.dispatcher)
        while self.services.pool.is_busy:  # a read that was under way would open its file again
            await asyncio.sleep(0.001)
        self._watch(serving=False)  # the server closes the logs in a thread
        clean = self.services.logs.close(clean=True, are_decided=True)
        self.services.pool.close()
        self.services.flush_pool.close()
        assert not left, left
        if clean:
            await self._check_descriptors()
        return clean

    async def _check_descriptors(self) -> None:
        """Fail if a file of the directory stays open."""
        for _ in range(DROPPED_TURNS):
            left = open_files(self.services.logs.directory.path)
            if not left or has_captured_traces():
                return
            self.connection.sent.clear()  # views of mapped files
            gc.collect()  # reference cycles
            await asyncio.sleep(0.01)  # a task that was cancelled holds what it was reading
        raise AssertionError(f"still open: {left}")


def has_captured_traces() -> bool:
    """Whether pytest's captured log keeps exceptions alive, and so the objects in their frames."""

    def values(record: logging.LogRecord) -> Iterable[object]:
        args = record.args or ()
        return args.values() if isinstance(args, Mapping) else args

    return any(
        any(isinstance(said, BaseException) for said in values(record)) or record.exc_info
        for record in gc.get_objects()
        if type(record) is logging.LogRecord
    )


def open_files(directory: str) -> list[str]:
    """Return the files below `directory` that this process has open."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the descriptor of the listing itself
            path = os.readlink(f"/proc/self/fd/{number}")
            if path.startswith(f"{directory}/"):
                found.append(path)
    return found


def batch(*values: bytes, timestamp: int = 1_700_000_000_000, **options: Any) -> memoryview:
    """A batch of records without keys, as a view that can be stamped."""
    return memoryview(build([Record(0, timestamp, None, value) for value in values], **options))
