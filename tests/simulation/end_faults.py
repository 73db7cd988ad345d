"""Faults soon after an EndTxn was sent, or while a transaction grows."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from broker.metadata.topic_rules import TRANSACTION_TOPIC
from tests.simulation.judges import quiet
from tests.simulation.stage import ASKED_WITHIN_MS, Fault, Stage, down_ms, until
from tests.simulation.world import MS, TimedOut

SLOWEST_NS: Final = 15_000 * MS  # of a sync, about: the finale rests for longer
WIDE_CHANCE: Final = 0.7  # that the end of a life waits for a commit in several partitions


def ending_with_a_transaction(*, cuts_power: bool) -> Fault:
    """Return the end of a life that comes while a transaction is being ended."""

    async def end(stage: Stage, chance: random.Random) -> None:
        if not await _is_asked(stage, chance):
            return
        await chance.choice(_MOMENTS)(stage, chance)
        if not stage.context.is_finale:
            stage.end_life(cuts_power=cuts_power, down_ms=down_ms(chance), next_ns=None)

    return end


async def cut_in_a_transaction(stage: Stage, chance: random.Random) -> None:
    """Cut the power soon after data were acknowledged in partitions that are new to it."""
    grown, must_be_begun = stage.world.waiter(), chance.random() < 0.5

    def growing(is_begun: bool) -> None:
        if is_begun or not must_be_begun:
            grown.set()

    stage.context.record.growing = growing
    with suppress(TimedOut):
        await stage.world.wait(grown, ASKED_WITHIN_MS)
        await stage.world.sleep_ms(chance.choice((0, 0, 10, 50)))
        if not stage.context.is_finale:
            down_ms = chance.choice((1, 50, 200))  # its client may go on
            stage.end_life(cuts_power=True, down_ms=down_ms, next_ns=None)


async def _is_asked(stage: Stage, chance: random.Random) -> bool:
    """Wait until an EndTxn is sent; return whether one was."""
    asked, only_wide = stage.world.waiter(), chance.random() < WIDE_CHANCE

    def ending(is_wide: bool) -> None:
        if is_wide or not only_wide:
            asked.set()

    stage.context.record.ending = ending
    try:
        await stage.world.wait(asked, ASKED_WITHIN_MS)
    except TimedOut:
        return False
    return True


async def error_at_an_end(stage: Stage, chance: random.Random) -> None:
    """Let a log fail among those to which the end of a transaction writes."""
    if not await _is_asked(stage, chance) or stage.context.is_finale:
        return
    error = chance.choice((errno.EIO, errno.EIO, errno.ENOSPC))
    stage.context.injected |= {quiet.DISK, quiet.FULL} if error == errno.ENOSPC else {quiet.DISK}
    stage.disk.fail(
        chance.choice(("pwrite", "fdatasync", "fdatasync")),
        nth=chance.choice((1, 1, 2, 3)),
        error=error,
        path_part=chance.choice(("", "ledger", "ledger", "__consumer_offsets", TRANSACTION_TOPIC)),
        bytes_written=chance.choice((0, 0, 40, 0.5)),
        until_ns=until(stage, chance, (500, 5_000)),
    )


async def slow_log_at_an_end(stage: Stage, chance: random.Random) -> None:
    """Keep a decision from the disk while its markers come there, or the other way round."""
    if not await _is_asked(stage, chance) or stage.context.is_finale:
        return
    stage.context.injected.add(quiet.SLOW)
    longest = SLOWEST_NS / stage.disk.shape.fsync_ns
    stage.disk.slow(
        min(chance.choice((30, 300)), longest),
        path_part=chance.choice((TRANSACTION_TOPIC, TRANSACTION_TOPIC, "ledger")),
        until_ns=until(stage, chance, (500, 5_000)),
    )


async def some_time(stage: Stage, chance: random.Random) -> None:
    flushes = chance.choice((1, 3, 6)) * stage.context.plan.shape.fsync_ns
    await stage.world.sleep_ms(chance.randrange(flushes + 2 * MS) / MS)


async def _some_syncs(stage: Stage, chance: random.Random) -> None:
    """Wait until the first syncs have ended that the transaction waits for, and others have not."""
    left, ended = chance.choice((1, 1, 2, 3)), stage.world.waiter()

    def has_synced() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            ended.set()

    stage.disk.has_synced = has_synced
    with suppress(TimedOut):
        await stage.world.wait(ended, ASKED_WITHIN_MS)


async def while_it_is_decided(stage: Stage, chance: random.Random) -> None:
    """Wait until the log of the coordinator is being synced, and whatever is synced beside it."""
    await _while_is_synced(stage, chance, lambda path: TRANSACTION_TOPIC in path)


async def while_it_is_marked(stage: Stage, chance: random.Random) -> None:
    """Wait until a log is being synced after that of the coordinator: perhaps it gets a marker."""
    is_decided = False

    def is_meant(path: str) -> bool:
        nonlocal is_decided
        is_decided = is_decided or TRANSACTION_TOPIC in path
        return is_decided and TRANSACTION_TOPIC not in path

    await _while_is_synced(stage, chance, is_meant)


async def _while_is_synced(
    stage: Stage, chance: random.Random, is_meant: Callable[[str], bool]
) -> None:
    begins = stage.world.waiter()

    def syncs(path: str) -> None:
        if is_meant(path):
            begins.set()

    stage.disk.syncs = syncs
    with suppress(TimedOut):
        await stage.world.wait(begins, ASKED_WITHIN_MS)
    await stage.world.sleep_ms(chance.randrange(stage.context.plan.shape.fsync_ns) / MS)


_MOMENTS: Final = (some_time, _some_syncs, while_it_is_decided, while_it_is_marked)
