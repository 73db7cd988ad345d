"""Loading one partition of `__consumer_offsets`: from its log to the groups of its shard.

Reading, decompressing and decoding happen in the pool, a buffer of `offsets.load.buffer.size` at a
time; what was read is applied on the loop, which gets its turns. Groups are built in a registry of
their own and become the shard's when all of the log has been applied.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from broker.groups.group import Host
from broker.groups.registry import Registry
from broker.groups.replay import ReadBatch, Replayer, read_chunk
from broker.groups.shard import Shard
from broker.metadata.topic_rules import GROUP_TOPIC
from broker.partitions.warm_reads import warm
from broker.runtime.blocking_pool import BlockingPool
from storage.log import Log
from storage.segments.log_file import LogSlice

logger = logging.getLogger("barnabas.groups")

GROUPS_PER_TURN: Final = 50  # of the loop, when sessions begin


async def load(
    shard: Shard,
    log: Log,
    host: Host,
    pool: BlockingPool,
    is_ours: Callable[[str], bool],
    buffer_bytes: int,
) -> int:
    """Give `shard` the groups of `log`; return how many records there were.

    `is_ours(group_id)` says whether a group lives in this partition. The state of the shard is
    the caller's to set. Raises StorageError or RecordError for a log that cannot be read.
    """
    if log.failed is not None:  # it may end before offsets that were acknowledged
        raise log.failed
    await warm(pool, log.load_end)
    registry = Registry()
    replayer = Replayer(registry, host, is_ours)
    offset = log.start_offset
    while offset < log.end_offset:
        look_up = partial(log.read, offset, buffer_bytes, end_offset=log.end_offset)
        found = await warm(pool, look_up)
        if found is None:
            break
        read = await pool.run(partial(_read, found))
        assert read, f"no batch at offset {offset} of {log.directory}"
        for _ in replayer.apply(read):
            await asyncio.sleep(0)
        offset = read[-1].next_offset
    if replayer.elsewhere_count:
        logger.warning(
            "%s-%d: passed over %d records of groups that belong to other partitions: the topic"
            " had another number of partitions when they were written",
            GROUP_TOPIC,
            shard.number,
            replayer.elsewhere_count,
        )
    if not shard.is_dropped:
        shard.registry = registry
        await _begin_sessions(shard)
    return replayer.record_count


def _read(found: LogSlice) -> Sequence[ReadBatch]:
    return read_chunk(found.read())


async def _begin_sessions(shard: Shard) -> None:
    for number, group in enumerate(list(shard.registry.groups.values()), 1):
        if number % GROUPS_PER_TURN == 0:
            await asyncio.sleep(0)
        if shard.registry.get(group.group_id) is group:  # a session may have ended meanwhile
            group.loaded()
