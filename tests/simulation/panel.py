"""The panel: asks each judge when its time has come, and gathers what they object to.

    begin, end            of the history: somebody listens to the broker's log in between
    life_serves, turn, life_ended    bounds and books of each life
    finale                the broker still runs; no fault is active any more
    files, second_start   the broker has stopped
    verdict               at the very end

An objection is a sentence that begins with its judge's name and a colon.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from tests.simulation.judges import files, quiet, resources
from tests.simulation.judges.files import Before
from tests.simulation.judges.quiet import Quiet
from tests.simulation.life import DATA

if TYPE_CHECKING:
    from tests.simulation.context import Context
    from tests.simulation.life import End, Life

LOOK_EVERY: Final = 16  # turns of the loop
REST_MS: Final = 5_000
UNEXPLAINED: Final = frozenset({"killed", "stopped"})
# What a broker may do that does not start, or does not stop in order, by the faults in a history.
BAD_DISK: Final = frozenset({quiet.DISK, quiet.FULL, quiet.FLIP, quiet.SLOW})


class Panel:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._quiet = Quiet(self._hear)
        self._stack = ExitStack()
        self._life: Life | None = None
        self._sampler: resources.Sampler | None = None
        self._turns = 0
        self._before: Before | None = None
        self._found: list[str] = []

    def _hear(self, level: str, message: str) -> None:
        world = self._context.world
        if world.story is not None:
            world.story.append((world.now_ns, f"broker: {level} {message}"))

    # -- During the history -------------------------------------------------------------------

    def begin(self) -> None:
        """Listen."""
        self._stack.enter_context(quiet.listening(self._quiet))

    def end(self) -> None:
        """Listen no more."""
        self._stack.close()

    def life_serves(self, life: Life) -> None:
        """A broker has started."""
        self._life = life
        self._turns = 0

    def turn(self) -> None:
        """A turn of the broker's loop."""
        self._turns += 1
        if self._turns % LOOK_EVERY:
            return
        if self._sampler is None:
            assert self._life is not None
            self._sampler = resources.Sampler(self._life.broker, self._life.loop)
        self._sampler.look()

    def life_is_over(self, life: Life) -> None:
        """The broker is gone; it is buried in silence."""
        self._quiet.hears = False
        if self._sampler is not None:
            self._found += [f"resources: {found}" for found in self._sampler.found]
            self._sampler = None
        metrics = life.broker._assembly.services.metrics if life.has_served else None
        self._quiet.end_life(metrics)

    def life_ended(self, life: Life, end: End) -> list[str]:
        """Object to how a life has ended."""
        self._quiet.hears = True
        found, self._found = self._found, []
        injected = self._context.injected
        if end.how == "failed":
            found.append(f"liveness: the broker failed: {end.why}")
        elif end.how == "refused" and not injected & BAD_DISK:
            found.append(f"liveness: the broker refuses to start: {end.why}")
        elif end.how == "left" and not injected & {quiet.SLOW, quiet.HURRY}:
            found.append(f"liveness: the broker left by itself with {end.code}")
        elif end.how == "stopped" and end.code and not injected & (BAD_DISK | {quiet.HURRY}):
            found.append(f"liveness: the stop was not clean: exit code {end.code}")
        return found

    # -- The finale ---------------------------------------------------------------------------

    async def finale(self) -> list[str]:
        """Object to a broker that serves while no fault is active."""
        context = self._context
        context.network.heal()
        await context.world.sleep_ms(REST_MS)
        life = context.life
        if life is None or self._sampler is None:
            return ["liveness: the broker is not there"]
        return [
            f"resources: {found}"
            for found in resources.at_rest(life.broker, self._sampler.known_tasks, life.loop)
        ]

    def files(self) -> list[str]:
        """Object to the files of a broker that has stopped."""
        disk = self._context.disk
        self._before = files.look(disk, DATA)
        return [f"files: {found}" for found in files.verified(disk, DATA, self._context.damaged)]

    def second_start(self) -> list[str]:
        """Object to what a second start and stop have changed."""
        return []

    def verdict(self) -> list[str]:
        """Object to the whole history."""
        context = self._context
        found = self._quiet.judge(context.injected, context.disk.violations)
        return [
            *(f"record: {failure}" for failure in context.record.failures),
            *(f"quiet: {objection}" for objection in found),
        ]
