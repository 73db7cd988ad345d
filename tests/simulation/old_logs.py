"""Logs that an old Kafka has written: messages of magic 0 and 1, alone and packed, before batches.

`leave_old_log` puts one into the directory of a broker that is down, with the records of its topic
in the metadata log. Nobody writes to it, and its configs keep everything. So whenever it is read,
it has each of its records, at its offset: `reread` fetches all of them, in one dialect or the
other, and asks for offsets by time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from broker.metadata.image import CONFIG_TOPIC
from protocol.legacy_batches import batches_any, read_records_any
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from protocol.metadata_records import ConfigRecord, PartitionRecord, TopicRecord
from storage.errors import CheckpointError
from storage.files import filenames
from storage.files.text_files import decode_offsets, encode_offsets, encode_partition_metadata
from tests.simulation.clients.caller import Caller
from tests.simulation.context import Context
from tests.simulation.left_caches import bytes_of, put
from tests.simulation.left_metadata import MIGRATING, US, Tail
from tests.simulation.plan import ClientPlan
from tests.support.memory_inodes import Directory
from tests.support.old_messages import GZIP, LZ4, SNAPPY, message, new_batch, wrapper

BY_NAME: Final = (4, 12)  # versions of Fetch that name topics
BY_TIME: Final = 1  # the first version of ListOffsets served
UNPACKED_BYTES_MAX: Final = 1 << 20
TRIES_MAX: Final = 200
END_OFFSET: Final = 23
KEEPS: Final = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}


def segments(now_ms: int) -> dict[int, bytes]:
    """Return the segments of an old log by base offset: formats only ever rise."""
    zero = [
        message(0, b"zero", magic=0, key=b"a"),
        message(1, None, magic=0),
        wrapper(2, [-1, -1, -1], magic=0, codec=GZIP),
    ]
    one = [
        message(5, b"one", timestamp=now_ms + 5),
        wrapper(6, [now_ms + 6, now_ms + 9, now_ms + 7], magic=1, codec=SNAPPY),
        wrapper(9, [now_ms + 11, now_ms + 20, now_ms + 12], magic=1, codec=LZ4),
        wrapper(12, [now_ms + 1, now_ms + 2], magic=1, codec=GZIP, append_time=now_ms + 21),
    ]
    long = [message(n, b"x" * 400, timestamp=now_ms + 10 + n) for n in range(14, 20)]
    new = [new_batch(20, [now_ms + 40, now_ms + 38]), new_batch(22, [now_ms + 41])]
    return {base: b"".join(of) for base, of in ((0, zero), (5, one), (14, long), (20, new))}


class Kept(NamedTuple):
    """A record of an old log."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class OldLog(NamedTuple):
    """An old log, and all of its records."""

    topic: str
    records: list[Kept]


def leave_old_log(home: Directory, rng: random.Random) -> tuple[str, OldLog | None]:
    """Leave an old log, and say so; None if the directory has no end of a metadata log."""
    tail = Tail(home)
    if tail.inode is None or tail.in_transaction:
        return "finds no end of the metadata log", None
    topic_id = rng.randbytes(16)
    name = f"kafka.old.{topic_id.hex()[:6]}"
    partition = PartitionRecord(
        partition_id=0,
        topic_id=topic_id,
        replicas=[US],
        isr=[US],
        leader=US,
        leader_epoch=0,
        partition_epoch=0,
        directories=[MIGRATING],
    )
    configs = [
        ConfigRecord(resource_type=CONFIG_TOPIC, resource_name=name, name=key, value=KEEPS[key])
        for key in KEEPS
    ]
    tail.append(tail.batch([TopicRecord(name=name, topic_id=topic_id), partition, *configs]))
    directory = Directory()
    put(directory, filenames.PARTITION_METADATA, encode_partition_metadata(topic_id))
    content = segments(tail.time_ms)
    for base, log in content.items():
        put(directory, filenames.log_name(base), log)
    home.put(f"{name}-0", directory)
    if rng.random() < 0.5:
        _checkpoint(home, name)
    records = [record for log in content.values() for record in records_of(log)]
    return f"has the old log {name}-0", OldLog(name, records)


def _checkpoint(home: Directory, name: str) -> None:
    """Say that the log is durable to its end, so that a clean start believes it."""
    file = filenames.RECOVERY_POINT_CHECKPOINT
    try:
        points = decode_offsets(file, bytes_of(home, file))
    except CheckpointError:
        return
    put(home, file, encode_offsets({**points, (name, 0): END_OFFSET}))


def records_of(log: bytes) -> Iterator[Kept]:
    """Yield the records of batches and messages of any magic."""
    for position, _header in batches_any(log):
        for one in read_records_any(log, position, size_max=UNPACKED_BYTES_MAX):
            yield Kept(one.offset, one.timestamp, one.key, one.value)


# -- Reading them again ---------------------------------------------------------------------------


async def reread(context: Context, name: str = "antiquary") -> list[str]:
    """Read all old logs whose disk is sound; return what is wrong."""
    caller = Caller(context, ClientPlan(name=name, kind="antiquary", steps=0))
    found = []
    try:
        for log in context.old_logs:
            if f"{log.topic}-0" not in context.damaged:
                found += await _read_whole(caller, log)
                found += await _look_up(caller, log)
    finally:
        caller.wire.close()
    return found


async def _read_whole(caller: Caller, log: OldLog) -> list[str]:
    seen: list[Kept] = []
    position = 0
    for _ in range(TRIES_MAX):
        part = await _fetch(caller, log, position)
        if part is None:
            continue
        if part.error_code:
            return [f"{log.topic}: code {part.error_code} at offset {position}"]
        read = [one for one in _read(part.records) if one.offset >= position]
        seen += read
        if read:
            position = read[-1].offset + 1
        if position >= part.high_watermark:
            break
    if seen != log.records:
        wrong = [one for one in seen if one not in log.records]
        missing = [one for one in log.records if one not in seen]
        return [
            f"{log.topic}: {len(seen)} records read; wrong: {wrong[:3]}, missing: {missing[:3]}"
        ]
    return []


async def _fetch(caller: Caller, log: OldLog, position: int) -> Any:
    asked = FetchPartition(
        partition=0,
        fetch_offset=position,
        partition_max_bytes=caller.rng.choice((1, 200, 1 << 20)),
    )
    topics = await caller.topics()
    ids = {topic.name: topic.topic_id for topic in topics}
    body = FetchRequest(
        max_wait_ms=10,
        min_bytes=1,
        session_epoch=-1,
        topics=[FetchTopic(topic=log.topic, topic_id=ids.get(log.topic, b""), partitions=[asked])],
    )
    if log.topic not in ids:
        await caller.look()
        return None
    version = caller.version_of(FetchRequest) if caller.is_msgpack else caller.rng.randint(*BY_NAME)
    answer = await caller.ask(body, version, what=log.topic)
    return None if answer is None else answer.responses[0].partitions[0]


def _read(records: Any) -> list[Kept]:
    if isinstance(records, list):
        return [Kept(one.offset, one.timestamp, one.key, one.value) for one in records]
    return list(records_of(bytes(records or b"")))


async def _look_up(caller: Caller, log: OldLog) -> list[str]:
    """Ask for the first record that is not older than each of some times."""
    times = sorted({one.timestamp for one in log.records if one.timestamp >= 0})
    found = []
    for time_ms in caller.rng.sample(times, 3):
        asked = ListOffsetsPartition(partition_index=0, timestamp=time_ms)
        body = ListOffsetsRequest(
            replica_id=-1,
            topics=[ListOffsetsTopic(name=log.topic, partitions=[asked])],
            timeout_ms=5_000,
        )
        answer = await caller.ask(body, caller.version_of(ListOffsetsRequest, BY_TIME))
        if answer is None:
            continue
        part = answer.topics[0].partitions[0]
        due = next(one for one in log.records if one.timestamp >= time_ms)
        if not part.error_code and (part.offset, part.timestamp) != (due.offset, due.timestamp):
            told = f"{part.timestamp} at {part.offset}, {due.timestamp} is at {due.offset}"
            found.append(f"{log.topic}: time {time_ms} is told to be {told}")
    return found
