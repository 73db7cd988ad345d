"""Many lives: which crashes, in which order, until there were enough of them.

Crashes at failpoints alternate with crashes at random moments, so that any run that is long enough
meets every failpoint. How a campaign goes on after a finding is the caller's choice.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.faults.base_life import BaseLife, Tally
from tests.faults.broken_brokers import VARIANTS
from tests.faults.failpoints import (
    DATA_LOG,
    GROUP_LOG,
    RECOVERING,
    SERVING,
    STATE_LOG,
    TRANSACTIONAL_RECOVERING,
    TRANSACTIONAL_SERVING,
    Crash,
)
from tests.faults.life import Life
from tests.faults.power import SHAPES
from tests.faults.transactional_life import TransactionalLife

CYCLES_PER_LIFE = 10

DISK_ERRORS = (
    f"eio before fdatasync {DATA_LOG}",
    f"eio before pwrite {DATA_LOG}",
    f"eio half pwrite {DATA_LOG}",
    f"enospc half pwrite {DATA_LOG}",
    f"eio before fdatasync {GROUP_LOG}",
    f"enospc half pwrite {GROUP_LOG}",
    f"delay:300 before fdatasync {DATA_LOG}",
)


TRANSACTIONAL_DISK_ERRORS = (
    f"eio before fdatasync {STATE_LOG}",
    f"eio half pwrite {STATE_LOG}",
    f"enospc half pwrite {STATE_LOG}",
    f"eio before fdatasync {DATA_LOG}",
    f"enospc half pwrite {DATA_LOG}",
    f"eio before fdatasync {GROUP_LOG}",
    f"delay:200 before fdatasync {STATE_LOG}",
)


class Campaign:
    """Crashes of one kind (kill, power or flip) in directories below `directory`."""

    def __init__(
        self,
        directory: Path,
        kind: str,
        seed: int,
        *,
        broken: str = "",
        transactional: bool = False,
    ) -> None:
        self.directory = directory
        self.kind = kind
        self.broken = broken
        self.transactional = transactional or (bool(broken) and VARIANTS[broken].transactional)
        self.chance = random.Random(seed)
        self.seed = seed

    async def run(self, cycles: int, *, keep_going: bool = False) -> Tally:
        """Run until `cycles` crashes have happened, or until a finding unless `keep_going`."""
        total = Tally()
        crashes = self.crashes()
        lives = 0
        while total.kills + total.power_cuts < cycles and (keep_going or not total.found):
            shape = list(SHAPES)[lives % len(SHAPES)] if self.kind == "power" else ""
            lives += 1
            directory = self.directory / f"life-{lives}"
            directory.mkdir(parents=True)
            lived = TransactionalLife if self.transactional else Life
            life = lived(directory, self.seed * 1000 + lives, shape=shape, broken=self.broken)
            count = min(CYCLES_PER_LIFE, cycles - total.kills - total.power_cuts)
            await self._live(life, count, crashes)
            total.add(life.tally)
            print(f"life {lives} {shape}: {life.tally.summary()}", flush=True)
        return total

    async def _live(self, life: BaseLife, count: int, crashes: Iterator[Crash]) -> None:
        names = []
        try:
            for _ in range(count):
                crash = next(crashes)
                names.append(crash.name)
                life.tally.found += await life.live_through(crash)
                if life.tally.found:
                    break
            else:
                life.tally.found += await life.finish()
        except Exception as error:
            life.tally.found.append(f"{type(error).__name__}: {str(error)[-500:]}")
        finally:
            await life.abandon()
            if life.tally.found:
                where = f"after {', '.join(names)} in {life.directory}:"
                print(
                    "\n  ".join([where, *(one[:700] for one in life.tally.found[:12])]),
                    file=sys.stderr,
                )

    def crashes(self) -> Iterator[Crash]:
        """Yield crashes for ever, alternately at a random moment and at a failpoint."""
        if self.broken:
            yield from itertools.cycle(VARIANTS[self.broken].crashes)
        if self.kind == "flip":  # rotten batches stay: not too many in one life
            yield from itertools.cycle([Crash("kill"), Crash("flip", "flip")])
        while True:
            serving, recovering = SERVING, RECOVERING
            if self.transactional:
                serving, recovering = TRANSACTIONAL_SERVING, TRANSACTIONAL_RECOVERING
            places = [("serving", place) for place in serving]
            places += [("recovering", place) for place in recovering]
            self.chance.shuffle(places)
            for phase, place in places:
                yield self._at_random()
                nth = self.chance.randint(1, place.nth_max)
                name = f"{phase}: {self.kind} {place.name} ({nth})"
                yield Crash(name, self.kind, **{phase: [place.fault(self.kind, nth)]})

    def _at_random(self) -> Crash:
        choice = self.chance.random()
        if choice < 0.1:
            return Crash("stop", "stop", power_after=self.kind == "power")
        if choice < 0.3:
            errors = TRANSACTIONAL_DISK_ERRORS if self.transactional else DISK_ERRORS
            error = self.chance.choice(errors)
            nth = self.chance.randint(1, 60)
            return Crash(
                f"{self.kind} after {error} ({nth})", self.kind, serving=[f"{error} {nth}"]
            )
        if choice < 0.4 and self.kind == "kill":
            return Crash("tail", "tail")
        if choice < 0.55 and self.kind == "kill" and self.transactional:
            return Crash("lists", "lists")
        return Crash(self.kind, self.kind)
