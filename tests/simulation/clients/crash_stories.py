"""Stories with a moment at which it matters how the broker ends, each with a topic of its own.

topic taken again      a new topic of a name has none of the old one's records, and keeps its own
careless writer        writes what nobody syncs to a compacted topic: no hole is left of it
hasty compactor        the files of a compacted segment are changed when the broker is killed
late opening           a log that opens at the second attempt is on the disk like any other
absent partition       a transaction ends while one of its logs cannot be opened
changing transactor    ends a transaction by the old protocol, and begins the next by the new one

A story says when its moment has come (`Teller.wish`). A fault of the plan ends the broker then, in
a way that the story wishes; what follows must hold all the same if none does.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.records import batches, read_records
from tests.simulation.clients.log_stories import (
    BIG,
    END,
    FETCH,
    SMALL_SEGMENTS,
    WAIT_MS,
    batch_of_now,
    begun,
    end_of,
    written,
)
from tests.simulation.clients.telling import (
    DELETE_VERSION,
    PATIENCE_MS,
    Teller,
    Untold,
    tells,
)
from tests.simulation.clients.wire import Disconnected
from tests.simulation.judges import quiet
from tests.simulation.world import MS

LATEST: Final = -1
IMPLICIT: Final = 12  # the version of Produce that adds partitions
END_OF_TV2: Final = 5
SLOW_SYNC_MS: Final = 20
COMMITTED: Final = 1  # the level of isolation
READS_MAX: Final = 40
TRIES: Final = 12
OPENED_BYTES_MAX: Final = 1 << 20
COMPACTED: Final = {
    **SMALL_SEGMENTS,
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": "0.01",
}


def _is_sound(teller: Teller, name: str) -> bool:
    """Whether no fault has changed the bytes of a topic's first partition."""
    return f"{name}-0" not in teller.context.damaged


async def _read(teller: Teller, name: str, isolation: int = 0) -> list[Any]:
    """Return the records of a topic, from its first to the present last one. Raises Untold."""
    offset, end_offset = await teller.offset_of(name), await teller.offset_of(name, LATEST)
    records: list[Any] = []
    for _ in range(READS_MAX):
        if offset >= end_offset:
            return records
        part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        body = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            isolation_level=isolation,
            topics=[FetchTopic(topic=name, partitions=[part])],
        )
        answer = await teller.ask(body, FETCH, who="reader")
        data = bytes(answer.responses[0].partitions[0].records or b"")
        teller.needs(bool(data))
        for position, header in batches(data):
            offset = header.last_offset + 1
            if not header.is_control:
                records += read_records(data, position, size_max=OPENED_BYTES_MAX)
    raise Untold


# -- Names -----------------------------------------------------------------------------------------


async def topic_taken_again(teller: Teller) -> None:
    """Delete a topic, and make another of its name while it goes."""
    name = f"{teller.name}-topic"
    old_id = await teller.create(name, 1, **SMALL_SEGMENTS)
    for _ in range(3):
        told = await teller.produce(name, batch_of_now(teller, padding=BIG))
        teller.needs(told.error_code == 0)
    body = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=PATIENCE_MS)
    going = await teller.sent(body, DELETE_VERSION, who="three")
    await teller.rest(teller.rng.choice((1, 5, 20)))
    new_id = await teller.create(name, 1, **SMALL_SEGMENTS)
    await teller.answer(going)
    teller.needs(new_id != old_id)
    count = teller.rng.choice((0, 0, 2))
    for _ in range(count):
        told = await teller.produce(name, batch_of_now(teller))
        teller.needs(told.error_code == 0)
    if count:
        teller.wish("power cut")
    else:
        teller.wish(teller.rng.choice(("power cut", "kill", "another's directory")))
    await teller.next_life(WAIT_MS)
    start, end = await teller.offset_of(name), await teller.offset_of(name, LATEST)
    teller.needs(_is_sound(teller, name))
    teller.expect(
        (start, end) == (0, count),
        f"a topic that was made anew and got {count} records has {start} to {end}",
    )


async def late_opening(teller: Teller) -> None:
    """Make a topic whose log opens at the second attempt; the judge of what is durable looks."""
    name = f"{teller.name}-topic"
    teller.needs(not teller.context.is_finale)
    teller.context.injected.add(quiet.DISK)
    teller.context.disk.fail(
        teller.rng.choice(("list", "open", "open", "size")),
        nth=teller.rng.choice((1, 2, 3)),
        error=errno.EIO,
        path_part=f"{name}-0",
        until_ns=teller.world.now_ns + 1_000 * MS,
    )
    await teller.create(name, 1, **SMALL_SEGMENTS)
    for _ in range(TRIES):
        with suppress(Untold):
            told = await teller.produce(name, batch_of_now(teller))
            if told.error_code == 0:
                break
        await teller.rest(500)


# -- Bytes -----------------------------------------------------------------------------------------


async def careless_writer(teller: Teller) -> None:
    """Write to a compacted topic what is only in memory when the power is cut."""
    name = f"{teller.name}-topic"
    await teller.create(name, 1, write_caching="true", **COMPACTED)
    for number in range(teller.rng.choice((8, 14))):
        batch = batch_of_now(teller, 2, BIG // 2, keys=b"%d-" % number)
        teller.needs((await teller.produce(name, batch, acks=1)).error_code == 0)
    teller.wish("power cut")
    teller.needs(await teller.next_life(WAIT_MS))
    await _expect_no_hole(teller, name)


async def _expect_no_hole(teller: Teller, name: str) -> None:
    """All keys differ, so compaction has removed nothing."""
    offsets = [record.offset for record in await _read(teller, name)]
    teller.needs(_is_sound(teller, name))
    teller.expect(offsets == list(range(len(offsets))), f"there is a hole in {offsets}")


async def hasty_compactor(teller: Teller) -> None:
    """Write one key again and again, and others once: these stay whatever ends the broker."""
    name = f"{teller.name}-topic"
    await teller.create(name, 1, **COMPACTED)
    teller.wish("kill in a swap")
    count = 8
    for number in range(count):
        for keys in (b"%d-" % number, b"same-"):
            batch = batch_of_now(teller, 1, BIG // 3, keys=keys)
            teller.needs((await teller.produce(name, batch)).error_code == 0)
    await teller.next_life(2 * WAIT_MS)
    found = {record.key for record in await _read(teller, name)}
    missing = [key for number in range(count) if (key := b"%d-0" % number) not in found]
    teller.needs(_is_sound(teller, name))
    teller.expect(not missing, f"compaction has removed the only records of {missing}")


# -- Transactions ----------------------------------------------------------------------------------


async def absent_partition(teller: Teller) -> None:
    """Commit while the log with the data cannot be opened: readers see them once it can be."""
    name = f"{teller.name}-topic"
    context = teller.context
    await teller.create(name, 1, **SMALL_SEGMENTS)
    producer = await begun(teller, name)
    teller.needs(not context.is_finale)
    context.injected.add(quiet.DISK)
    context.disk.fail(
        "open",
        error=errno.EIO,
        forever=True,
        path_part=f"{name}-0/",
        until_ns=teller.world.now_ns + 3_000 * MS,
    )
    teller.wish("power cut behind a decision")
    ending = await teller.sent(end_of(teller, producer, committed=True), END, who="writer")
    teller.needs(await teller.next_life(WAIT_MS))
    with suppress(Disconnected):
        await ending
    life = teller.life
    for _ in range(TRIES):
        body = end_of(teller, producer, committed=True)
        if (await teller.ask(body, END, who="writer")).error_code == 0:
            break
        await teller.rest(300)
    else:
        raise Untold
    for _ in range(TRIES):
        with suppress(Untold):
            if await _read(teller, name, COMMITTED):
                return
        await teller.rest(1_000)
    teller.needs(teller.life == life and not context.is_finale and _is_sound(teller, name))
    teller.expect(False, "a committed record is not read, though its log is there again")


async def changing_transactor(teller: Teller) -> None:
    """Write behind the end of a transaction of TV1 without a request that adds the partition."""
    name = f"{teller.name}-topic"
    await teller.create(name, 1, **SMALL_SEGMENTS)
    producer = await begun(teller, name)
    body = end_of(teller, producer, committed=True)
    teller.needs((await teller.ask(body, END, who="writer")).error_code == 0)
    code = await written(teller, name, producer, IMPLICIT, sequence=1)
    is_slow = teller.context.injected or teller.context.plan.shape.fsync_ns > SLOW_SYNC_MS * MS
    teller.expect(
        code != ErrorCode.CONCURRENT_TRANSACTIONS or bool(is_slow),
        "a batch behind an answered end is refused, and does not wait for the record before it",
    )
    teller.needs(code == 0)
    body = end_of(teller, producer, committed=True)
    teller.needs((await teller.ask(body, END_OF_TV2, who="writer")).error_code == 0)
    seen = len(await _read(teller, name, COMMITTED))
    teller.needs(_is_sound(teller, name))
    teller.expect(seen == 2, f"of two records that were committed {seen} are read")


KINDS: Final = {
    "changing transactor": tells(changing_transactor),
    "topic taken again": tells(topic_taken_again),
    "careless writer": tells(careless_writer),
    "hasty compactor": tells(hasty_compactor),
    "late opening": tells(late_opening),
    "absent partition": tells(absent_partition),
}
