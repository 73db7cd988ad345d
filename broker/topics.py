"""Topics as they come and go while the broker runs: the controller's decisions, carried through.

The controller appends records and says which end offset of the metadata log to wait for. What
follows, until the topic is online or its name is free (`broker.metadata.topic_life` has the table),
is a task of the broker's, not of the client's request:

    create, grow    recorded ── durable ── logs opened, in threads ── online ── answer
    delete          recorded, out of sight ── durable ── logs dropped, in threads ── answer

A client waits for the task for `METADATA_TIMEOUT_MS`, and is told REQUEST_TIMED_OUT then. The task
goes on: late is not failed (design.md, I15). The same holds for configs and for every other record:
what is to follow from them follows when they are durable, whoever still waits.

As in Kafka, whoever is told that a topic exists can rely on it: the answer TOPIC_ALREADY_EXISTS
waits until the topic is durable, and a name that is being deleted until that is done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from broker.metadata.controller import ConfigChange, Controller, Created
from broker.metadata.growth import MorePartitions
from broker.metadata.image import TopicInfo
from broker.metadata.metadata_log import encode_batch
from broker.metadata.topic_life import LEAVING, TopicEvent, TopicLife, TopicState
from broker.metadata.topic_plans import Plan
from broker.metadata.topic_rules import NewTopic, TopicError
from broker.partitions.append_queue import AppendQueue
from broker.partitions.group_commit import GroupCommit
from broker.partitions.partition import Partition, Partitions
from broker.partitions.purgatory import Purgatory
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.clock import Clock
from broker.runtime.owners import Owner, spawn
from config.topic import TopicConfig
from protocol.errors import ErrorCode
from storage.errors import LogFailed, StorageError, UnknownPartition
from storage.log_manager import LogManager
from storage.opening.log_opening import Attempt, Opening, Wanted

logger = logging.getLogger("barnabas.topics")

# How long a client waits for an administrative change.
METADATA_TIMEOUT_MS = 30_000
NEVER_MS = 1 << 40  # the broker itself waits for its metadata log as long as it takes
TOPICS_PLANNED_HERE_MAX = 100
TOPICS_PER_TURN = 32
TAKEN_OUT_PER_TURN = 500  # partitions that are deleted: some µs each, more if somebody waits
RECORDS_ENCODED_HERE_MAX = 200
LOGS_PER_JOB = 32  # opened or dropped by one call of the pool: some 100 µs of Python each

Change = asyncio.Task[TopicError | StorageError | None]


class Topics:
    """Creates, finds and deletes topics."""

    def __init__(
        self,
        controller: Controller,
        logs: LogManager,
        partitions: Partitions,
        metadata_partition: Partition,
        commit: GroupCommit,
        appends: AppendQueue,
        purgatory: Purgatory,
        pool: BlockingPool,
        clock: Clock,
    ) -> None:
        self._controller = controller
        self._logs = logs
        self._partitions = partitions
        self._metadata_partition = metadata_partition
        self._commit = commit
        self._appends = appends
        self._purgatory = purgatory
        self._pool = pool
        self._clock = clock
        self._listeners: list[Callable[[str, TopicInfo | None], None]] = []
        self._changes: set[Change] = set()
        self._planning = asyncio.Lock()  # from a plan to its records, no topic comes or goes

    def listen(self, listener: Callable[[str, TopicInfo | None], None]) -> None:
        """Call `listener(name, topic)` when one was created or enlarged; None when deleted."""
        self._listeners.append(listener)

    def by_name(self, name: str) -> TopicInfo | None:
        """Return the topic of that name, or None."""
        return self._controller.image.topics.get(name)

    def by_id(self, topic_id: bytes) -> TopicInfo | None:
        """Return the topic of that id, or None."""
        return self._controller.image.topics_by_id.get(topic_id)

    def all(self) -> list[TopicInfo]:
        """Return every topic."""
        return list(self._controller.image.topics.values())

    def config_of(self, topic: TopicInfo) -> TopicConfig:
        """Return the broker's defaults with the topic's own values over them."""
        return self._controller.topic_configs.of(topic)

    @property
    def is_changing(self) -> bool:
        """Whether a change is under way, whoever waits for it."""
        return bool(self._changes)

    async def finish(self) -> None:
        """Wait until no change is under way: for the stop."""
        while self._changes:
            await asyncio.wait(self._changes)

    # -- Opening ------------------------------------------------------------------------------

    def open_all(self) -> None:
        """Open the log of every partition that we lead: at start, before anyone is served."""
        for life in self._controller.lives:
            life.durable_count = len(life.topic.partitions)
            self._take(life, self._logs.open_logs(self._wanted(life)))
            life.move(TopicEvent.OPENED)

    async def open_offline(self) -> None:
        """Try again to open the logs that could not be opened."""
        for name in dict.fromkeys(name for name, _ in self._partitions.offline()):
            topic = self.by_name(name)
            if topic is not None:
                await self._open([self._controller.lives.of(topic)])

    def _wanted(self, life: TopicLife) -> list[Wanted]:
        """Say which logs of `life` are to be opened: durable, led by us, and not open."""
        if not life.is_serving:
            return []
        topic = life.topic
        config = self.config_of(topic)
        return [
            Wanted(topic.name, info.partition, topic.topic_id, config, info.leader_epoch, True)  # noqa: FBT003
            for info in topic.partitions[: life.durable_count]
            if info.partition not in life.opened and self._controller.leads(topic, info.partition)
        ]

    async def _open(self, lives: Iterable[TopicLife]) -> None:
        """Open what is to be opened of `lives`, many logs a job; then they are online."""
        by_id = {life.topic.topic_id: life for life in lives}
        async with AsyncExitStack() as locks:
            for topic_id in sorted(by_id):  # in one order, lest two wait for each other
                await locks.enter_async_context(by_id[topic_id].logs_lock)
            wanted = [one for life in by_id.values() for one in self._wanted(life)]
            opened: set[bytes] = set()
            for start in range(0, len(wanted), LOGS_PER_JOB):
                attempts = await self._open_some(
                    [
                        one
                        for one in wanted[start : start + LOGS_PER_JOB]
                        if by_id[one.topic_id].is_serving  # it may be removed between two jobs
                    ]
                )
                for topic_id in dict.fromkeys(attempt.wanted.topic_id for attempt in attempts):
                    own = [one for one in attempts if one.wanted.topic_id == topic_id]
                    if self._take(by_id[topic_id], own):
                        opened.add(topic_id)
            for topic_id, life in by_id.items():
                if not life.is_serving:
                    continue
                is_whole = life.durable_count == len(life.topic.partitions)
                if is_whole and life.state is not TopicState.ONLINE:
                    life.move(TopicEvent.OPENED)
                if topic_id in opened:
                    self._changed(life.topic.name, life.topic)

    async def _open_some(self, wanted: Sequence[Wanted]) -> Sequence[Attempt]:
        opening = self._logs.begin_open(wanted)
        try:
            await self._pool.run(opening.look)
            await self._write_checkpoints(opening, self._logs.begin_forget(opening))
            await self._pool.run(opening.make)
        finally:
            write = self._logs.finish_open(opening)
        await self._write_checkpoints(opening, write)
        return opening.attempts

    async def _write_checkpoints(self, opening: Opening, write: Callable[[], None] | None) -> None:
        if write is not None:
            try:
                await self._pool.run(write)
            except OSError as error:
                opening.fail_new(error)

    def _take(self, life: TopicLife, attempts: Iterable[Attempt]) -> bool:
        """Let clients find what was opened, and know what is offline; whether any was opened."""
        topic = life.topic
        config = self.config_of(topic)
        any_opened = False
        for attempt in attempts:
            number = attempt.wanted.partition
            if attempt.log is not None:
                life.opened.add(number)
                if attempt.log.config != config:
                    attempt.log.update_config(config)  # changed while it was opened
                if life.is_serving:
                    self._partitions.add(attempt.log)
                    any_opened = True
            elif life.is_serving:
                failure = LogFailed(f"{topic.name}-{number}", f"cannot be opened: {attempt.error}")
                if self._partitions.set_offline(topic.name, number, failure):
                    logger.error("%s. It is offline until it can be opened.", failure)
        return any_opened

    def _changed(self, name: str, topic: TopicInfo | None) -> None:
        for listener in self._listeners:
            listener(name, topic)

    # -- Creating -----------------------------------------------------------------------------

    def validate(self, new_topics: Sequence[NewTopic]) -> dict[str, TopicInfo | TopicError]:
        """Return what `create` would say, and create nothing."""
        return self._controller.planner.plan_topics(new_topics).results

    async def create(self, new_topics: Sequence[NewTopic]) -> dict[str, TopicInfo | TopicError]:
        """Create topics, each with an outcome of its own, in the order in which Kafka answers.

        Returns when those created are durable and can be produced to, and those that exist are
        durable. Raises LogFailed, or TopicError if that takes too long, or the metadata log cannot
        be made durable.
        """
        await self._settled(topic.name for topic in new_topics)
        planned = partial(self._controller.planner.plan_topics, new_topics)
        created = await self._record(planned, len(new_topics))
        await self._bring_online(created.results, created.end_offset, "created topic %s with %d")
        return created.results

    def validate_growth(self, asked: Sequence[MorePartitions]) -> dict[str, TopicInfo | TopicError]:
        """Return what `grow` would say, and change nothing."""
        return self._controller.planner.plan_partitions(asked).results

    async def grow(self, asked: Sequence[MorePartitions]) -> dict[str, TopicInfo | TopicError]:
        """Add partitions to topics, each with an outcome of its own.

        Returns when those added are durable and can be produced to. Raises as `create` does.
        """
        grown = await self._record(
            partial(self._controller.planner.plan_partitions, asked), len(asked)
        )
        await self._bring_online(grown.results, grown.end_offset, "topic %s has %d")
        return grown.results

    async def _record(self, planned: Callable[[], Plan], topic_count: int) -> Created:
        """Plan and record; threads plan many topics, and encode many records.

        A plan reads nothing that changes while the lock is held.
        """
        async with self._planning:
            many = topic_count > TOPICS_PLANNED_HERE_MAX
            plan = await self._pool.run(planned) if many else planned()
            now_ms = self._clock.now_ms()
            batch = None
            if len(plan.records) > RECORDS_ENCODED_HERE_MAX:
                batch = await self._pool.run(partial(encode_batch, plan.records, now_ms))
            return self._controller.record(plan, now_ms, batch)

    async def _settled(self, names: Iterable[str]) -> None:
        """Wait for what is under way with topics of these names. Raises TopicError if too late."""
        lives = [self._controller.lives.of_name(name) for name in names]
        changes = {
            change
            for life in lives
            if life is not None and (life.state in LEAVING or life.state is TopicState.CREATING)
            for change in life.changes
        }
        if changes:
            _, late = await asyncio.wait(changes, timeout=METADATA_TIMEOUT_MS / 1000)
            if late:
                raise _too_late()

    async def _bring_online(
        self, results: dict[str, TopicInfo | TopicError], end_offset: int, news: str
    ) -> None:
        """Have what was recorded of topics opened once it is durable, and wait for that."""
        lives = {
            self._controller.lives.of(topic): len(topic.partitions)
            for topic in results.values()
            if isinstance(topic, TopicInfo)
        }

        async def follow() -> None:
            await self._durable(end_offset, lives)
            for life, count in lives.items():
                life.durable_count = max(life.durable_count, count)
            each = list(lives.items())
            for start in range(0, len(each), TOPICS_PER_TURN):
                some = dict(each[start : start + TOPICS_PER_TURN])
                await self._open(some)
                for life, count in some.items():
                    logger.info(news + " %s", life.topic.name, count, _partitions(count))

        if lives:
            await self._carry_through(follow(), lives)

    # -- Deleting -----------------------------------------------------------------------------

    async def delete(self, name: str) -> None:
        """Delete a topic; return when that is durable and its name is free.

        Raises TopicError if there is none of that name, and as `create` does.
        """
        lives = self._controller.lives
        async with self._planning:  # nobody counts on the topic, or its absence, at this moment
            topic, end_offset = self._controller.delete_topic(name, self._clock.now_ms())
        life = lives.of(topic)
        await self._carry_through(self._drop(life, end_offset), [life])

    async def _take_out(self, topic: TopicInfo) -> None:
        """Let no client find the partitions, and answer everyone who waits for them."""
        name = topic.name
        for info in topic.partitions:
            if info.partition and not info.partition % TAKEN_OUT_PER_TURN:
                await asyncio.sleep(0)
            partition = self._partitions.remove(name, info.partition)
            if partition is not None:
                self._appends.drop(partition, UnknownPartition(name, info.partition))
                self._commit.drop(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                self._purgatory.release_all(partition)

    async def _drop(self, life: TopicLife, end_offset: int) -> None:
        """Close and rename the logs of a topic once its removal is durable."""
        await self._take_out(life.topic)
        await self._durable(end_offset, [life])
        life.move(TopicEvent.GONE)
        topic = life.topic
        async with life.logs_lock:
            numbers = [info.partition for info in topic.partitions]
            config = self.config_of(topic)
            for start in range(0, len(numbers), LOGS_PER_JOB):
                some = numbers[start : start + LOGS_PER_JOB]
                deletion = self._logs.begin_delete(
                    [(topic.name, n) for n in some if n in life.opened],
                    [
                        Wanted(topic.name, n, topic.topic_id, config, leader_epoch=0)
                        for n in some
                        if n not in life.opened and self._controller.leads(topic, n)
                    ],
                )
                await self._pool.run(deletion.run)
                self._logs.finish_delete(deletion)
                if deletion.error is not None:
                    logger.error(
                        "topic %s is deleted, but files of it stay: %s", topic.name, deletion.error
                    )
        life.move(TopicEvent.DROPPED)
        self._controller.forget(life)
        self._changed(topic.name, None)
        count = len(topic.partitions)
        logger.info("deleted topic %s with %d %s", topic.name, count, _partitions(count))

    # -- Other records ------------------------------------------------------------------------

    async def record_configs(
        self, changes: Sequence[ConfigChange], apply: Callable[[], None]
    ) -> None:
        """Record changes of configs, and call `apply` when they are durable.

        Raises as `create` does; `apply` is then still called, unless the metadata log has failed.
        """
        end_offset = self._controller.set_configs(changes, self._clock.now_ms())

        async def follow() -> None:
            await self._durable(end_offset)
            apply()

        await self._carry_through(follow())

    async def next_producer_ids(self) -> range:
        """Return a block of producer ids that is recorded and durable."""
        block = self._controller.next_producer_id_block(self._clock.now_ms())
        await self._carry_through(self._durable(block.end_offset))
        return range(block.start, block.start + block.count)

    async def record(self, records: Sequence[Any]) -> None:
        """Write `records` to the metadata log, and return when they are durable.

        For changes that concern the image alone: no log is made, opened or dropped. Raises
        LogFailed, or TopicError if the metadata log cannot be made durable.
        """
        end_offset = self._controller.metadata_log.append(records, self._clock.now_ms())
        await self._carry_through(self._durable(end_offset))

    # -- Carrying through ---------------------------------------------------------------------

    async def _carry_through(
        self, change: Coroutine[Any, Any, None], lives: Iterable[TopicLife] = ()
    ) -> None:
        """Have `change` done, and wait for it for as long as a client does. Raises what it raises.

        Its own task: it is done whatever becomes of who waits here.
        """
        task = spawn(
            Owner.TOPIC_CHANGE, _outcome(change, lives), "change of topics", among=self._changes
        )
        for life in lives:
            life.changes.add(task)
        done, _ = await asyncio.wait([task], timeout=METADATA_TIMEOUT_MS / 1000)
        if not done:
            logger.warning(
                "a change of the metadata takes longer than %d s: its client is told so, and it "
                "goes on",
                METADATA_TIMEOUT_MS // 1000,
            )
            raise _too_late()
        if (error := task.result()) is not None:
            raise error

    async def _durable(self, end_offset: int, lives: Iterable[TopicLife] = ()) -> None:
        """Wait, as long as it takes, until the metadata log is durable up to `end_offset`.

        Raises TopicError if it has failed: then `lives` are undecided.
        """
        code = await self._commit.durable(self._metadata_partition, end_offset, NEVER_MS)
        if code:
            for life in lives:
                self._undecided(life)
            raise TopicError(code, "the metadata log could not be made durable")
        metadata_log = self._controller.metadata_log
        if metadata_log.lacks_room:
            await self._pool.run(metadata_log.keep_room)

    def _undecided(self, life: TopicLife) -> None:
        """Answer KAFKA_STORAGE_ERROR for what only the next start can tell."""
        life.move(TopicEvent.FAILED)
        reason = "the metadata log failed before this was durable: see to the disk, then restart"
        for info in life.topic.partitions:
            number = info.partition
            with_name = f"{life.topic.name}-{number}"
            if number not in life.opened or self.by_id(life.topic.topic_id) is None:
                self._partitions.set_offline(life.topic.name, number, LogFailed(with_name, reason))
        logger.error("topic %s: %s", life.topic.name, reason)


async def _outcome(
    change: Coroutine[Any, Any, None], lives: Iterable[TopicLife]
) -> TopicError | StorageError | None:
    """Return what whoever still waits is to be told; an error is not a failure of the task."""
    task = asyncio.current_task()
    assert task is not None, "it is one"
    try:
        await change
    except (TopicError, StorageError) as error:
        return error
    finally:
        for life in lives:
            life.changes.discard(task)
    return None


def _partitions(count: int) -> str:
    return "partition" if count == 1 else "partitions"


def _too_late() -> TopicError:
    return TopicError(
        ErrorCode.REQUEST_TIMED_OUT,
        "The change is not durable yet, since the disk is slow. It will take effect when it is.",
    )
