"""The environment of a broker: the system's own, and another one that notes what is asked of it."""

import asyncio
import gc
import os
import signal
import socket
import uuid
from concurrent.futures import Executor
from dataclasses import replace
from itertools import count
from pathlib import Path

from broker.lifecycle import process
from broker.lifecycle.environment import Environment, system_environment
from broker.lifecycle.shutdown import EXIT_CLEAN
from broker.runtime.clock import SystemClock
from broker.server import Broker
from config.listeners import Listener
from storage.files import meta_properties
from storage.files.os_filesystem import OsFileSystem
from tests.support.whole_broker import loaded, served


def test_the_systems_environment_is_this_process() -> None:
    found = system_environment()
    assert isinstance(found.filesystem, OsFileSystem)
    assert isinstance(found.clock, SystemClock)
    assert found.random_bytes is os.urandom
    assert found.leave is process.leave
    assert found.keep_from_collector is process.keep_from_collector
    executor = found.executor(1, "some name")
    assert executor.submit(lambda: 7).result(5) == 7
    executor.shutdown()


class Noted:
    """Notes what a broker takes of its environment. Its chance is a count."""

    def __init__(self) -> None:
        self.system = system_environment()
        self.draws = count(1)
        self.executors: dict[str, Executor] = {}
        self.bound: list[tuple[Listener, int, int, int]] = []
        self.kept = 0

    def environment(self) -> Environment:
        return replace(
            self.system,
            random_bytes=self.random_bytes,
            executor=self.executor,
            bind=self.bind,
            keep_from_collector=self.keep,
        )

    def random_bytes(self, size: int) -> bytes:
        return next(self.draws).to_bytes(size, "big")

    def executor(self, threads: int, name: str) -> Executor:
        assert name not in self.executors
        self.executors[name] = self.system.executor(threads, name)
        return self.executors[name]

    def bind(self, *asked: object) -> socket.socket:
        self.bound.append(asked)  # type: ignore[arg-type]
        return self.system.bind(*asked)  # type: ignore[arg-type]

    def keep(self) -> None:
        self.kept += 1


async def test_a_broker_takes_everything_from_its_environment(tmp_path: Path) -> None:
    noted, frozen = Noted(), gc.get_freeze_count()
    directory = tmp_path / "data"
    settings = ("socket.receive.buffer.bytes=70000", "socket.listen.backlog.size=9")
    broker = Broker(loaded(directory, *settings), noted.environment())
    running = await served(broker)
    ((_, *sizes),) = noted.bound
    assert sizes == [70_000, 102_400, 9]
    assert noted.kept == 1
    assert gc.get_freeze_count() == frozen, "the collector belongs to the environment"
    groups = broker._assembly.services.groups
    drawn = next(noted.draws)
    made = uuid.UUID(groups.new_id())
    assert made.version == 4
    assert made.bytes.endswith((drawn + 1).to_bytes(4, "big"))
    async with asyncio.timeout(20):
        while "imports" not in noted.executors:  # begins with the first turn of a duty
            await asyncio.sleep(0.001)
    assert set(noted.executors) == {"blocking", "flush", "cleaner", "imports"}
    meta = meta_properties.read(OsFileSystem(), str(directory / "meta.properties"))
    assert meta is not None
    assert meta.directory_id is not None
    assert int.from_bytes(meta.directory_id[9:], "big") < drawn
    broker._signals.received(signal.SIGTERM)
    async with asyncio.timeout(20):
        assert await running == EXIT_CLEAN
