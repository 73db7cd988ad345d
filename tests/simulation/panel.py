"""The panel: asks each judge when its time has come, and gathers what they object to.

    begin, end                       somebody listens to the broker's log in between
    life_serves, turn, life_ended    bounds and books of each life, and how it ends
    finale                           the broker serves, and no fault is active any more
    stopped, second_start            the broker has stopped, and has stopped once more
    verdict                          at the very end: what clients saw, and what the broker said

An objection is a sentence that begins with its judge's name and a colon.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from storage.files import filenames
from tests.simulation.clients.read_back import ReadLog, look_again, read_back
from tests.simulation.clients.topics import topics_of
from tests.simulation.clients.wire import Wire
from tests.simulation.context import KAFKA_PORT
from tests.simulation.judges import files, groups, history, isolation, liveness, quiet, resources
from tests.simulation.judges.files import Before
from tests.simulation.judges.history import Flipped, WholeLog
from tests.simulation.judges.isolation import Harm, Served
from tests.simulation.judges.quiet import Quiet
from tests.simulation.life import DATA
from tests.simulation.plan import PER_ADDRESS
from tests.simulation.world import MS
from tests.support.history_checker import Key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.simulation.context import Context
    from tests.simulation.life import End, Life

LOOK_EVERY: Final = 16  # turns of the loop
REST_MS: Final = 3_000
REST_TRIES: Final = 5  # groups give a rebalance that long, although the clients have gone
WOKEN_MS: Final = 1_000  # from an acknowledgement to the answer of a fetch that waits
STALLS_MAX: Final = 4  # of the network, meanwhile
QUICK_FSYNC_NS: Final = 20 * MS
# Faults in a history after which a broker may refuse to start, or stop without writing everything.
BAD_DISK: Final = frozenset({quiet.DISK, quiet.FULL, quiet.FLIP})


class Panel:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._quiet = Quiet(self._hear)
        self._stack = ExitStack()
        self._harm = Harm()
        self._served: list[Served] = []
        self._serves_since_ns = 0
        self._sampler: resources.Sampler | None = None
        self._turns = 0
        self._messages: list[str] = []  # of the last life
        self._healed_ns = 0
        self._before: Before | None = None
        self._said_before: list[str] = []  # by the life before the second start
        self._logs: dict[Key, ReadLog] | None = None
        self._found: list[str] = []

    def _hear(self, level: str, message: str) -> None:
        world = self._context.world
        if world.story is not None:
            world.story.append((world.now_ns, f"broker: {level} {message}"))

    def _object(self, judge: str, found: list[str]) -> None:
        self._found += [f"{judge}: {one}" for one in found]

    @property
    def found(self) -> list[str]:
        """All objections so far."""
        return self._found

    # -- During the history -------------------------------------------------------------------

    def begin(self) -> None:
        """Listen."""
        self._stack.enter_context(quiet.listening(self._quiet))

    def end(self) -> None:
        """Listen no more."""
        self._stack.close()

    def life_serves(self, life: Life) -> None:
        """Begin to watch a broker that has started."""
        context = self._context
        self._turns = 0
        self._serves_since_ns = context.world.now_ns
        self._note_ends(life)
        disk = context.disk
        self._harm.look(disk.harmed, context.world.now_ns)
        if not disk.is_faulty:
            self._harm.started_anew(context.world.now_ns, context.damaged)
            disk.healed()
            disk.harmed |= context.damaged

    def _note_ends(self, life: Life) -> None:
        """Tell the record where logs end; only the first start after a power cut counts."""
        topics = topics_of(self._context)
        services = life.broker._assembly.services
        ends: dict[Key, int] = {}
        for partition in services.partitions.all():
            log = partition.log
            topic = topics.get(log.topic)
            if topic is not None:
                info = services.controller.image.topics[log.topic]
                ends[topic.key_of(info.topic_id, log.partition)] = log.end_offset
        self._context.record.recovered(ends)

    def turn(self) -> None:
        """Look at the broker, now and then."""
        self._turns += 1
        if self._turns % LOOK_EVERY:
            return
        context = self._context
        if self._sampler is None:
            assert context.life is not None
            self._sampler = resources.Sampler(
                context.life.broker, context.life.loop, per_address_max=_per_address(context)
            )
        self._sampler.look()
        if context.disk.harmed:
            self._harm.look(context.disk.harmed, context.world.now_ns)

    def life_is_over(self, life: Life) -> None:
        """Stop watching: what is buried next is of no interest."""
        self._quiet.hears = False
        self._messages = list(self._quiet.messages)
        if self._sampler is not None:
            self._object("resources", self._sampler.found)
            self._sampler = None
        metrics = None
        if life.has_served:
            metrics = life.broker._assembly.services.metrics
            until_ns = life.told_to_stop_ns or self._context.world.now_ns
            self._served.append(Served(self._serves_since_ns, until_ns, metrics))
        self._quiet.end_life(metrics)
        self._harm.look(self._context.disk.harmed, self._context.world.now_ns)

    def life_ended(self, end: End) -> None:
        """Judge how a life has ended."""
        self._quiet.hears = True
        injected = self._context.injected
        if end.how == "failed":
            self._object("liveness", [f"the broker failed: {end.why}"])
        elif end.how == "refused" and not injected & BAD_DISK:
            self._object("liveness", [f"the broker refuses to start: {end.why}"])
        elif end.how == "left" and not injected & {quiet.SLOW, quiet.HURRY}:
            self._object("liveness", [f"the broker left by itself with {end.code}"])
        elif end.how == "stopped" and end.code == 0:
            self._context.record.stopped()
        elif end.how == "stopped" and not injected & (BAD_DISK | {quiet.SLOW, quiet.HURRY}):
            self._object("liveness", [f"the stop was not clean: exit code {end.code}"])

    # -- The finale ---------------------------------------------------------------------------

    def healed(self) -> None:
        """The faults are over."""
        self._healed_ns = self._context.world.now_ns

    async def finale(self) -> None:
        """Judge a broker that serves while no fault is active."""
        context = self._context
        world, record = context.world, context.record
        self._object("liveness", liveness.overdue(record, world.now_ns, self._healed_ns))
        await look_again(context)
        wire = Wire(world, context.network, KAFKA_PORT, "prover", record)
        topics = topics_of(context).values()
        now_ms = context.clock.now_ms
        proof = await liveness.prove(world, wire, topics, now_ms, context.damaged)
        wire.close()
        self._object("liveness", proof.found)
        self._logs = await read_back(context)
        self._object("liveness", proof.unread(self._logs))
        life = context.life
        for _ in range(REST_TRIES):
            await world.sleep_ms(REST_MS)
            if life is None or not resources.waits_for_members(life.broker):
                break
        if life is None or life is not context.life or self._sampler is None:
            self._object("liveness", ["the broker is not there"])
            return
        found = resources.at_rest(life.broker, self._sampler.known_tasks, life.loop)
        self._object("resources", found)

    def stopped(self, life: Life, end: End) -> None:
        """Judge the stop, and the files of a broker that has stopped."""
        context = self._context
        took_ms = (context.world.now_ns - life.told_to_stop_ns) / MS
        deadline_ms = context.loaded.config.barnabas_shutdown_deadline_ms
        found = liveness.stopped(end.how, end.code, took_ms, deadline_ms, self._messages)
        self._object("liveness", found)
        self._before, self._said_before = files.look(context.disk, DATA), self._messages
        sound = files.verified(
            context.disk, DATA, context.damaged, has_lost_indexes=context.has_lost_files
        )
        self._object("files", sound)
        self._object("files", files.kept(context.disk, DATA, _bytes_min(context)))
        if files.must_dump(context.plan.seed) and not context.has_lost_files:
            with tempfile.TemporaryDirectory() as place:
                found = files.dumped(context.disk, DATA, Path(place), context.damaged)
            self._object("files", found)

    def second_start(self) -> None:
        """Judge what a second start and stop have changed, and said."""
        context = self._context
        if self._before is None:
            return
        after = files.look(context.disk, DATA)
        self._object("files", files.same(self._before, after, context.damaged))
        if not context.damaged:
            self._object("files", files.silent(self._messages, self._said_before))

    async def reads_only(self) -> None:
        """Judge a broker that serves the directory and may change nothing."""
        context = self._context
        wire = Wire(context.world, context.network, KAFKA_PORT, "prover", context.record)
        is_healthy = not context.damaged
        if is_healthy:
            self._object("liveness", await liveness.groups_answer(context.world, wire))
        wire.close()
        logs = await read_back(context, "reader of a still")
        lasting = {
            topic.key(number)
            for topic in topics_of(context).values()
            if not topic.is_trimmed and not topic.is_compacted
            for number in range(topic.partition_count)
        }
        known = self._logs or {}
        changed = sorted(key for key in lasting if logs.get(key) != known.get(key))
        if is_healthy and changed:
            self._object("history", [f"served for reading only, {changed} are others"])

    def has_read_only(self, end: End, before: Mapping[str, bytes]) -> None:
        """Judge the stop of that broker, and the files it leaves."""
        if (end.how, end.code) != ("stopped", 0):
            self._object("liveness", [f"served for reading only, it {end.how}: {end.code}"])
        after = files.contents(self._context.disk, DATA)
        changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
        if changed:
            self._object("files", [f"a broker that only reads has changed {changed}"])

    # -- The verdict --------------------------------------------------------------------------

    def verdict(self) -> list[str]:
        """Judge the whole history; return all objections."""
        context = self._context
        self._object("groups", groups.of_history(context))
        self._object("liveness", self._unwoken())
        self._object("isolation", isolation.judge(context.record.refusals, self._harm))
        self._object("isolation", isolation.connections(context.record.ended, self._served))
        self._object("quiet", self._quiet.judge(context.injected, context.disk.violations))
        if self._logs is not None:
            self._object("history", self._judge_history(self._logs))
        else:
            self._object("record", context.record.failures)
        return self._found

    def _unwoken(self) -> list[str]:
        """Judge long polls, where nothing else may have taken its time."""
        context = self._context
        shape, network = context.plan.shape, context.plan.shape.network
        if context.injected - {quiet.ACCEPT, quiet.HURRY} or shape.fsync_ns > QUICK_FSYNC_NS:
            return []
        bound_ms = WOKEN_MS + (STALLS_MAX * network.stall_ms if network.stall_chance else 0)
        lossy = {
            topic.key(number)
            for topic in topics_of(context).values()
            if topic.is_trimmed or topic.is_compacted or topic.may_be_gone or topic.is_volatile
            for number in range(topic.partition_count)
        }
        return liveness.unwoken(context.record, bound_ms, lossy)

    def _judge_history(self, logs: dict[Key, ReadLog]) -> list[str]:
        context = self._context
        flips: dict[Key, list[Flipped]] = {}
        for flip in context.flips:
            parsed = filenames.parse(flip.partition)
            if parsed is None:
                continue
            for key in logs:
                if key[0].partition(":")[0] == parsed.topic and key[1] == parsed.partition:
                    flips.setdefault(key, []).append(Flipped(flip.base_offset, flip.next_offset))
        topics = topics_of(context).values()
        starts = {
            topic.key(number): 0
            for topic in topics
            if not topic.is_trimmed and not topic.is_compacted
            for number in range(topic.partition_count)
        }
        finals = {key: WholeLog(log.start_offset, log.batches) for key, log in logs.items()}
        starts |= context.record.ageless
        return history.judge(context.record, finals, flips=flips, start_max=starts)


def _per_address(context: Context) -> dict[str, int]:
    """Return how many connections the local address may have, unless somebody changes that."""
    limit = context.plan.settings.get(PER_ADDRESS, "")
    if not limit or any(client.kind == "config admin" for client in context.plan.clients):
        return {}
    return {"127.0.0.1": int(limit.rpartition(":")[2])}


def _bytes_min(context: Context) -> dict[str, int]:
    """Return what is left of each log that retention by size deletes, if nothing else may."""
    if context.power_cuts_ns or context.injected & BAD_DISK:
        return {}
    return {
        f"{topic.name}-{number}": int(topic.configs["retention.bytes"])
        for topic in topics_of(context).values()
        if topic.is_sized
        for number in range(topic.partition_count)
    }
