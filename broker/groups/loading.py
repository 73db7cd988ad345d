"""Loads the partitions of `__consumer_offsets`: reads each log into the groups of its shard.

A shard that cannot be loaded refuses requests for its groups. The other shards are served. If the
disk or the system did not give the log, the load is tried again; what was read is not used.

The pool reads, decompresses and decodes, one buffer of `offsets.load.buffer.size` at a time. The
loop applies the records, in turns. The groups go into a new registry, which replaces the shard's
when the whole log has been applied.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from broker.groups.group import Host
from broker.groups.group_log import GroupLog, partition_of
from broker.groups.registry import Registry
from broker.groups.replay import ReadBatch, Replayer, read_chunk
from broker.groups.shard import Shard, ShardState
from broker.metadata.topic_rules import GROUP_TOPIC
from broker.partitions.warm_reads import warm
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.clock import MS_NS
from broker.runtime.turns import InTurns
from protocol.record_errors import RecordError
from storage.errors import DamagedLog, LogFailed, StorageError
from storage.log import Log
from storage.segments.log_file import LogSlice

logger = logging.getLogger("barnabas.groups")

GROUPS_PER_TURN: Final = 50  # of the loop, to start sessions


def look_at(shard: Shard, group_log: GroupLog) -> None:
    """Set a shard's state: loading if its log has records, offline if it has no open log."""
    try:
        log = group_log.partition(shard.number).log
    except StorageError:  # offline, and logged as such; the topic changes when it is opened
        shard.state = ShardState.OFFLINE
        return
    has_records = log.end_offset > log.start_offset or log.failed is not None
    shard.state = ShardState.LOADING if has_records else ShardState.SERVING


async def load_shards(
    shards: Sequence[Shard],
    group_log: GroupLog,
    host: Host,
    pool: BlockingPool,
    loaded: Callable[[Shard], None],
) -> None:
    """Load the shards that are not loaded, in order; call `loaded` with each that is served."""
    started_ns = host.clock.monotonic_ns()
    found_count = 0
    for shard in shards:
        if shard.state is ShardState.LOADING:
            is_ours = partial(_is_ours, shard.number, len(shards))
            found_count += await _load_or_refuse(shard, group_log, host, pool, is_ours)
            if shard.is_served and not shard.is_dropped:
                loaded(shard)
    if found_count:
        logger.info(
            "loaded %(groups)d groups from %(records)d records in %(ms)d ms",
            {
                "groups": sum(len(shard.registry.groups) for shard in shards if shard.is_served),
                "records": found_count,
                "ms": (host.clock.monotonic_ns() - started_ns) // MS_NS,
            },
        )


def _is_ours(number: int, count: int, group_id: str) -> bool:
    return partition_of(group_id, count) == number


async def _load_or_refuse(
    shard: Shard,
    group_log: GroupLog,
    host: Host,
    pool: BlockingPool,
    is_ours: Callable[[str], bool],
) -> int:
    """Load one shard, or refuse its groups; return its number of records."""
    try:
        log = group_log.partition(shard.number).log
        buffer_bytes = host.config.offsets_load_buffer_size
        found_count = await load_shard(shard, log, host, pool, is_ours, buffer_bytes)
    except Exception as error:
        if shard.is_dropped:
            return 0  # its topic was deleted meanwhile
        if _may_pass(error):
            if not shard.unread:
                logger.error(
                    "groups of %(topic)s-%(partition)d are not loaded: %(error)s. Check the disk:"
                    " the broker tries again every second.",
                    {"topic": GROUP_TOPIC, "partition": shard.number, "error": error},
                )
            shard.unread = str(error)
            shard.state = ShardState.OFFLINE
            return 0
        expected = isinstance(error, StorageError | RecordError)
        logger.error(
            "groups of %(topic)s-%(partition)d are not loaded: %(error)s",
            {"topic": GROUP_TOPIC, "partition": shard.number, "error": error},
            exc_info=None if expected else error,
        )
        shard.refuse()
        return 0
    if not shard.is_dropped:
        shard.state = ShardState.SERVING
        shard.unread = ""
    return found_count


def _may_pass(error: Exception) -> bool:
    """Whether `error` says nothing of what is in the log: the disk did not give it."""
    return isinstance(error, LogFailed | OSError) and not isinstance(error, DamagedLog)


async def load_shard(
    shard: Shard,
    log: Log,
    host: Host,
    pool: BlockingPool,
    is_ours: Callable[[str], bool],
    buffer_bytes: int,
) -> int:
    """Load the groups of `log` into `shard`; return the number of records.

    `is_ours(group_id)` tells whether a group belongs to this partition. The caller sets the state
    of the shard. Raises StorageError or RecordError for a log that cannot be read.
    """
    if log.failed is not None:  # it may lack acknowledged offsets
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
            "%(topic)s-%(partition)d: ignored %(records)d records of groups that belong to other"
            " partitions: the topic had a different number of partitions when they were written",
            {"topic": GROUP_TOPIC, "partition": shard.number, "records": replayer.elsewhere_count},
        )
    if not shard.is_dropped:
        shard.registry = registry
        shard.topic_ids = replayer.topic_ids
        await _begin_sessions(shard)
    return replayer.record_count


def _read(found: LogSlice) -> Sequence[ReadBatch]:
    return read_chunk(found.read())


async def _begin_sessions(shard: Shard) -> None:
    async for group in InTurns(list(shard.registry.groups.values()), GROUPS_PER_TURN):
        if shard.registry.get(group.group_id) is group:  # an earlier session may have ended it
            group.loaded()
