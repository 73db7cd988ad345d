"""Changes of the metadata in progress: once begun they are completed, even if the client gives up.

A change is a record in the metadata log, plus the work that follows once the record is durable. A
task of the broker does it. The client waits `METADATA_TIMEOUT_MS`, then gets REQUEST_TIMED_OUT, and
the task continues. Late is not failed (design.md, I15).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
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
NEVER_MS = 1 << 40  # the broker waits for its metadata log without a limit

Change = asyncio.Task[TopicError | StorageError | None]


class MetadataChanges:
    """The changes in progress, and the log that they wait for."""

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
        """Whether a change is in progress, even if no client waits for it."""
        return bool(self._changes)

    async def finish(self) -> None:
        """Wait until no change is in progress: for the stop."""
        while self._changes:
            await asyncio.wait(self._changes)

    async def carry_through(
        self, change: Coroutine[Any, Any, None], lives: Iterable[TopicLife] = ()
    ) -> None:
        """Run `change` in a task, and wait for it as long as a client does. Raises what it raises.

        The task completes even if the caller is cancelled.
        """
        task = spawn(
            Owner.TOPIC_CHANGE, _outcome(change, lives), "change of topics", among=self._changes
        )
        for life in lives:
            life.changes.add(task)
        done, _ = await asyncio.wait([task], timeout=METADATA_TIMEOUT_MS / 1000)
        if not done:
            logger.warning(
                "a metadata change takes longer than %(seconds)d s: its client gets"
                " REQUEST_TIMED_OUT, the change continues",
                {"seconds": METADATA_TIMEOUT_MS // 1000},
            )
            raise too_late()
        if (error := task.result()) is not None:
            raise error

    async def until_done(self, changes: Iterable[asyncio.Task[Any]]) -> None:
        """Wait for changes in progress. Raises TopicError if that takes too long."""
        under_way = set(changes)
        if under_way:
            _, late = await asyncio.wait(under_way, timeout=METADATA_TIMEOUT_MS / 1000)
            if late:
                raise too_late()

    async def durable(
        self, end_offset: int, apply: Callable[[], Awaitable[None] | None] | None = None
    ) -> None:
        """Wait, as long as it takes, until the metadata log is durable up to `end_offset`.

        Then calls `apply`, in the order of the records, and waits for what it returns. Raises
        TopicError if the log has failed.
        """
        code = await self._commit.durable(self._metadata_partition, end_offset, NEVER_MS)
        if code:
            raise TopicError(code, "the metadata log could not be made durable")
        if apply is not None and (rest := apply()) is not None:
            await rest
        if self._metadata_log.lacks_room:
            await self._pool.run(self._metadata_log.keep_room)


async def _outcome(
    change: Coroutine[Any, Any, None], lives: Iterable[TopicLife]
) -> TopicError | StorageError | None:
    """Return the error for a client that still waits; it is not a failure of the task."""
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
    """Return the error for a client whose change takes too long."""
    return TopicError(
        ErrorCode.REQUEST_TIMED_OUT,
        "The change is not durable yet because the disk is slow. It takes effect once it is.",
    )
