"""A whole broker but for its sockets: handlers are called with message objects, on real files.

`Rig.call` does what an IO worker does with a request, and returns the response message that the
connection would have been given.
"""

import asyncio
from pathlib import Path
from typing import Any

from broker.assembly import Assembly, assemble, open_directory
from broker.clock import SystemClock
from broker.dispatch import Dispatcher
from config.listeners import Listener
from config.load import load
from protocol.records import Record, build
from tests.support.fake_connection import FakeConnection

LISTENER = Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)


class Rig:
    """One broker's services over a directory."""

    def __init__(self, directory: Path, **settings: str) -> None:
        names = {name.replace("_", "."): value for name, value in settings.items()}
        self.loaded = load(
            file=None,
            environment={},
            set_values=[f"{name}={value}" for name, value in names.items()],
            data_dir=str(directory),
        )
        self.clock = SystemClock()
        opened = open_directory(self.loaded.config, self.clock)
        self.assembly: Assembly = assemble(
            self.loaded, opened, lambda: [(LISTENER, 9092)], self.clock, asyncio.get_running_loop()
        )
        self.services = self.assembly.services
        self.dispatcher = Dispatcher(self.services)
        self.loading = asyncio.create_task(self._load_groups())
        self.connection = FakeConnection()

    async def _load_groups(self) -> None:
        if self.services.has_groups:
            await self.services.groups.load()

    async def call(self, body: Any, version: int, *, timeout_seconds: float = 10) -> Any:
        """Handle one request; return the response, or None when nothing is to be sent."""
        connection = FakeConnection()
        self.connection = connection
        request = connection.request(body, api_key=body.MESSAGE.api_key, version=version)
        self.dispatcher.dispatch(request)
        async with asyncio.timeout(timeout_seconds):
            while not connection.sent:
                await asyncio.sleep(0.001)
        (buffers,) = connection.sent
        return buffers[0][1] if buffers else None

    async def close(self) -> bool:
        """Stop as the server does; return whether the stop was clean."""
        await self.loading
        if self.services.has_groups:
            self.services.groups.stop()
        await self.dispatcher.finish()
        await self.services.commit.drained()
        clean = self.services.logs.close(clean=True)
        self.services.pool.close()
        self.services.flush_pool.close()
        return clean


def batch(*values: bytes, timestamp: int = 1_700_000_000_000, **options: Any) -> memoryview:
    """A batch of records without keys, as a view that can be stamped."""
    return memoryview(build([Record(0, timestamp, None, value) for value in values], **options))
