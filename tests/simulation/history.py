"""One history: a plan is played to its end, and every judge says what it objects to.

    lives      the broker runs until a fault or the finale ends it, and starts again
    clients    come and act while the broker is up, down or starting, until their steps are done
    finale     the faults are over; everything is read back, the clients go, the broker stops
    after      the files are verified, and a second start and stop must change nothing

`tell` returns what the judges objected to; an empty list is a good history. Its digest is that of
the trace: it is the same in every process.
"""

from __future__ import annotations

import gc
import signal
import time
import traceback
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from tests.simulation.clients.kinds import KINDS
from tests.simulation.clock import SimClock
from tests.simulation.context import Context
from tests.simulation.disk import SimDisk
from tests.simulation.end_faults import SLOWEST_NS
from tests.simulation.faults import run_fault
from tests.simulation.formatted import formatted
from tests.simulation.judges import files, quiet
from tests.simulation.judges.liveness import BOUND_MS
from tests.simulation.left_files import leave_files
from tests.simulation.life import DATA, End, Life, loaded_from
from tests.simulation.network import Network
from tests.simulation.panel import Panel
from tests.simulation.plan import LATE_IDS, MORE_STORIES, STORIES, WISH, ClientPlan, Plan
from tests.simulation.record import Record
from tests.simulation.world import MS, Actor, Defect, Stuck, World

CLIENTS_MS_MAX: Final = 20_000  # after which clients that still run are ended ...
REQUESTS_ENOUGH: Final = 170  # ... or when they have come, and have sent so many
LATEST_MS: Final = 500  # for the last of them to do something
LOOK_MS: Final = 50
STORIES_MS_MAX: Final = 8_000  # for stories that the others have overtaken
STUCK_MS_MAX: Final = 60_000  # ... while a disk is stuck: a change of topics may take 30 s
LIVES_MAX: Final = 40
REFUSALS_MAX: Final = 5  # while the disk is bad
RETRY_MS: Final = 500
# For answers to requests under way when the machine is healed: beyond what the judge allows.
ANSWERS_MS_MIN: Final = 300
ANSWERS_MS_MAX: Final = BOUND_MS + 10_000
READING_CHANCE: Final = 0.1  # that the directory is served once more, for reading only
LEAVING_CHANCE: Final = 0.5  # that it is then as another has left it
NEVER_MS: Final = 1 << 40
NEVER_INT_MS: Final = 2**31 - 1
STILL: Final = {
    "log.cleaner.enable": "false",
    "log.initial.task.delay.ms": str(NEVER_MS),
    "log.retention.check.interval.ms": str(NEVER_MS),
    "offsets.retention.check.interval.ms": str(NEVER_MS),
    LATE_IDS: str(NEVER_INT_MS),
}


@dataclass(slots=True)
class Verdict:
    """What came of one history."""

    failures: list[str]
    digest: str
    requests: int
    lives: int
    seconds: float  # of the processor
    story: list[tuple[int, str]] = field(default_factory=list)


class History:
    """One history while it happens: the stage of the faults."""

    def __init__(self, plan: Plan, *, keeps_story: bool = False) -> None:
        self.plan = plan
        self.world = world = World(plan.seed, keeps_story=keeps_story)
        shape = plan.shape
        self.disk = SimDisk(world, None, world.chance("disk"), shape)
        content = formatted(world.chance("formatted"))
        if content:
            self.disk.load(content, at=DATA)
        self.network = Network(world, world.chance("network"), shape.network)
        self.clock = SimClock(world, shape.reading_ns, shape.drift)
        self.record = Record()
        self.context = Context(
            plan=plan,
            world=world,
            disk=self.disk,
            network=self.network,
            clock=self.clock,
            record=self.record,
            loaded=loaded_from(plan.settings, plan.tiny),
            spoilt=content,
        )
        self.panel = Panel(self.context)
        self.failures: list[str] = []
        self.is_over = False
        self._down_ms = 0
        self._cuts_power = False
        self._next_ns: int | None = None
        self._refusals = 0
        begins_ms = max((client.begins_ms for client in plan.clients), default=0)
        self._begun_ns = (begins_ms + LATEST_MS) * MS

    # -- The stage ----------------------------------------------------------------------------

    def end_life(self, *, cuts_power: bool, down_ms: int, next_ns: int | None) -> None:
        """Kill the broker; see `faults.Stage`."""
        life = self.context.life
        self._cuts_power = cuts_power
        self._down_ms = down_ms
        self._next_ns = next_ns
        if life is not None:
            life.kill()
        elif cuts_power:
            self._cut_power()

    def stop_life(self, signals: list[tuple[int, int]], down_ms: int) -> None:
        """Send signals; see `faults.Stage`."""
        life = self.context.life
        self._down_ms = down_ms
        if life is None:
            return
        if life.told_to_stop_ns:
            self.context.injected.add(quiet.HURRY)
        for ms, number in signals:
            self.world.after(ms * MS, partial(self._signal, life, number))

    def _signal(self, life: Life, number: int) -> None:
        if life.told_to_stop_ns:  # by the same fault or by another
            self.context.injected.add(quiet.HURRY)
        life.receive(number)

    def _cut_power(self) -> None:
        self._cuts_power = False
        self.disk.power_cut(self.world.chance(f"power cut {self.world.now_ns}"))
        self.context.power_cuts_ns.append(self.world.now_ns)
        self.record.power_cut(self.world.now_ns)

    # -- Lives --------------------------------------------------------------------------------

    def play(self) -> None:
        """Play the whole history."""
        world = self.world
        actors = [world.spawn(plan.name, self._client(plan)) for plan in self.plan.clients]
        faults = [
            (plan.kind, world.spawn(plan.name, run_fault(self, plan))) for plan in self.plan.faults
        ]
        awaited = [fault for kind, fault in faults if kind != WISH]
        world.spawn("director", self._direct(actors, awaited))
        while not self.is_over and len(self.context.lives) < LIVES_MAX:
            self._live()
        if not self.is_over:
            self.failures.append(f"liveness: {LIVES_MAX} lives were not enough")
        for actor in world.actors:
            actor.stop()
        self.failures += [f"simulator: {who}: {error!r}" for who, error in world.defects]

    async def _client(self, plan: ClientPlan) -> None:
        await self.world.sleep_ms(plan.begins_ms)
        await KINDS[plan.kind](self.context, plan)

    def _live(self) -> None:
        """Run one life, and wait until the next may begin."""
        context = self.context
        life = Life(
            self.world,
            self.disk,
            self.network,
            self.clock,
            context.loaded,
            len(context.lives),
            self.panel,
        )
        if self._next_ns is not None:
            life.baton.killed_at_ns = self.world.now_ns + self._next_ns
            self._next_ns = None
        context.life = life
        context.lives.append(life)
        end = life.run()
        context.life = None
        context.ends_ns.append(self.world.now_ns)
        self._judge_end(end)
        if self._cuts_power:
            self._cut_power()
        down_ms, self._down_ms = self._down_ms, 0
        until_ns = self.world.now_ns + down_ms * MS
        self.world.after(down_ms * MS, lambda: None)
        self.world.run_until(lambda: self.is_over or self.world.now_ns >= until_ns)

    def _judge_end(self, end: End) -> None:
        if end.how == "refused":
            self._refusals += 1
            self._down_ms = self._down_ms or RETRY_MS
            if self._refusals > REFUSALS_MAX:
                self.disk.heal()
            if self._refusals > 2 * REFUSALS_MAX:
                self.is_over = True
        else:
            self._refusals = 0
        before = len(self.panel.found)
        self.panel.life_ended(end)
        if len(self.panel.found) > before:
            self.is_over = True

    # -- The end ------------------------------------------------------------------------------

    async def _direct(self, clients: list[Actor], faults: list[Actor]) -> None:
        """Wait for clients and faults, heal the machine, run the finale, and stop the broker."""
        world = self.world
        is_stuck = any(fault.kind == "stuck disk" for fault in self.plan.faults)
        until_ns = (STUCK_MS_MAX if is_stuck else CLIENTS_MS_MAX) * MS
        while world.now_ns < until_ns and not self._is_enough(clients, faults):
            await world.sleep_ms(LOOK_MS)
        await self._told(clients)
        self.context.is_finale = True
        self._next_ns = None
        self.disk.heal()
        self.network.heal()
        self.panel.healed()
        await self._answered()
        for client in clients:
            client.stop()
        self.network.hang_up()
        if quiet.SLOW in self.context.injected:  # what clients have left waits for a sync
            await world.sleep_ms(SLOWEST_NS / MS)
        await self._restart()
        await self.panel.finale()
        self.panel.stopped(*await self._stop())
        self._keep_still()
        await self._started()
        await self._stop()
        self.panel.second_start()
        if world.chance("reading only").random() < READING_CHANCE:
            await self._serve_what_is_there()
        self.is_over = True

    def _is_enough(self, clients: list[Actor], faults: list[Actor]) -> bool:
        """Whether all have acted, or have come and sent enough together."""
        if not all(fault.ended.is_set for fault in faults):
            return False
        has_sent = self.record.request_count >= REQUESTS_ENOUGH
        return (has_sent and self.world.now_ns >= self._begun_ns) or all(
            client.ended.is_set for client in clients
        )

    async def _told(self, clients: list[Actor]) -> None:
        """Let stories that have begun end, among themselves."""
        plans = zip(self.plan.clients, clients, strict=True)
        tellers = [client for plan, client in plans if plan.kind in (*STORIES, *MORE_STORIES)]
        if all(teller.ended.is_set for teller in tellers):
            return
        for client in clients:
            if client not in tellers:
                client.stop()
        until_ns = self.world.now_ns + STORIES_MS_MAX * MS
        while self.world.now_ns < until_ns and not all(one.ended.is_set for one in tellers):
            await self.world.sleep_ms(LOOK_MS)

    async def _answered(self) -> None:
        """Wait until what was asked is answered; nobody asks for more meanwhile."""
        record, until_ns = self.record, self.world.now_ns + ANSWERS_MS_MAX * MS
        record.takes_requests = False
        await self.world.sleep_ms(ANSWERS_MS_MIN)
        while record.unanswered and self.world.now_ns < until_ns:
            await self.world.sleep_ms(LOOK_MS)
        record.takes_requests = True

    async def _serve_what_is_there(self) -> None:
        """Serve the directory with barnabas.read.only: the same records, and no file changes."""
        settings = {**self.plan.settings, **STILL, "barnabas.read.only": "true"}
        self.context.loaded = loaded_from(settings, self.plan.tiny)
        chance = self.world.chance("left for reading")
        if chance.random() < LEAVING_CHANCE:
            has_flips = bool(self.context.flips)
            leave = partial(leave_files, rng=chance, has_flips=has_flips, only_reads=True)
            self.disk.change(DATA, leave)
        before = files.contents(self.disk, DATA)
        await self._started()
        await self.panel.reads_only()
        _, end = await self._stop()
        self.panel.has_read_only(end, before)

    def _keep_still(self) -> None:
        """Let the next broker do nothing by itself: whatever it changes is its start's."""
        self.context.loaded = loaded_from({**self.plan.settings, **STILL}, self.plan.tiny)

    async def _started(self) -> Life:
        """Wait until a broker serves that nobody has told to stop."""
        while True:
            life = self.context.life
            if life is not None and life.is_serving and not life.told_to_stop_ns:
                return life
            await self.world.sleep_ms(20)

    async def _stop(self) -> tuple[Life, End]:
        """Stop the broker that serves; it stays so for a second."""
        life = await self._started()
        self._down_ms = 1_000
        life.receive(signal.SIGTERM)
        end: End = await life.ended
        return life, end

    async def _restart(self) -> None:
        """Failed logs are opened anew at the next start."""
        await self._started()
        if self.disk.failed:
            await self._stop()
            await self._started()


def tell(plan: Plan, *, keeps_story: bool = False) -> Verdict:
    """Play one history, and judge it."""
    was_enabled = gc.isenabled()
    gc.disable()  # finalizers run between two histories, never in the middle of one
    try:
        return _told(plan, keeps_story=keeps_story)
    finally:
        if was_enabled:
            gc.enable()


def _told(plan: Plan, *, keeps_story: bool) -> Verdict:
    began = time.process_time()
    history = History(plan, keeps_story=keeps_story)
    history.panel.begin()
    try:
        history.play()
    except Stuck as stuck:
        history.failures.append(f"liveness: {stuck}")
    except Defect as defect:
        trace = "".join(traceback.format_exception(defect.__cause__)[-4:])
        history.failures.append(f"simulator: {trace}")
    finally:
        history.panel.end()
    failures = [*history.failures, *history.panel.verdict()]
    return Verdict(
        failures=failures,
        digest=history.world.digest,
        requests=history.record.request_count,
        lives=len(history.context.lives),
        seconds=time.process_time() - began,
        story=history.world.story or [],
    )
