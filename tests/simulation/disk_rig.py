"""A simulated disk with a baton that only moves time, for the disk's own tests."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tests.simulation.disk import SimDisk
from tests.simulation.plan import Shape
from tests.simulation.world import World

CALM = Shape(switch_chance=1.0, cold_chance=0.0)


class FakeBaton:
    """Moves time; calls `meanwhile` once, at the next pause."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.on_loop = False
        self.paused_ns: list[int] = []
        self.meanwhile: Callable[[], Any] | None = None

    def pause(self, ns: int) -> None:
        self.paused_ns.append(ns)
        self.world.now_ns += ns
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()


def disk_of(shape: Shape = CALM) -> Any:
    world = World("disk")
    baton = FakeBaton(world)
    disk = SimDisk(world, baton, world.chance("disk"), shape)
    disk.load({"t-0": {}, "u-1": {}}, at="/data")
    return SimpleNamespace(world=world, baton=baton, disk=disk)


def make(disk: SimDisk, path: str = "/data/t-0/f", content: bytes = b"base") -> Any:
    file = disk.open(path, create=True)
    disk.sync_directory(path.rpartition("/")[0])
    file.pwrite(content, 0)
    file.fdatasync()
    return file
