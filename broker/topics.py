"""Create, enlarge and delete topics while the broker runs.

The controller appends the records and returns the end offset of the metadata log to wait for. The
rest, until the topic is online or its name is free (`broker.metadata.topic_life` has the table),
runs in a task of the broker, not of the client's request:

    create, grow    recorded ── durable ── logs opened, in threads ── online ── answer
    delete          recorded, out of sight ── durable ── logs dropped, in threads ── answer

A client waits for the task for a limited time, then gets REQUEST_TIMED_OUT; the task continues
(`broker.metadata_changes`). Configs and all other records work the same way. `broker.topic_logs`
opens and drops the logs.

As in Kafka, a client that is told that a topic exists can rely on it: the broker answers
TOPIC_ALREADY_EXISTS only after the topic is durable, and answers for a name that is being deleted
only after the deletion.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from broker.metadata.controller import ConfigChange, Controller, Created
from broker.metadata.growth import MorePartitions
from broker.metadata.image import TopicInfo
from broker.metadata.metadata_log import encode_batch
from broker.metadata.topic_life import LEAVING, TopicEvent, TopicLife, TopicLives, TopicState
from broker.metadata.topic_plans import Charge, Plan, no_such_topic
from broker.metadata.topic_rules import NewTopic, TopicError
from broker.metadata_changes import MetadataChanges
from broker.partitions.partition import Partitions
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.clock import Clock
from broker.runtime.turns import InTurns
from broker.runtime.turnstile import Turnstile
from broker.topic_logs import TopicLogs
from storage.errors import LogFailed

logger = logging.getLogger("barnabas.topics")

TOPICS_PLANNED_HERE_MAX = 100
TOPICS_PER_TURN = 32
RECORDS_ENCODED_HERE_MAX = 200
NAMES_PER_TURN = 5_000


Results = dict[str, TopicInfo | TopicError]
Charged = Charge | None  # to a quota
Planning = Callable[[Charged], Plan]


class Topics:
    """Creates, finds and deletes topics."""

    def __init__(
        self,
        controller: Controller,
        changes: MetadataChanges,
        topic_logs: TopicLogs,
        partitions: Partitions,
        pool: BlockingPool,
        clock: Clock,
    ) -> None:
        self._controller = controller
        self._changes = changes
        self._topic_logs = topic_logs
        self._partitions = partitions
        self._pool = pool
        self._clock = clock
        self._listeners: list[Callable[[str, TopicInfo | None], None]] = []
        self._planning = asyncio.Lock()  # keeps topics as they are from a plan to its records
        self._telling = Turnstile()  # for each topic, a listener may look at all groups

    def listen(self, listener: Callable[[str, TopicInfo | None], None]) -> None:
        """Call `listener(name, topic)` when one was created or enlarged; None when deleted."""
        self._listeners.append(listener)

    def by_name(self, name: str) -> TopicInfo | None:
        """Return the topic of that name, or None."""
        return self._controller.image.topics.get(name)

    def id_of_name(self, name: str) -> bytes | None:
        """Return the id of the topic that has the name, also if it is being deleted."""
        return life.topic.topic_id if (life := self._controller.lives.of_name(name)) else None

    def by_id(self, topic_id: bytes) -> TopicInfo | None:
        """Return the topic of that id, or None."""
        return self._controller.image.topics_by_id.get(topic_id)

    def all(self) -> list[TopicInfo]:
        """Return every topic."""
        return list(self._controller.image.topics.values())

    @property
    def is_changing(self) -> bool:
        """Whether a change is in progress, even if no client waits for it."""
        return self._changes.is_any

    async def finish(self) -> None:
        """Wait until no change is in progress: for the stop."""
        await self._changes.finish()

    async def open_offline(self) -> None:
        """Try again to open the logs that could not be opened, and to free names."""
        await self._topic_logs.clear_the_way()
        for name in dict.fromkeys(name for name, _ in self._partitions.offline()):
            if (topic := self.by_name(name)) is not None:
                await self._open([self._controller.lives.of(topic)])

    async def _open(self, lives: Iterable[TopicLife]) -> None:
        for life in await self._topic_logs.open(lives):
            await self._telling.passed()
            self._changed(life.topic.name, life.topic)

    def _changed(self, name: str, topic: TopicInfo | None) -> None:
        for listener in self._listeners:
            listener(name, topic)

    # -- Creating -----------------------------------------------------------------------------

    async def validate(self, new_topics: Sequence[NewTopic], charge: Charged = None) -> Results:
        """Return what `create` would return, and create nothing."""
        planned = partial(self._controller.planner.plan_topics, new_topics)
        async with self._planning:
            return (await _planned(self._pool, planned, charge, len(new_topics))).results

    async def create(self, new_topics: Sequence[NewTopic], charge: Charged = None) -> Results:
        """Create topics; return the outcome of each, in the order in which Kafka answers.

        Returns when the created topics are durable and can be produced to, and the existing ones
        are durable. Raises LogFailed, or TopicError if that takes too long or the metadata log
        cannot be made durable.
        """
        planned = partial(self._controller.planner.plan_topics, new_topics)
        created = await self._record(planned, charge, [topic.name for topic in new_topics])
        await self._bring_online(
            created.results, created.end_offset, "created topic %(topic)s with %(partitions)d"
        )
        return created.results

    async def validate_growth(
        self, asked: Sequence[MorePartitions], charge: Charged = None
    ) -> Results:
        """Return what `grow` would return, and change nothing."""
        planned = partial(self._controller.planner.plan_partitions, asked)
        async with self._planning:
            return (await _planned(self._pool, planned, charge, len(asked))).results

    async def grow(self, asked: Sequence[MorePartitions], charge: Charged = None) -> Results:
        """Add partitions to topics; return the outcome of each.

        Returns when the added partitions are durable and can be produced to. Raises as `create`
        does.
        """
        planned = partial(self._controller.planner.plan_partitions, asked)
        grown = await self._record(planned, charge, (), len(asked))
        await self._bring_online(
            grown.results, grown.end_offset, "topic %(topic)s has %(partitions)d"
        )
        return grown.results

    async def _record(
        self, planned: Planning, charge: Charged, new_names: Collection[str], grown_count: int = 0
    ) -> Created:
        """Plan and record; threads plan many topics, and encode many records.

        A plan reads nothing that changes while the lock is held. It is made when topics with the
        `new_names` are neither being created nor deleted; raises TopicError if that takes too long.
        """
        while True:
            await self._changes.until_done(await _undecided_of(self._controller.lives, new_names))
            async with self._planning:
                if await _undecided_of(self._controller.lives, new_names):
                    continue  # begun while this waited for the lock
                plan = await _planned(self._pool, planned, charge, len(new_names) + grown_count)
                now_ms = self._clock.now_ms()
                batch = None
                if len(plan.records) > RECORDS_ENCODED_HERE_MAX:
                    batch = await self._pool.run(partial(encode_batch, plan.records, now_ms))
                return self._controller.record(plan, now_ms, batch)

    async def _bring_online(
        self, results: dict[str, TopicInfo | TopicError], end_offset: int, news: str
    ) -> None:
        """Open recorded topics once their records are durable, and wait for that."""
        lives = {
            self._controller.lives.of(topic): len(topic.partitions)
            for topic in results.values()
            if isinstance(topic, TopicInfo)
        }
        if lives:
            opening = self._open_when_durable(lives, end_offset, news)
            await self._changes.carry_through(opening, lives)

    async def _open_when_durable(
        self, lives: Mapping[TopicLife, int], end_offset: int, news: str
    ) -> None:
        """Open topics, each with its count of partitions, when their records are durable."""
        await self._durable(end_offset, lives)
        for life, count in lives.items():
            life.durable_count = max(life.durable_count, count)
        each = list(lives.items())
        for start in range(0, len(each), TOPICS_PER_TURN):
            some = dict(each[start : start + TOPICS_PER_TURN])
            await self._open(some)
            for life, count in some.items():
                logger.info(news + " %(unit)s", _fields(life.topic.name, count))

    # -- Deleting -----------------------------------------------------------------------------

    async def delete(self, name: str, topic_id: bytes | None = None) -> None:
        """Delete a topic; return when the deletion is durable and the name is free.

        With `topic_id`, another topic that has the name by then stays. Raises TopicError if there
        is no such topic, and as `create` does.
        """
        async with self._planning:  # no plan relies on the topic, or on its absence
            if topic_id is not None and self.by_id(topic_id) is None:
                raise no_such_topic()
            topic, end_offset = self._controller.delete_topic(name, self._clock.now_ms())
        life = self._controller.lives.of(topic)
        await self._changes.carry_through(self._drop(life, end_offset), [life])

    async def _drop(self, life: TopicLife, end_offset: int) -> None:
        """Close and rename the logs of a topic once its removal is durable."""
        await self._topic_logs.take_out(life.topic)
        await self._durable(end_offset, [life])
        life.move(TopicEvent.GONE)
        await self._topic_logs.drop(life)
        await self._telling.passed()
        life.move(TopicEvent.DROPPED)
        self._controller.forget(life)
        self._changed(life.topic.name, None)
        told = _fields(life.topic.name, len(life.topic.partitions))
        logger.info("deleted topic %(topic)s with %(partitions)d %(unit)s", told)

    # -- Other records ------------------------------------------------------------------------

    async def record_configs(
        self, changes: Sequence[ConfigChange], apply: Callable[[], Awaitable[None]]
    ) -> None:
        """Record changes of configs, and call `apply` when they are durable; see `record`.

        Raises as `create` does; `apply` is still called, unless the metadata log has failed.
        """
        end_offset = self._controller.set_configs(changes, self._clock.now_ms())
        await self._changes.carry_through(self._changes.durable(end_offset, apply))

    async def next_producer_ids(self) -> range:
        """Return a block of producer ids that is recorded and durable."""
        block = self._controller.next_producer_id_block(self._clock.now_ms())
        await self._changes.carry_through(self._changes.durable(block.end_offset))
        return range(block.start, block.start + block.count)

    async def record(
        self,
        records: Sequence[Any],
        batch: bytearray | None = None,
        apply: Callable[[], Awaitable[None] | None] | None = None,
        take: Callable[[], None] | None = None,
    ) -> None:
        """Write `records` to the metadata log, and return when they are durable.

        They are written and applied to the image before this first waits. `batch` is what
        `encode_batch` made of them, and `take` changes the image as they say, faster than each by
        itself. `apply` is called when they are durable, even if no client waits, and may go on in
        turns. For changes of the image alone: no log is made, opened or dropped. Without records,
        it waits for earlier ones. Raises LogFailed, or TopicError if they cannot be made durable.
        """
        log = self._controller.metadata_log
        if records:
            log.append(records, self._clock.now_ms(), batch, apply=take)
        await self._changes.carry_through(self._changes.durable(log.end_offset, apply))

    async def _durable(self, end_offset: int, lives: Iterable[TopicLife]) -> None:
        """Wait until the records of `lives` are durable. Raises TopicError: they are undecided."""
        try:
            await self._changes.durable(end_offset)
        except TopicError:
            for life in lives:
                self._undecided(life)
            raise

    def _undecided(self, life: TopicLife) -> None:
        """Answer KAFKA_STORAGE_ERROR for topics whose fate only the next start can tell."""
        life.move(TopicEvent.FAILED)
        reason = "the metadata log failed before this was durable: check the disk, then restart"
        for number in (info.partition for info in life.topic.partitions):
            with_name = f"{life.topic.name}-{number}"
            if number not in life.opened or self.by_id(life.topic.topic_id) is None:
                self._partitions.set_offline(life.topic.name, number, LogFailed(with_name, reason))
        logger.error("topic %(topic)s: %(reason)s", {"topic": life.topic.name, "reason": reason})


async def _planned(
    pool: BlockingPool, planned: Planning, charge: Charged, topic_count: int
) -> Plan:
    """Plan, many topics in a thread, and count the plan against a quota; with the lock."""
    if charge is not None:
        charge.begin()
    if topic_count > TOPICS_PLANNED_HERE_MAX:
        plan = await pool.run(partial(planned, charge))
    else:
        plan = planned(charge)
    if charge is not None:
        charge.settle()
    return plan


async def _undecided_of(lives: TopicLives, names: Iterable[str]) -> set[asyncio.Task[Any]]:
    """Return the changes under way of topics with these names that are created or deleted.

    While the lock is held none begins, so what was looked up in an earlier turn stays true.
    """
    found: set[asyncio.Task[Any]] = set()
    async for name in InTurns(names, NAMES_PER_TURN):
        life = lives.of_name(name)
        if life is not None and (life.state in LEAVING or life.state is TopicState.CREATING):
            found |= life.changes
    return found


def _fields(topic: str, partitions: int) -> dict[str, object]:
    unit = "partition" if partitions == 1 else "partitions"
    return {"topic": topic, "partitions": partitions, "unit": unit}
