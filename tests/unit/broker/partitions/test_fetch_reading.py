"""Fetch: which requests wait and for how long, and reads that the disk delays or refuses.

Compared with Kafka.
"""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.partitions import group_commit
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from storage.errors import LogFailed
from storage.files.os_filesystem import OsFile
from storage.log import Log
from storage.segments.log_file import LogSlice
from tests.support import failures
from tests.support.broker_rig import Rig, batch
from tests.support.log_transactions import end, send
from tests.support.loop_guard import GuardedFile
from tests.support.rig_client import ask, create, produce
from tests.support.rig_fetch import (
    BATCH_BYTES,
    MANY,
    VALUE,
    fetch,
    fill,
    look_up_always,
    of,
    read,
    read_one,
    sizes,
    values,
)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path / "data")
    yield made
    assert await made.close()


# -- waiting ---------------------------------------------------------------------------------------


async def parked(rig: Rig, body: FetchRequest, version: int = 12) -> asyncio.Task[Any]:
    """Begin a fetch and return once it waits."""
    count = rig.services.metrics.fetches_parked
    task = asyncio.create_task(read(rig, body, version))
    async with asyncio.timeout(5):
        while rig.services.metrics.fetches_parked == count:
            assert not task.done(), "did not wait"
            await asyncio.sleep(0)
    return task


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_fetch_wakes_when_records_become_readable(rig: Rig, acks: int) -> None:
    await create(rig, count=2)
    waiting = await parked(rig, fetch(of(0, 0), of(1, 0), max_wait_ms=60_000))
    await produce(rig, batch(b"a"), partition=1, acks=acks)
    first, second = await waiting
    assert (values(first), values(second)) == ([], [b"a"])
    partition = rig.services.partitions.get("t", 1)
    assert partition.log.durable_offset == 1, "visible means durable"
    assert rig.services.metrics.fetches_parked_now == 0
    assert not partition.watchers


async def test_a_reader_of_committed_records_waits_for_the_outcome(rig: Rig) -> None:
    """And a reader of all records, whose bytes are counted beside it, does not."""
    await create(rig)
    partition = rig.services.partitions.get("t", 0)
    log = partition.log
    waiting = await parked(rig, fetch(of(0, 0), max_wait_ms=60_000, isolation_level=1))
    send(log, 5)
    await produce(rig, batch(b"a"))
    assert values((await read(rig, fetch(of(0, 0))))[0])[1] == b"a"
    await asyncio.sleep(0)
    assert not waiting.done()
    end(log, 5, commit=True)
    rig.services.purgatory.notify(partition)
    (answer,) = await waiting
    assert (values(answer)[1], answer.last_stable_offset) == (b"a", 3)


async def test_min_bytes_are_counted_up_to_the_last_stable_offset(rig: Rig) -> None:
    await create(rig)
    partition = rig.services.partitions.get("t", 0)
    await produce(rig, batch(VALUE))
    send(partition.log, 5)
    await produce(rig, batch(VALUE))
    body = fetch(of(0, 0), max_wait_ms=60_000, min_bytes=2 * BATCH_BYTES, isolation_level=1)
    waiting = await parked(rig, body)
    rig.services.purgatory.notify(partition)
    assert not waiting.done()
    end(partition.log, 5, commit=True)
    rig.services.purgatory.notify(partition)
    assert len(values((await waiting)[0])) >= 3


async def test_min_bytes_are_counted_over_partitions(rig: Rig) -> None:
    await create(rig, count=2)
    body = fetch(of(0, 0), of(1, 0), max_wait_ms=60_000, min_bytes=2 * BATCH_BYTES)
    waiting = await parked(rig, body)
    await produce(rig, batch(VALUE), partition=0)
    await asyncio.sleep(0)
    assert not waiting.done()
    await produce(rig, batch(VALUE), partition=1)
    assert sizes(await waiting) == [BATCH_BYTES] * 2


async def test_at_the_end_of_the_wait_the_available_records_are_returned(rig: Rig) -> None:
    await fill(rig)
    (answer,) = await (await parked(rig, fetch(of(0, 6), max_wait_ms=20, min_bytes=MANY)))
    assert values(answer) == [b"6"]
    (answer,) = await (await parked(rig, fetch(of(0, 7), max_wait_ms=20)))
    assert (answer.error_code, values(answer)) == (0, [])


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("no wait", fetch(of(0, 7), max_wait_ms=0)),
        ("wait below 0", fetch(of(0, 7), max_wait_ms=-5)),
        ("min_bytes 0", fetch(of(0, 7), max_wait_ms=60_000, min_bytes=0)),
        ("min_bytes below 0", fetch(of(0, 7), max_wait_ms=60_000, min_bytes=-1)),
        ("max_bytes 0", fetch(of(0, 7), max_wait_ms=60_000, min_bytes=10, max_bytes=0)),
        (
            "min above max_bytes",
            fetch(of(0, 0), max_wait_ms=60_000, min_bytes=MANY, max_bytes=50),
        ),
        ("enough", fetch(of(0, 0), max_wait_ms=60_000)),
        ("partition_max_bytes 0", fetch(of(0, 0, 0), max_wait_ms=60_000)),
        ("one out of range", fetch(of(0, 7), of(1, 1), max_wait_ms=60_000)),
        (
            "one fenced",
            fetch(of(0, 7), of(1, 0, current_leader_epoch=9), max_wait_ms=60_000),
        ),
        (
            "one diverged",
            fetch(of(0, 7), of(1, 0, last_fetched_epoch=9), max_wait_ms=60_000),
        ),
        ("no partitions", fetch(max_wait_ms=60_000)),
        ("no topics", FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[])),
    ],
)
async def test_fetches_that_do_not_wait(rig: Rig, name: str, body: FetchRequest) -> None:
    await fill(rig, 2)
    await ask(rig, body, 12)
    assert rig.services.metrics.fetches_parked == 0, name


async def test_an_unknown_partition_does_not_end_the_wait_of_others(rig: Rig) -> None:
    """As in Kafka: a reader that still asks for a deleted topic would otherwise never pause."""
    await fill(rig)
    waiting = await parked(rig, fetch(of(9, 0), of(0, 7), max_wait_ms=60_000))
    await produce(rig, batch(b"7"))
    unknown, known = await waiting
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert values(known) == [b"7"]


async def test_a_reader_starts_the_flush_of_records_that_no_producer_waits_for(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "IDLE_LINGER_SECONDS", 60)
    await create(rig)
    await produce(rig, batch(b"a"), acks=1)
    answer = await read_one(rig, fetch(of(0, 0), max_wait_ms=60_000))
    assert values(answer) == [b"a"]


async def test_damaged_records_that_cannot_be_counted_are_read_at_once(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damage: there are records below the high watermark, but no bytes are found for them."""
    await fill(rig)
    monkeypatch.setattr(Log, "available_bytes", lambda *_: 0)
    await read_one(rig, fetch(of(0, 0), max_wait_ms=60_000, min_bytes=2))
    assert rig.services.metrics.fetches_parked == 0


async def test_nothing_is_counted_for_a_min_bytes_of_1(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most consumers use min_bytes=1: the read that follows is the only look-up."""
    await fill(rig)
    monkeypatch.setattr(Log, "available_bytes", lambda *_: pytest.fail("was counted"))
    await read_one(rig, fetch(of(0, 0), max_wait_ms=60_000, min_bytes=1))
    assert rig.services.metrics.fetches_parked == 0


async def test_records_that_are_not_durable_are_not_served(rig: Rig) -> None:
    await create(rig)
    partition = rig.services.partitions.get("t", 0)
    partition.flush_started_ns = rig.clock.monotonic_ns()  # no flush begins
    await produce(rig, batch(b"a"), acks=1)
    answer = await read_one(rig, fetch(of(0, 0)))
    assert (answer.error_code, answer.high_watermark, values(answer)) == (0, 0, [])
    assert (await read_one(rig, fetch(of(0, 1)))).error_code == 0, "at the end, not beyond it"
    partition.flush_started_ns = 0
    rig.services.commit.flush_now(partition)


async def test_write_caching_serves_from_the_page_cache(rig: Rig) -> None:
    await create(rig, write_caching="true")
    waiting = await parked(rig, fetch(of(0, 0), max_wait_ms=60_000))
    await produce(rig, batch(b"a"), acks=1)
    (answer,) = await waiting
    assert values(answer) == [b"a"]
    assert rig.services.partitions.get("t", 0).log.durable_offset == 0


async def test_a_closed_connection_ends_the_wait(rig: Rig) -> None:
    await create(rig)
    waiting = await parked(rig, fetch(of(0, 0), max_wait_ms=60_000))
    partition = rig.services.partitions.get("t", 0)
    (fetch_parked,) = partition.watchers
    fetch_parked.request.abandon()
    assert not partition.watchers
    assert rig.services.metrics.fetches_parked_now == 0
    waiting.cancel()


# -- the disk --------------------------------------------------------------------------------------


@pytest.mark.parametrize("waits", [False, True])
async def test_cold_bytes_are_loaded_off_the_loop(
    rig: Rig, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up_always(monkeypatch)
    await create(rig, count=2)
    await produce(rig, batch(b"a"))
    monkeypatch.setattr(LogSlice, "load_hot", lambda _: None)
    body = fetch(of(0, 0), of(1, 0), max_wait_ms=60_000, min_bytes=120 if waits else 1)
    if waits:
        task = await parked(rig, body)
        await produce(rig, batch(b"b"), partition=1)
        first, second = await task
        assert values(second) == [b"b"]
    else:
        first, second = await read(rig, body)
        assert values(second) == []
    assert values(first) == [b"a"]
    assert rig.services.metrics.reads_cold == (2 if waits else 1)


async def test_a_failed_read(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    look_up_always(monkeypatch)
    await create(rig, count=2)
    await produce(rig, batch(b"a"))
    await produce(rig, batch(b"b"), partition=1)

    def broken(_: LogSlice) -> bytes:
        raise OSError(5, "Input/output error")

    for method in ("load_hot", "load"):
        monkeypatch.setattr(LogSlice, "load_hot", lambda _: None)
        monkeypatch.setattr(LogSlice, method, broken)
        answers = await read(rig, fetch(of(0, 0), of(1, 0)))
        for answer in answers:
            assert (answer.error_code, bytes(answer.records)) == (
                ErrorCode.KAFKA_STORAGE_ERROR,
                b"",
            )
            assert answer.high_watermark == -1


async def test_a_failed_log_is_read_up_to_its_durable_end(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    await fill(rig)
    partition = rig.services.partitions.get("t", 0)
    partition.flush_started_ns = rig.clock.monotonic_ns()
    await produce(rig, batch(b"7"), acks=1)
    partition.log.failed = LogFailed("t-0", "fsync failed")
    answer = await read_one(rig, fetch(of(0, 6)))
    assert (answer.error_code, answer.high_watermark, values(answer)) == (0, 7, [b"6"])
    assert not await rig.close()


@pytest.mark.parametrize("error", [LogFailed("t-0", "EIO"), OSError(5, "Input/output error")])
async def test_an_error_while_counting_bytes_affects_only_its_partition(
    rig: Rig, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One rotted batch: the reader gets its error, and the records of the other partitions."""
    await create(rig, count=2)
    await produce(rig, batch(b"a"))
    await produce(rig, batch(b"b"), partition=1)
    break_log(rig, monkeypatch, error)
    body = fetch(of(0, 0), of(1, 0), max_wait_ms=60_000, min_bytes=1 << 20)
    bad, good = await read(rig, body)
    assert (bad.error_code, values(bad)) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    assert (good.error_code, values(good)) == (ErrorCode.NONE, [b"b"])


async def test_a_reader_of_a_broken_log_does_not_fail_the_round_of_others(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bytes are counted when a flush ends; the other flushes of the round are finished."""
    await create(rig, count=3)
    await produce(rig, batch(b"a"))
    body = fetch(of(0, 0), of(1, 0), max_wait_ms=60_000, min_bytes=1 << 20)
    waiting = await parked(rig, body)
    break_log(rig, monkeypatch, LogFailed("t-0", "EIO"))
    for _ in range(2):
        await asyncio.gather(*(produce(rig, batch(b"b"), partition=n) for n in (1, 2)))
    bad, good = await waiting
    assert (bad.error_code, values(good)) == (ErrorCode.KAFKA_STORAGE_ERROR, [b"b"])
    assert not rig.services.commit.is_flushing
    assert not rig.services.partitions.get("t", 1).watchers


@pytest.mark.parametrize("is_cold", [False, True])
async def test_an_unexpected_error_affects_only_its_partition_too(
    rig: Rig, is_cold: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up_always(monkeypatch)
    await create(rig, count=2)
    await produce(rig, batch(b"a"))
    await produce(rig, batch(b"b"), partition=1)
    method = "load" if is_cold else "load_hot"
    sound = getattr(LogSlice, method)
    if is_cold:
        monkeypatch.setattr(LogSlice, "load_hot", lambda _: None)

    def broken(piece: LogSlice) -> Any:
        if "/t-0/" in piece.log_file.path:
            raise ZeroDivisionError
        return sound(piece)

    monkeypatch.setattr(LogSlice, method, broken)
    bad, good = await read(rig, fetch(of(0, 0), of(1, 0)))
    assert (bad.error_code, good.error_code) == (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE)
    assert values(good) == [b"b"]
    assert rig.services.metrics.request_errors == 1
    assert len(failures.take()) == 1


def break_log(rig: Rig, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Make look-ups in partition 0's log fail from now on."""
    look_up_always(monkeypatch)
    broken = rig.services.partitions.get("t", 0).log

    def count(log: Log, offset: int, sound: Any = Log.available_bytes) -> int:
        if log is broken:
            raise error
        found: int = sound(log, offset)
        return found

    def piece(log: Log, *args: Any, sound: Any = Log.read, **options: Any) -> LogSlice | None:
        if log is broken:
            raise error
        found: LogSlice | None = sound(log, *args, **options)
        return found

    monkeypatch.setattr(Log, "available_bytes", count)
    monkeypatch.setattr(Log, "read", piece)


async def test_a_log_that_is_closed_under_a_read_is_unknown(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its topic is deleted while a thread pulls what the read needs; the disk is sound."""
    await create(rig)
    await produce(rig, batch(b"a"))
    break_log(rig, monkeypatch, LogFailed("p", "No such file or directory"))
    assert (await read_one(rig, fetch(of(0, 0)))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.setattr(Log, "is_closed", True)
    answer = await read_one(rig, fetch(of(0, 0)))
    assert (answer.error_code, answer.high_watermark) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


@pytest.mark.parametrize("wait_ms", [0, 60_000])
async def test_a_look_up_in_cold_files_waits_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_ms: int
) -> None:
    """Index, headers, the walk that checks old data: none of their pages are in memory."""
    rig = Rig(tmp_path, log_index_interval_bytes="0")
    await fill(rig, count=2)
    await rig.close()
    rig = Rig(tmp_path)
    in_memory: set[str] = set()
    threads: set[int] = set()
    plain_nowait, plain_pull = OsFile.pread_nowait, OsFile.pull

    def pread_nowait(file: OsFile, size: int, position: int) -> Any:
        return plain_nowait(file, size, position) if file.path in in_memory else None

    def pull(file: OsFile, size: int, position: int) -> int:
        threads.add(threading.get_ident())
        in_memory.add(file.path)
        return plain_pull(file, size, position)

    monkeypatch.setattr(OsFile, "pread_nowait", pread_nowait)
    monkeypatch.setattr(GuardedFile, "pull", pull)
    wanted = fetch(of(0, 5), of(1, 0), max_wait_ms=wait_ms, min_bytes=BATCH_BYTES)
    first, second = await read(rig, wanted)
    assert values(first) == [b"3", b"4", b"5", b"6"]
    assert (values(second), second.error_code) == ([], ErrorCode.NONE)
    assert threads
    assert threading.get_ident() not in threads
    await rig.close()


async def test_a_failed_look_up_is_an_error_of_its_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path)
    await fill(rig)
    await rig.close()
    rig = Rig(tmp_path)

    def fails(file: OsFile, size: int, position: int) -> Any:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(OsFile, "pread_nowait", lambda *_: None)
    monkeypatch.setattr(GuardedFile, "pull", fails)
    monkeypatch.setattr(GuardedFile, "pread", fails)
    answer = await read_one(rig, fetch(of(0, 0)))
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.undo()
    await rig.close()
