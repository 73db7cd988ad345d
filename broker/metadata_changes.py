"""Changes of the metadata on their way: carried through once begun, whoever still waits for them.

A change is a record in the metadata log and what follows when that is durable. It is a task of the
broker's, not of the client's request: a client waits `METADATA_TIMEOUT_MS` for it and is told
REQUEST_TIMED_OUT then, and the task goes on. Late is not failed (design.md, I15).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import Any

from broker.metadata.metadata_log import MetadataLog
from broker.metadata.topic_life import TopicLife
from broker.metadata.topic_rules import TopicError
from broker.partitions.group_commit import GroupCommit
from broker.partitions.partition import Partition
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.owners import Owner, spawn
from protocol.errors import ErrorCode
from storage.errors import StorageError

logger = logging.getLogger("barnabas.topics")

# How long a client waits for an administrative change.
METADATA_TIMEOUT_MS = 30_000
NEVER_MS = 1 << 40  # the broker itself waits for its metadata log as long as it takes

Change = asyncio.Task[TopicError | StorageError | None]


class MetadataChanges:
    """The changes that are under way, and the log that they wait for."""

    def __init__(
        self,
        metadata_log: MetadataLog,
        metadata_partition: Partition,
        commit: GroupCommit,
        pool: BlockingPool,
    ) -> None:
        self._metadata_log = metadata_log
        self._metadata_partition = metadata_partition
        self._commit = commit
        self._pool = pool
        self._changes: set[Change] = set()

    @property
    def is_any(self) -> bool:
        """Whether a change is under way, whoever waits for it."""
        return bool(self._changes)

    async def finish(self) -> None:
        """Wait until no change is under way: for the stop."""
        while self._changes:
            await asyncio.wait(self._changes)

    async def carry_through(
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
            raise too_late()
        if (error := task.result()) is not None:
            raise error

    async def until_done(self, changes: Iterable[asyncio.Task[Any]]) -> None:
        """Wait for changes that others began. Raises TopicError if that takes too long."""
        under_way = set(changes)
        if under_way:
            _, late = await asyncio.wait(under_way, timeout=METADATA_TIMEOUT_MS / 1000)
            if late:
                raise too_late()

    async def durable(self, end_offset: int) -> None:
        """Wait, as long as it takes, until the metadata log is durable up to `end_offset`.

        Raises TopicError if it has failed.
        """
        code = await self._commit.durable(self._metadata_partition, end_offset, NEVER_MS)
        if code:
            raise TopicError(code, "the metadata log could not be made durable")
        if self._metadata_log.lacks_room:
            await self._pool.run(self._metadata_log.keep_room)


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


def too_late() -> TopicError:
    """Return the error for a client that has waited long enough."""
    return TopicError(
        ErrorCode.REQUEST_TIMED_OUT,
        "The change is not durable yet, since the disk is slow. It will take effect when it is.",
    )
