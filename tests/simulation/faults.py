"""The faults of a history: actors that harm the machine for a time, or end the broker's life.

A fault begins `at_ms` after the beginning and draws everything else from the stream of its name.
How a life ends is asked of the `Stage`, which starts the next one; faults of the disk and of the
network end by themselves, all of them at the finale.

    kill              the process is gone; every byte it wrote stays
    kill at an end, power cut at an end    the same, soon after an EndTxn was sent
    power cut in a transaction    the same, when the record that adds its partitions may be lost
    slow log at an end      the syncs of one log take long, soon after an EndTxn was sent
    disk error at an end    a write or a sync of a log fails, soon after an EndTxn was sent
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
    left files        the broker ends, and Kafka or an operator leaves files in its directory
    bad start         the broker ends, and its directory is one on which it must not start
    emptied marker    a log of groups ends with what Kafka's cleaner leaves of a transaction
    left offsets      a log of groups ends with offsets of transactions, and what nobody reads
    old log           a log of messages of old formats is there when it starts again
    accept error      no descriptors for new connections
    clock jump        the wall clock is set
    network cut       some connections are reset
    wish              a story says when the broker ends, and how (`tests.simulation.wishes`)
"""

from __future__ import annotations

import errno
import random
import signal
from collections.abc import Callable
from functools import partial
from typing import Final

from storage.files import filenames
from tests.simulation.bad_starts import Saved, may_change, ruin
from tests.simulation.context import Context
from tests.simulation.emptied_marker import add_marker
from tests.simulation.end_faults import (
    SLOWEST_NS,
    cut_in_a_transaction,
    ending_with_a_transaction,
    error_at_an_end,
    slow_log_at_an_end,
)
from tests.simulation.judges import quiet
from tests.simulation.left_files import leave_files
from tests.simulation.left_groups import leave_offsets
from tests.simulation.life import DATA
from tests.simulation.lost_files import lose_files
from tests.simulation.old_logs import leave_old_log
from tests.simulation.plan import WISH, FaultPlan
from tests.simulation.stage import (
    LOST_DOWN_MS,
    Change,
    Fault,
    Stage,
    change_while_down,
    down_ms,
    files_of,
    is_down,
    until,
)
from tests.simulation.wishes import wish
from tests.simulation.world import MS, US

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
BAD_STOP_CHANCE: Final = 0.15  # that the disk fails when the broker stops
LOCKED_CHANCE: Final = 0.1
REFUSALS: Final = ("CorruptMetadata", "DirectoryLocked")


async def run_fault(stage: Stage, plan: FaultPlan) -> None:
    """Be one fault of the plan.

    A broker that waits for the disk at its start lets nobody else act: the history may be over
    then, and its machine healed.
    """
    await stage.world.sleep_ms(plan.at_ms)
    if stage.context.is_finale:
        return
    stage.world.note("fault", plan.name)
    await KINDS[plan.kind](stage, stage.world.chance(plan.name))


def _ending(*, cuts_power: bool, again: bool) -> Fault:
    async def end(stage: Stage, chance: random.Random) -> None:
        next_ns = chance.choice((100 * US, 2 * MS, 20 * MS, 200 * MS))
        stage.end_life(
            cuts_power=cuts_power,
            down_ms=down_ms(chance),
            next_ns=chance.randrange(next_ns) if again else None,
        )

    return end


async def _stop(stage: Stage, chance: random.Random) -> None:
    if chance.random() < BAD_STOP_CHANCE:
        await _disk_error(stage, chance)
    signals = [(0, int(signal.SIGTERM))]
    again = chance.choice((0, 0, 1, 1, 2))
    signals += [(chance.choice((0, 5, 200)), int(signal.SIGINT)) for _ in range(again)]
    stage.stop_life(signals, down_ms(chance))


_OPERATIONS: Final = (
    "pwrite", "pwrite", "fdatasync", "fdatasync", "pread", "open", "sync_directory", "rename",
    "unlink", "mkdir", "truncate", "list", "replace", "map", "reserve", "any", "reads", "syncs",
    "writes", "descriptors",
)  # fmt: skip
_ERRORS: Final = (errno.EIO, errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EROFS, errno.EACCES)
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
        until_ns=until(stage, chance, (10, 500, 5_000)),
    )


async def _disk_full(stage: Stage, chance: random.Random) -> None:
    stage.context.injected.add(quiet.FULL)
    stage.disk.full(chance.choice((0, 100, 2_000)), until(stage, chance, (50, 1_000, 5_000)))


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
        until_ns=until(stage, chance, (500, 5_000)),
    )


async def _stuck_disk(stage: Stage, chance: random.Random) -> None:
    stage.context.injected.add(quiet.SLOW)
    stage.disk.stick(
        until(stage, chance, (2_000, 40_000, 120_000)),
        path_part=chance.choice(("", "-0/", "__cluster_metadata", "__cluster_metadata")),
    )


async def _flip(stage: Stage, chance: random.Random) -> None:
    flip = stage.disk.flip(chance, known=stage.context.flips)
    if flip is not None:
        stage.context.injected.add(quiet.FLIP)
        stage.context.flips.append(flip)
        stage.context.damaged.add(flip.partition)


def _lose(_context: Context) -> Change:
    return lose_files


def _leave(context: Context) -> Change:
    return partial(leave_files, has_flips=bool(context.flips))


def _while_down(change_of: Callable[[Context], Change]) -> Fault:
    """Return a fault that ends the broker and changes its files before it starts again."""

    async def end(stage: Stage, chance: random.Random) -> None:
        life = stage.context.life
        if life is not None and life.told_to_stop_ns:
            pass  # a second signal would mean: at once
        elif chance.random() < 0.6:
            stage.stop_life([(0, int(signal.SIGTERM))], LOST_DOWN_MS)
        else:
            stage.end_life(cuts_power=False, down_ms=LOST_DOWN_MS, next_ns=None)
        await change_while_down(stage, chance, change_of)

    return end


async def _bad_start(stage: Stage, chance: random.Random) -> None:
    """Ruin the directory while the broker is down, and mend it when a start was refused."""
    stage.end_life(cuts_power=False, down_ms=LOST_DOWN_MS, next_ns=None)
    if not await is_down(stage):
        return
    context, disk = stage.context, stage.disk
    saved = Saved(disk.directory(DATA))
    lock = None
    if chance.random() < LOCKED_CHANCE:
        what = "a lock that another process holds"
        lock = disk.lock(f"{DATA}/{filenames.LOCK}")
    else:
        said: list[str] = []
        disk.change(DATA, lambda directory: said.append(ruin(directory, chance)) or f"{said}")
        what = said[0]
        if not what:
            return
    context.ruin = what
    before, first = files_of(stage), len(context.lives)
    others = len(context.power_cuts_ns), len(context.flips)
    while context.ruin and not context.is_finale:
        await stage.world.sleep_ms(LOST_DOWN_MS / 2)
        for life in context.lives[first:]:
            if life.is_serving:
                context.record.fail("fault", f"a broker serves {what}")
                context.ruin = ""
            elif life.end is not None and life.end.how == "refused":
                context.ruin = "" if any(name in life.end.why for name in REFUSALS) else what
    context.ruin = ""
    if lock is not None:
        lock.close()
    after = files_of(stage)
    if others != (len(context.power_cuts_ns), len(context.flips)):
        after = before  # the change may be another fault's
    changed = [path for path in {*before, *after} if before.get(path) != after.get(path)]
    if unasked := sorted(path for path in changed if not may_change(path, what)):
        context.record.fail("fault", f"a start that is refused for {what} has changed {unasked}")
    disk.change(DATA, lambda _directory: saved.restore() or "is mended")


async def _emptied_marker(stage: Stage, chance: random.Random) -> None:
    stage.end_life(cuts_power=False, down_ms=LOST_DOWN_MS, next_ns=None)
    if await is_down(stage):
        stage.disk.change(DATA, lambda directory: add_marker(directory, chance))


async def _left_offsets(stage: Stage, chance: random.Random) -> None:
    stage.end_life(cuts_power=False, down_ms=LOST_DOWN_MS, next_ns=None)
    if await is_down(stage):
        directory = stage.disk.directory(DATA)
        said, commit = leave_offsets(directory, chance, stage.world.now_ns)
        stage.disk.change(DATA, lambda _directory: said)
        if commit is not None:
            stage.context.record.group_events.append(commit)


async def _old_log(stage: Stage, chance: random.Random) -> None:
    stage.stop_life([(0, int(signal.SIGTERM))], LOST_DOWN_MS)
    if await is_down(stage):
        directory = stage.disk.directory(DATA)
        said, log = leave_old_log(directory, chance)
        stage.disk.change(DATA, lambda _directory: said)
        if log is not None:
            stage.context.old_logs.append(log)
            stage.context.has_lost_files = True  # it has no indexes


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
    "kill at an end": ending_with_a_transaction(cuts_power=False),
    "power cut at an end": ending_with_a_transaction(cuts_power=True),
    "power cut in a transaction": cut_in_a_transaction,
    "slow log at an end": slow_log_at_an_end,
    "disk error at an end": error_at_an_end,
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
    "lost files": _while_down(_lose),
    "left files": _while_down(_leave),
    "bad start": _bad_start,
    "emptied marker": _emptied_marker,
    "left offsets": _left_offsets,
    "old log": _old_log,
    "accept error": _accept_error,
    "clock jump": _clock_jump,
    "network cut": _network_cut,
    WISH: wish,
}
