"""The faults of a history: actors that harm the machine for a time, or end the broker's life.

A fault begins `at_ms` after the beginning and draws everything else from the stream of its name.
How a life ends is asked of the `Stage`, which starts the next one; faults of the disk and of the
network end by themselves, all of them at the finale.

    kill              the process is gone; every byte it wrote stays
    recovery kill     the same, and once more while the next life starts
    power cut         what was not fsynced is lost, torn or kept
    recovery cut      the same, and once more while the next life starts
    stop              SIGTERM, sometimes twice or three times
    disk error        calls of one kind fail, somewhere or everywhere, once or for a time
    disk full         no space for a time
    few descriptors   no more files can be opened for a time
    slow disk         fsyncs take long
    stuck disk        an fsync does not return for minutes
    flip              a bit below a recovery point
    lost files        the broker ends, and indexes or snapshots are gone when it starts again
    emptied marker    a log of groups ends with what Kafka's cleaner leaves of a transaction
    accept error      no descriptors for new connections
    clock jump        the wall clock is set
    network cut       some connections are reset
"""

from __future__ import annotations

import errno
import random
import signal
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from tests.simulation.clock import SimClock
from tests.simulation.context import Context
from tests.simulation.disk import SimDisk
from tests.simulation.emptied_marker import add_marker
from tests.simulation.judges import quiet
from tests.simulation.life import DATA
from tests.simulation.lost_files import lose_files
from tests.simulation.network import Network
from tests.simulation.plan import FaultPlan
from tests.simulation.world import MS, US, World

SLOWEST_NS: Final = 15_000 * MS  # of a sync, about: the finale rests for longer
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
LOST_DOWN_MS: Final = 20


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


async def run_fault(stage: Stage, plan: FaultPlan) -> None:
    """Be one fault of the plan."""
    await stage.world.sleep_ms(plan.at_ms)
    stage.world.note("fault", plan.name)
    await KINDS[plan.kind](stage, stage.world.chance(plan.name))


def _down_ms(chance: random.Random) -> int:
    return chance.choice((1, 50, 1_000, 20_000))


def _ending(*, cuts_power: bool, again: bool) -> Fault:
    async def end(stage: Stage, chance: random.Random) -> None:
        next_ns = chance.choice((100 * US, 2 * MS, 20 * MS, 200 * MS))
        stage.end_life(
            cuts_power=cuts_power,
            down_ms=_down_ms(chance),
            next_ns=chance.randrange(next_ns) if again else None,
        )

    return end


async def _stop(stage: Stage, chance: random.Random) -> None:
    signals = [(0, int(signal.SIGTERM))]
    again = chance.choice((0, 0, 0, 1, 2))
    if again:
        stage.context.injected.add(quiet.HURRY)
    signals += [(chance.choice((0, 5, 200)), int(signal.SIGINT)) for _ in range(again)]
    stage.stop_life(signals, _down_ms(chance))


_OPERATIONS: Final = (
    "pwrite", "pwrite", "fdatasync", "fdatasync", "pread", "open", "sync_directory", "rename",
    "unlink", "mkdir", "truncate", "list", "replace", "map", "reserve", "any", "reads", "syncs",
    "writes", "descriptors",
)  # fmt: skip
_ERRORS: Final = (errno.EIO, errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EROFS)
_PARTS: Final = (
    "", "-0/", "-1/", ".log", "index", ".snapshot", ".producers", "__consumer_offsets",
    "__cluster_metadata", "checkpoint",
)  # fmt: skip


async def _disk_error(stage: Stage, chance: random.Random) -> None:
    error = chance.choice(_ERRORS)
    stage.context.injected |= {quiet.DISK, quiet.FULL} if error == errno.ENOSPC else {quiet.DISK}
    stage.disk.fail(
        chance.choice(_OPERATIONS),
        nth=chance.randint(1, 5),
        error=error,
        path_part=chance.choice(_PARTS),
        forever=chance.random() < 0.3,
        count=chance.choice((1, 1, 3)),
        bytes_written=chance.choice((0, 0, 1, 40, 0.5)),
        until_ns=_until(stage, chance, (10, 500, 5_000)),
    )


def _until(stage: Stage, chance: random.Random, times_ms: tuple[int, ...]) -> int:
    return stage.world.now_ns + chance.choice(times_ms) * MS


async def _disk_full(stage: Stage, chance: random.Random) -> None:
    stage.context.injected.add(quiet.FULL)
    stage.disk.full(chance.choice((0, 100, 2_000)), _until(stage, chance, (50, 1_000, 5_000)))


async def _few_descriptors(stage: Stage, chance: random.Random) -> None:
    stage.context.injected.add(quiet.DISK)
    disk = stage.disk
    disk.open_max = disk.open_count + chance.choice((0, 0, 2, 5))
    await stage.world.sleep_ms(chance.choice((50, 1_000, 5_000)))
    disk.open_max = None


async def _slow_disk(stage: Stage, chance: random.Random) -> None:
    stage.context.injected.add(quiet.SLOW)
    longest = SLOWEST_NS / stage.disk.shape.fsync_ns  # a sync that has begun outlasts the healing
    stage.disk.slow(
        min(chance.choice((3, 30, 300)), longest),
        op=chance.choice(("syncs", "syncs", "any", "reads")),
        path_part=chance.choice(("", "-0/")),
        until_ns=_until(stage, chance, (500, 5_000)),
    )


async def _stuck_disk(stage: Stage, chance: random.Random) -> None:
    stage.context.injected.add(quiet.SLOW)
    stage.disk.stick(
        _until(stage, chance, (2_000, 40_000, 120_000)),
        path_part=chance.choice(("", "-0/", "__cluster_metadata")),
    )


async def _flip(stage: Stage, chance: random.Random) -> None:
    flip = stage.disk.flip(chance)
    if flip is not None:
        stage.context.injected.add(quiet.FLIP)
        stage.context.flips.append(flip)
        stage.context.damaged.add(flip.partition)


async def _lost_files(stage: Stage, chance: random.Random) -> None:
    if chance.random() < 0.6:
        stage.stop_life([(0, int(signal.SIGTERM))], LOST_DOWN_MS)
    else:
        stage.end_life(cuts_power=False, down_ms=LOST_DOWN_MS, next_ns=None)
    if await _is_down(stage):
        stage.context.has_lost_files = True
        stage.disk.change(DATA, lambda directory: lose_files(directory, chance))


async def _is_down(stage: Stage) -> bool:
    """Wait until the broker is down; say whether a fault may still do something."""
    while stage.context.life is not None:
        await stage.world.sleep_ms(LOST_DOWN_MS / 2)
    return not stage.context.is_finale


async def _emptied_marker(stage: Stage, chance: random.Random) -> None:
    stage.end_life(cuts_power=False, down_ms=LOST_DOWN_MS, next_ns=None)
    if await _is_down(stage):
        stage.disk.change(DATA, lambda directory: add_marker(directory, chance))


async def _accept_error(stage: Stage, chance: random.Random) -> None:
    stage.context.injected.add(quiet.ACCEPT)
    error = chance.choice((errno.EMFILE, errno.ENFILE, errno.ECONNABORTED, errno.ENOBUFS))
    stage.network.fail_accepts(error, chance.randint(1, 6))


async def _clock_jump(stage: Stage, chance: random.Random) -> None:
    ms = chance.choice((-HOUR_MS, -50, 50, HOUR_MS, 40 * DAY_MS))
    stage.context.clock_leaps += ms >= DAY_MS
    stage.clock.jump(ms)


async def _network_cut(stage: Stage, chance: random.Random) -> None:
    stage.network.cut(chance, chance.choice((0.2, 1.0)))


KINDS: Final[dict[str, Fault]] = {
    "kill": _ending(cuts_power=False, again=False),
    "recovery kill": _ending(cuts_power=False, again=True),
    "power cut": _ending(cuts_power=True, again=False),
    "recovery cut": _ending(cuts_power=True, again=True),
    "stop": _stop,
    "disk error": _disk_error,
    "disk full": _disk_full,
    "few descriptors": _few_descriptors,
    "slow disk": _slow_disk,
    "stuck disk": _stuck_disk,
    "flip": _flip,
    "lost files": _lost_files,
    "emptied marker": _emptied_marker,
    "accept error": _accept_error,
    "clock jump": _clock_jump,
    "network cut": _network_cut,
}
