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

from broker.metadata.topic_rules import TRANSACTION_TOPIC
from protocol.wire import ZERO_UUID
from storage.files import filenames
from tests.simulation import allowed
from tests.simulation.clients.heirs import inherit
from tests.simulation.clients.in_vain import ask_in_vain
from tests.simulation.clients.read_back import ReadLog, look_again, read_back
from tests.simulation.clients.topics import topics_of
from tests.simulation.clients.wire import Wire
from tests.simulation.context import KAFKA_PORT
from tests.simulation.judges import (
    durable,
    files,
    groups,
    history,
    isolation,
    liveness,
    lives,
    quiet,
    resources,
    restored_groups,
    wakeups,
    written,
)
from tests.simulation.judges.durable import DurableWatch
from tests.simulation.judges.files import Before
from tests.simulation.judges.history import Flipped, WholeLog
from tests.simulation.judges.isolation import Harm, Served
from tests.simulation.judges.quiet import Quiet
from tests.simulation.life import DATA
from tests.simulation.old_logs import reread
from tests.simulation.transaction_panel import TransactionPanel
from tests.simulation.world import MS
from tests.support.history_checker import Key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from broker.partitions.partition import Partition
    from tests.simulation.context import Context
    from tests.simulation.group_events import Event
    from tests.simulation.life import End, Life

LISTED_MAX: Final = 20  # of answers that are not on the disk
LOOK_EVERY: Final = 32  # turns of the loop
LOOK_AT_DISK_EVERY: Final = 8
LOOK_AT_REST_EVERY: Final = 4  # rests of the loop
STOPS_WITHIN_MS: Final = 200  # from the signal to the end of all that only waits
REST_MS: Final = 3_000
REST_TRIES: Final = 5  # groups give a rebalance that long, and sessions end meanwhile
WOKEN_MS: Final = 1_000  # from an acknowledgement to the answer of a fetch that waits
STALLS_MAX: Final = 4  # of the network, meanwhile
OWED_MS: Final = 1_500  # more, for answers that wait for the disk
QUICK_FSYNC_NS: Final = 20 * MS
LATE_STOP: Final = frozenset({quiet.SLOW, quiet.HURRY, quiet.OWED})


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
        self._durable: DurableWatch | None = None
        self._lives = lives.Lives()
        self._turns = self._turns_of_stop = self._rests = 0
        self._has_seen_stop = False
        self._offline: set[tuple[str, int]] = set()  # logs that were not opened at the last turn
        self._messages: list[str] = []  # of the last life
        self._unsettled: set[str] = set()  # logs whose stop has left markers to the next start
        self._healed_ns = 0
        self._full = liveness.Spans()  # when the budget of requests was
        self._before: Before | None = None
        self._logs: dict[Key, ReadLog] | None = None
        self._groups: restored_groups.Notes = {}
        self._found: list[str] = []
        self._transactions = TransactionPanel(context, self._object)

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
        self._stack.enter_context(restored_groups.listening(self._groups))
        self._context.record.told = self._told
        self._context.record.seen = self._seen

    def end(self) -> None:
        """Listen no more."""
        self._stack.close()

    def life_serves(self, life: Life) -> None:
        """Begin to watch a broker that has started."""
        context = self._context
        self._turns = self._turns_of_stop = 0
        self._has_seen_stop = False
        self._serves_since_ns = context.world.now_ns
        life.broker._assembly.network.budget.listen(self._budget_changed)
        self._note_ends(life)
        self._transactions.life_serves(life)
        self._object("history", self._lives.serves(life.broker))
        disk = context.disk
        self._durable = DurableWatch(life.broker, disk.directory(DATA), self._volatile_topics)
        self._look_at_harm(life)
        if not disk.is_faulty:
            self._harm.started_anew(context.world.now_ns, context.damaged)
            disk.healed()
            disk.harmed |= context.damaged

    def _look_at_harm(self, life: Life) -> None:
        """Note whom the disk has failed; a log may not open for a file outside of its directory."""
        harmed = self._context.disk.harmed
        if isolation.NOWHERE in harmed and life.has_served:
            offline = life.broker._assembly.services.partitions.offline()
            harmed = harmed | {filenames.partition_directory(*key) for key in offline}
        self._harm.look(harmed, self._context.world.now_ns)

    def _told(self, event: Event) -> None:
        """Look for what a coordinator has answered."""
        if self._looks_at_disk:
            self._object("groups", written.judge(event, self._context.disk.directory(DATA)))

    def _seen(self, key: Key, end_offset: int) -> None:
        """Look for the records that an answer has told of; not of topics that are made anew."""
        name, number = key
        topic = topics_of(self._context).get(name)
        if topic is not None and not topic.is_volatile and self._looks_at_disk:
            directory = filenames.partition_directory(name, number)
            found = durable.told(self._context.disk.directory(DATA), directory, end_offset)
            self._object("durable", found)

    @property
    def _looks_at_disk(self) -> bool:
        """Whether answers are compared with the disk: one that only reads writes nothing."""
        only_reads = self._context.loaded.config.barnabas_read_only
        return len(self._found) < LISTED_MAX and not only_reads

    def _budget_changed(self, full: bool) -> None:
        (self._full.begin if full else self._full.end)(self._context.world.now_ns)

    def _note_ends(self, life: Life) -> None:
        """Tell the record where logs end; only the first start after a power cut counts."""
        partitions = life.broker._assembly.services.partitions
        self._offline = set(partitions.offline())
        self._context.record.recovered(self._ends(life, partitions.all()))

    def _ends(self, life: Life, partitions: Iterable[Partition]) -> dict[Key, int]:
        """Return where logs end on the disk that were opened just now."""
        topics = topics_of(self._context)
        infos = life.broker._assembly.services.controller.image.topics
        return {
            topics[log.topic].key_of(infos[log.topic].topic_id, log.partition): log.durable_offset
            for log in (partition.log for partition in partitions)
            if log.topic in topics and log.topic in infos
        }

    def _look_at_offline(self, life: Life) -> None:
        """Tell the record where those logs end that have been opened since the start."""
        partitions = life.broker._assembly.services.partitions
        known, self._offline = self._offline, set(partitions.offline())
        opened = known - self._offline
        if opened:
            found = [p for p in partitions.all() if (p.log.topic, p.log.partition) in opened]
            self._context.record.opened(self._ends(life, found))

    def turn(self) -> None:
        """Look at the broker, now and then."""
        self._turns += 1
        if self._context.life is not None and self._context.life.told_to_stop_ns:
            self._look_at_stop(self._context.life)
        if self._offline and self._context.life is not None:
            self._look_at_offline(self._context.life)
        if self._durable is not None and self._turns % LOOK_AT_DISK_EVERY == 0:
            self._durable.look()
        if self._turns % LOOK_EVERY:
            return
        context = self._context
        if self._sampler is None:
            assert context.life is not None
            self._sampler = resources.Sampler(
                context.life.broker,
                context.life.loop,
                per_address_max=allowed.per_address(context),
                now_ns=lambda: context.world.now_ns,
            )
        self._sampler.look()
        self._transactions.look()
        assert context.life is not None
        self._look_at_harm(context.life)

    def rests(self) -> None:
        """Look for lost wake-ups, now and then."""
        self._rests += 1
        life = self._context.life
        if self._rests % LOOK_AT_REST_EVERY == 0 and life is not None and not self._found:
            self._object("liveness", wakeups.lost(life.broker))

    def _look_at_stop(self, life: Life) -> None:
        """Look once at a stop that has had time to begin."""
        self._turns_of_stop += 1
        ms = (self._context.world.now_ns - life.told_to_stop_ns) / MS
        if self._turns_of_stop >= LOOK_EVERY and ms >= STOPS_WITHIN_MS and not self._has_seen_stop:
            self._has_seen_stop = True
            self._object("resources", resources.held_by_a_stop(life.broker))

    def _volatile_topics(self) -> list[str]:
        return [one.name for one in topics_of(self._context).values() if one.is_volatile]

    def life_is_over(self, life: Life) -> None:
        """Stop watching: what is buried next is of no interest."""
        self._quiet.hears = False
        self._full.end(self._context.world.now_ns)
        self._messages = list(self._quiet.messages)
        for judge, watch in (("resources", self._sampler), ("durable", self._durable)):
            self._object(judge, [] if watch is None else watch.found)
        self._sampler = self._durable = None
        self._transactions.life_is_over(life)
        metrics = None
        if life.has_served:
            metrics = life.broker._assembly.services.metrics
            until_ns = life.told_to_stop_ns or self._context.world.now_ns
            self._served.append(Served(self._serves_since_ns, until_ns, metrics))
            self._lives.has_served(life.broker)
            if metrics.fetch_wakeups_lost:
                what = f"{metrics.fetch_wakeups_lost} partitions of sessions slept through news"
                self._object("liveness", [what])
        self._quiet.end_life(metrics)
        self._look_at_harm(life)
        if life.died_between_turns and life.has_served:
            self._groups.update(restored_groups.of_broker(life.broker))
            self._judge_restored()
        elif life.baton.is_dead:
            self._groups.clear()

    def _judge_restored(self) -> None:
        """Compare groups with their log, whose files are as the broker has left them."""
        notes = dict(self._groups)
        self._groups.clear()
        if self._context.loaded.config.barnabas_read_only:
            return  # it cuts what a crash has left in memory only
        if notes and not self._context.injected & allowed.BAD_DISK:
            data = self._context.disk._directory(DATA)
            self._object("groups", restored_groups.judge(notes, data))

    def life_ended(self, end: End) -> None:
        """Judge how a life has ended."""
        self._quiet.hears = True
        context, injected = self._context, self._context.injected
        if not context.loaded.config.barnabas_read_only:
            found = self._lives.ended(
                end.how,
                end.code,
                context.lives[-1].signal_count,
                context.disk.directory(DATA),
                disk_answers=quiet.SLOW not in injected,
            )
            self._object("liveness", found)
        if end.how == "failed":
            self._object("liveness", [f"the broker failed: {end.why}"])
        elif end.how == "refused" and not injected & allowed.BAD_DISK and not self._context.ruin:
            self._object("liveness", [f"the broker refuses to start: {end.why}"])
        elif end.how == "left" and not injected & {quiet.SLOW, quiet.HURRY}:
            self._object("liveness", [f"the broker left by itself with {end.code}"])
        elif end.how == "stopped" and end.code == 0:
            self._context.record.stopped()
            self._judge_restored()
        elif end.how == "stopped" and not injected & (allowed.BAD_DISK | LATE_STOP):
            self._object("liveness", [f"the stop was not clean: exit code {end.code}"])

    # -- The finale ---------------------------------------------------------------------------

    def healed(self) -> None:
        """The faults are over."""
        self._healed_ns = self._context.world.now_ns

    async def finale(self) -> None:
        """Judge a broker that serves while no fault is active."""
        context = self._context
        world, record = context.world, context.record
        if not self._throttles:  # one request after the other
            self._object("liveness", liveness.overdue(record, world.now_ns, self._healed_ns))
        await look_again(context)
        await self._transactions.finale()
        wire = Wire(world, context.network, KAFKA_PORT, "prover", record)
        topics = topics_of(context).values()
        now_ms = context.clock.now_ms
        proof = await liveness.prove(world, wire, topics, now_ms, context.damaged)
        wire.close()
        self._object("liveness", proof.found)
        self._logs = await read_back(context)
        self._object("history", await reread(context))
        began_ns = max(context.ends_ns, default=0)  # the life that serves now
        going = liveness.open_deletions(record.group_events, began_ns)
        self._object("liveness", proof.unread(self._logs, going))
        if not any(name.startswith("__consumer_offsets") for name in context.damaged):
            self._object("groups", await inherit(context))
        life = context.life
        for _ in range(REST_TRIES):
            await world.sleep_ms(REST_MS)
            if life is None or not resources.is_busy_by_itself(life.broker):
                break
        if life is None or life is not context.life or self._sampler is None:
            self._object("liveness", ["the broker is not there"])
            return
        found = resources.at_rest(life.broker, self._sampler.known_tasks, life.loop)
        self._object("resources", found)
        self._object("history", list(lives.in_effect(life.broker)))

    def stopped(self, life: Life, end: End) -> None:
        """Judge the stop, and the files of a broker that has stopped."""
        context = self._context
        took_ms = (context.world.now_ns - life.told_to_stop_ns) / MS
        deadline_ms = context.loaded.config.barnabas_shutdown_deadline_ms
        if not self._has_lost_ids():
            found = liveness.stopped(end.how, end.code, took_ms, deadline_ms, self._messages)
            self._object("liveness", found)
        self._before = files.look(context.disk, DATA)
        self._unsettled = allowed.unsettled(self._messages)
        sound = files.verified(
            context.disk,
            DATA,
            context.damaged,
            has_lost_indexes=context.has_lost_files,
            spoilt=context.spoilt,
        )
        self._object("files", sound)
        self._object("files", files.kept(context.disk, DATA, allowed.bytes_min(context)))
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
        # Recovery points behind such markers may move when the broker looks at these again.
        excused = context.damaged | ({"", *self._unsettled} if self._has_lost_ids() else set())
        self._object("files", files.same(self._before, after, excused))
        if not context.damaged:
            self._object("files", files.silent(self._messages))

    def _has_lost_ids(self) -> bool:
        """Whether markers may be left whose ids are in records that cannot be read any more."""
        return any(name.startswith(TRANSACTION_TOPIC) for name in self._context.damaged)

    async def reads_only(self) -> None:
        """Judge a broker that serves the directory and may change nothing."""
        context = self._context
        wire = Wire(context.world, context.network, KAFKA_PORT, "prover", context.record)
        is_healthy = not context.damaged
        if is_healthy:
            self._object("liveness", await liveness.groups_answer(context.world, wire))
        wire.close()
        self._object("isolation", await ask_in_vain(context))
        if is_healthy:
            self._object("history", await reread(context, "antiquary of a still"))
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
        self._transactions.verdict()
        self._object("groups", groups.of_history(context))
        self._object("liveness", self._unwoken())
        self._object("isolation", isolation.judge(context.record.refusals, self._harm))
        self._object("isolation", isolation.connections(context.record.ended, self._served))
        self._object("durable", context.disk.order.found)
        self._object("quiet", self._quiet.judge(context.injected, context.disk.violations))
        if self._logs is not None:
            self._object("history", self._judge_history(self._logs))
        else:
            self._object("record", context.record.failures)
        return self._found

    @property
    def _throttles(self) -> bool:
        """Whether clients have quotas in this history."""
        return any(client.kind == "quota changer" for client in self._context.plan.clients)

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
        found = liveness.unwoken(context.record, bound_ms, lossy, self._full)
        if not self._throttles:
            found += liveness.owed(context.record, bound_ms + OWED_MS, self._full)
        return found

    def _judge_history(self, logs: dict[Key, ReadLog]) -> list[str]:
        context = self._context
        flips: dict[Key, list[Flipped]] = {}
        for flip in context.flips:
            parsed = filenames.parse(flip.partition)
            topic = None if parsed is None else topics_of(context).get(parsed.topic)
            if parsed is not None and topic is not None:
                has_id = flip.topic_id != ZERO_UUID
                topic_id = flip.topic_id if has_id else topic.topic_id
                key = topic.key_of(topic_id, parsed.partition)
                batch = flip.batch
                found = Flipped(batch.base_offset, batch.next_offset, batch.records)
                flips.setdefault(key, []).append(found)
        for key, log in logs.items():
            flips.setdefault(key, []).extend(
                Flipped(begin, end) for begin, end in log.hidden if begin < end
            )
        topics = topics_of(context).values()
        starts = {
            topic.key(number): 0
            for topic in topics
            if not topic.is_trimmed and not topic.is_compacted
            for number in range(topic.partition_count)
        }
        starts |= allowed.trimmed_to(context)
        finals = {key: WholeLog(log.start_offset, log.batches) for key, log in logs.items()}
        starts |= {
            key: offset
            for key, offset in context.record.ageless.items()
            if not any(one.base_offset <= offset < one.next_offset for one in flips.get(key, ()))
        }

        def had_failed(key: Key, at_ns: int) -> bool:
            name = filenames.partition_directory(key[0].partition(":")[0], key[1])
            return self._harm.explains(name, at_ns)

        if not context.injected - {quiet.ACCEPT, quiet.HURRY} and not context.power_cuts_ns:
            kept = allowed.kept_keys(context)
            self._object("history", history.parted(context.record, finals, kept))
        return history.judge(
            context.record, finals, flips=flips, start_max=starts, had_failed=had_failed
        )
