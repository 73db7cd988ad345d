"""Faults that a story wishes: it says when the broker ends, and how.

kill, power cut               soon
power cut behind a decision   when one is on the disk, and its markers perhaps are not
lost producers                a clean stop, and what snapshots say of producers is gone
another's directory           a clean stop, and an empty log's directory is a copy of another's
kill in a swap                while the files of a compacted segment take their sources' names
"""

from __future__ import annotations

import posixpath
import random
import signal
from contextlib import suppress
from typing import Final

from storage.files import filenames
from storage.files.filenames import Kind
from tests.simulation.disk_content import Content, entries, fill
from tests.simulation.end_faults import some_time, while_it_is_decided
from tests.simulation.lost_files import lose_producers
from tests.simulation.stage import ASKED_WITHIN_MS, LOST_DOWN_MS, Fault, Stage, change_while_down
from tests.simulation.world import TimedOut
from tests.support.memory_inodes import Directory

WISHED_WITHIN_MS: Final = 12_000
PREFIX: Final = "story-"  # of the names of their topics


async def wish(stage: Stage, chance: random.Random) -> None:
    """End the broker at a moment that matters to a story, and as it wishes."""
    wished = stage.world.waiter()
    stage.context.wishes.append(wished)
    try:
        what = await stage.world.wait(wished, WISHED_WITHIN_MS)
    except TimedOut:
        stage.context.wishes.remove(wished)
        return
    if what and not stage.context.is_finale:
        await WISHES[what](stage, chance)


def _ending_at_once(*, cuts_power: bool) -> Fault:
    async def end(stage: Stage, chance: random.Random) -> None:
        await stage.world.sleep_ms(chance.choice((0, 0, 1, 10)))
        _end_now(stage, chance, cuts_power=cuts_power)

    return end


def _end_now(stage: Stage, chance: random.Random, *, cuts_power: bool) -> None:
    if not stage.context.is_finale:
        down_ms = chance.choice((1, 50, 200))
        stage.end_life(cuts_power=cuts_power, down_ms=down_ms, next_ns=None)


async def _cut_behind_a_decision(stage: Stage, chance: random.Random) -> None:
    """Cut the power when a decision is on the disk, and its markers perhaps are not."""
    await while_it_is_decided(stage, chance)
    await some_time(stage, chance)
    _end_now(stage, chance, cuts_power=True)


def put_anothers(directory: Directory, rng: random.Random) -> str:
    """Put a copy of a log in place of a story's empty one, as who restores files may; say which."""
    logs: dict[str, Content] = {}
    for name, node in sorted(directory.live.items(), key=lambda entry: entry[0]):
        parsed = filenames.parse(name)
        if isinstance(node, Directory) and parsed is not None and parsed.kind is Kind.PARTITION:
            logs[name] = dict(entries(node))
    full = [name for name in logs if _has_records(logs[name]) and not name.startswith("__")]
    empty = [name for name in logs if name.startswith(PREFIX) and not _has_records(logs[name])]
    if not full or not empty:
        return "restores nothing"
    source, target = rng.choice(full), rng.choice(empty)
    anothers = Directory()
    fill(anothers, logs[source])
    directory.put(target, anothers)
    return f"restores {source} as {target}"


def _has_records(log: Content) -> bool:
    return any(data for name, data in log.items() if name.endswith(f".{filenames.LOG}"))


async def _put_anothers(stage: Stage, chance: random.Random) -> None:
    life = stage.context.life
    if life is not None and not life.told_to_stop_ns:
        stage.stop_life([(0, int(signal.SIGTERM))], LOST_DOWN_MS)
    await change_while_down(stage, chance, lambda _context: put_anothers)


async def _lose_producers(stage: Stage, chance: random.Random) -> None:
    life = stage.context.life
    if life is not None and not life.told_to_stop_ns:
        stage.stop_life([(0, int(signal.SIGTERM))], LOST_DOWN_MS)
    await change_while_down(stage, chance, lambda _context: lose_producers)


async def _kill_in_a_swap(stage: Stage, chance: random.Random) -> None:
    """Kill the broker while the files of a compacted segment take the names of their sources."""
    swapped: set[str] = set()
    begun = stage.world.waiter()

    def renames(old: str, new: str) -> None:
        directory = posixpath.dirname(old)
        if new.endswith(f".{filenames.SWAP}"):
            swapped.add(directory)
        elif begun.is_set or stage.context.is_finale:
            return
        elif new.endswith(f".{filenames.DELETED}") and directory in swapped:
            begun.set()  # it ends at its next call, or at a later one
            stage.end_life(cuts_power=False, down_ms=chance.choice((1, 50)), next_ns=None)

    stage.disk.renames = renames
    with suppress(TimedOut):
        await stage.world.wait(begun, ASKED_WITHIN_MS)


WISHES: Final[dict[str, Fault]] = {
    "kill": _ending_at_once(cuts_power=False),
    "power cut": _ending_at_once(cuts_power=True),
    "power cut behind a decision": _cut_behind_a_decision,
    "another's directory": _put_anothers,
    "lost producers": _lose_producers,
    "kill in a swap": _kill_in_a_swap,
}
