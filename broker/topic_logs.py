"""Open the logs of topics once their partitions are durable; drop them once a removal is.

Both work on files, so they run in threads, `LOGS_PER_JOB` logs in one job, while the life of the
topic is locked. Clients find open logs in `Partitions`. A log that cannot be opened makes its
partition offline, and is tried again. A removed topic first leaves `Partitions`, and requests that
wait for its partitions are answered.

An offline partition answers KAFKA_STORAGE_ERROR to everything, as in Kafka with an offline log
directory: its records, its end and its offsets are what the disk still holds, whatever that is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack

from broker.metadata.controller import Controller
from broker.metadata.image import TopicInfo
from broker.metadata.topic_life import TopicEvent, TopicLife, TopicState
from broker.partitions.append_queue import AppendQueue
from broker.partitions.group_commit import GroupCommit
from broker.partitions.partition import Partitions
from broker.partitions.purgatory import Purgatory
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.turns import InTurns
from protocol.errors import ErrorCode
from storage.errors import LogFailed, UnknownPartition
from storage.log import Log
from storage.log_manager import LogManager
from storage.opening.log_opening import Attempt, Opening, Wanted

logger = logging.getLogger("barnabas.topics")

TAKEN_OUT_PER_TURN = 500  # deleted partitions: some µs each, more if requests wait
LOGS_PER_JOB = 32  # opened or dropped by one call of the pool: some 100 µs of Python each


class TopicLogs:
    """Opens and drops the logs of topics."""

    def __init__(
        self,
        controller: Controller,
        logs: LogManager,
        partitions: Partitions,
        commit: GroupCommit,
        appends: AppendQueue,
        purgatory: Purgatory,
        pool: BlockingPool,
    ) -> None:
        self._controller = controller
        self._logs = logs
        self._partitions = partitions
        self._commit = commit
        self._appends = appends
        self._purgatory = purgatory
        self._pool = pool
        # Called with a log that is opened after the start, before clients find it.
        self.opened: Callable[[Log], None] = Log.settle_replayed

    def open_all(self) -> None:
        """Open the log of every partition that we lead: at start, before the broker listens.

        The logs keep the markers that their opening has found (`Log.take_replayed_markers`).
        """
        for life in self._controller.lives:
            life.known_count = life.durable_count = len(life.topic.partitions)
            self._take(life, self._logs.open_logs(self._wanted(life)))
            life.move(TopicEvent.OPENED)

    def _wanted(self, life: TopicLife) -> list[Wanted]:
        """Return the logs of `life` to open: durable, led by us, and not open."""
        if not life.is_serving:
            return []
        topic = life.topic
        config = self._controller.topic_configs.of(topic)
        return [
            Wanted(
                topic.name,
                info.partition,
                topic.topic_id,
                config,
                info.leader_epoch,
                create=True,
                is_fresh=info.partition >= life.known_count,
            )
            for info in topic.partitions[: life.durable_count]
            if info.partition not in life.opened and self._controller.leads(topic, info.partition)
        ]

    async def open(self, lives: Iterable[TopicLife]) -> list[TopicLife]:
        """Open the logs that are missing of `lives`, and bring them online.

        Returns the lives of which a log was opened.
        """
        by_id = {life.topic.topic_id: life for life in lives}
        async with AsyncExitStack() as locks:
            for topic_id in sorted(by_id):  # in one order: no deadlock
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
                    for attempt in own:
                        if attempt.log is not None:
                            self.opened(attempt.log)
                    if self._take(by_id[topic_id], own):
                        opened.add(topic_id)
            serving = [life for life in by_id.values() if life.is_serving]
            for life in serving:
                is_whole = life.durable_count == len(life.topic.partitions)
                if is_whole and life.state is not TopicState.ONLINE:
                    life.move(TopicEvent.OPENED)
        return [life for life in serving if life.topic.topic_id in opened]

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
        """Publish opened logs and offline partitions; return whether a log was opened."""
        topic = life.topic
        config = self._controller.topic_configs.of(topic)
        any_opened = False
        for attempt in attempts:
            number = attempt.wanted.partition
            if attempt.log is not None:
                life.opened.add(number)
                if attempt.log.config != config:
                    attempt.log.update_config(config)  # changed while it was opened
                if life.is_serving:
                    self._publish(attempt.log)
                    any_opened = True
            elif life.is_serving:
                failure = LogFailed(f"{topic.name}-{number}", f"cannot be opened: {attempt.error}")
                if self._partitions.set_offline(topic.name, number, failure):
                    logger.error(
                        "%(error)s. It is offline until it can be opened. Check the disk%(advice)s",
                        {
                            "error": failure,
                            "advice": ", then restart the broker."
                            if self._logs.home.is_read_only
                            else ": the broker tries again every second.",
                        },
                    )
        return any_opened

    def _publish(self, log: Log) -> None:
        if self._partitions.is_offline(log.topic, log.partition):
            logger.warning(
                "%(topic)s-%(partition)d was offline and is open now: offsets %(start_offset)d to"
                " %(end_offset)d",
                {
                    "topic": log.topic,
                    "partition": log.partition,
                    "start_offset": log.start_offset,
                    "end_offset": log.end_offset,
                },
            )
        self._partitions.add(log)

    async def take_out(self, topic: TopicInfo) -> None:
        """Remove the partitions from sight, and answer the requests that wait for them."""
        name = topic.name
        async for info in InTurns(topic.partitions, TAKEN_OUT_PER_TURN):
            partition = self._partitions.remove(name, info.partition)
            if partition is not None:
                self._appends.drop(partition, UnknownPartition(name, info.partition))
                self._commit.drop(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                self._purgatory.release_all(partition)

    async def drop(self, life: TopicLife) -> None:
        """Close and rename the logs of a topic whose removal is durable."""
        topic = life.topic
        async with life.logs_lock:
            numbers = [info.partition for info in topic.partitions]
            config = self._controller.topic_configs.of(topic)
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
                        "deleted topic %(topic)s, but some of its files remain: %(error)s",
                        {"topic": topic.name, "error": deletion.error},
                    )
        await self.clear_the_way()

    async def clear_the_way(self) -> None:
        """Set aside directories whose names new topics cannot have until then."""
        clearing = self._logs.in_the_way.begin()
        if clearing is not None:
            try:
                await self._pool.run(clearing.run)
            finally:
                self._logs.in_the_way.finish(clearing, self._logs.now_ms())
