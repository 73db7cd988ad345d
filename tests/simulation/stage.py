"""What faults act on, and what several of them do."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from tests.simulation.clock import SimClock
from tests.simulation.context import Context
from tests.simulation.disk import SimDisk
from tests.simulation.disk_content import entries
from tests.simulation.life import DATA
from tests.simulation.network import Network
from tests.simulation.world import MS, World
from tests.support.memory_inodes import Directory

ASKED_WITHIN_MS: Final = 5_000
LOST_DOWN_MS: Final = 20
Change = Callable[[Directory, random.Random], str]


class Stage(Protocol):
    """What faults act on."""

    world: World
    disk: SimDisk
    network: Network
    clock: SimClock
    context: Context

    def end_life(self, *, cuts_power: bool, down_ms: int, next_ns: int | None) -> None:
        """Kill the broker, and start it after `down_ms`; kill that one `next_ns` after."""
        ...

    def stop_life(self, signals: list[tuple[int, int]], down_ms: int) -> None:
        """Send signals, each after some milliseconds, and start the broker after `down_ms`."""
        ...


Fault = Callable[[Stage, random.Random], Awaitable[None]]


def down_ms(chance: random.Random) -> int:
    """Return for how long a broker is down."""
    return chance.choice((1, 50, 1_000, 20_000))


def until(stage: Stage, chance: random.Random, times_ms: tuple[int, ...]) -> int:
    """Return the time at which a fault ends that lasts for one of these."""
    return stage.world.now_ns + chance.choice(times_ms) * MS


async def change_while_down(
    stage: Stage, chance: random.Random, change_of: Callable[[Context], Change]
) -> None:
    if await is_down(stage):
        stage.context.has_lost_files = True
        before = files_of(stage)
        change = change_of(stage.context)
        stage.disk.change(DATA, lambda directory: change(directory, chance))
        now = files_of(stage)
        stage.context.spoilt |= {path: now[path] for path in now if now[path] != before.get(path)}


async def is_down(stage: Stage) -> bool:
    """Wait until the broker is down; say whether a fault may do something to its files."""
    while stage.context.life is not None:
        await stage.world.sleep_ms(LOST_DOWN_MS / 2)
    return not stage.context.is_finale and not stage.context.ruin


def files_of(stage: Stage) -> dict[str, bytes]:
    """Return the bytes of every file, by path below the data directory: no fault hits this."""
    found = entries(stage.disk.directory(DATA))
    return {path: content for path, content in found if content is not None}
