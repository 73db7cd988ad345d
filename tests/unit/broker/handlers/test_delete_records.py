"""DeleteRecords: the new log start offset, also after a crash. Compared with Kafka."""

import asyncio
from pathlib import Path

import pytest

from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from protocol.records import Record, build
from storage.errors import LogFailed
from storage.failing import fail
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import ask, crash, create, produce

Wanted = tuple[str, int, int]  # topic, partition, offset


def request(*wanted: Wanted, timeout_ms: int = 5_000) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=name,
                partitions=[DeleteRecordsPartition(partition_index=number, offset=offset)],
            )
            for name, number, offset in wanted
        ],
        timeout_ms=timeout_ms,
    )


async def delete(rig: Rig, *wanted: Wanted, version: int = 2) -> list[tuple[str, int, int, int]]:
    answer = await ask(rig, request(*wanted), version)
    return [
        (topic.name, one.partition_index, one.low_watermark, one.error_code)
        for topic in answer.topics
        for one in topic.partitions
    ]


async def fill(rig: Rig, count: int = 10, name: str = "t", **configs: str) -> None:
    await create(rig, name, 2, **configs)
    records = [Record(0, 1_700_000_000_000, b"key", b"%d" % number) for number in range(count)]
    await produce(rig, memoryview(build(records)), topic=name)


async def earliest(rig: Rig, timeout_ms: int = 30_000) -> int:
    asked = ListOffsetsPartition(partition_index=0, timestamp=-2)
    body = ListOffsetsRequest(
        replica_id=-1,
        topics=[ListOffsetsTopic(name="t", partitions=[asked])],
        timeout_ms=timeout_ms,
    )
    offset: int = (await ask(rig, body, 10)).topics[0].partitions[0].offset
    return offset


async def test_nobody_sees_the_new_start_before_it_is_durable(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut once took back what others had seen of a request without an answer."""
    await fill(rig)
    write, go_on = rig.services.checkpoints.write, asyncio.Event()

    async def slow(_: object) -> None:
        await go_on.wait()
        await write()

    monkeypatch.setattr(type(rig.services.checkpoints), "write", slow)
    deleting = asyncio.create_task(delete(rig, ("t", 0, 7)))
    await asyncio.sleep(0.01)
    assert await earliest(rig, timeout_ms=1) == 0
    asking = asyncio.create_task(earliest(rig))
    await asyncio.sleep(0.01)
    assert not asking.done()
    go_on.set()
    assert await deleting == [("t", 0, 7, 0)]
    assert await asking == 7
    assert not rig.services.starts.is_cut(rig.services.partitions.get("t", 0).log)


async def test_who_asks_at_once_sees_the_new_start(rig: Rig) -> None:
    """The confluent-kafka-python suite asks without waiting for the answer."""
    await fill(rig)
    deleting = asyncio.create_task(delete(rig, ("t", 0, 4), ("t", 1, -1)))
    asking = [asyncio.create_task(earliest(rig)) for _ in range(3)]
    assert await asyncio.gather(*asking) == [4, 4, 4]
    assert await deleting == [("t", 0, 4, 0), ("t", 1, 0, 0)]


@pytest.mark.parametrize("version", range(3))
async def test_every_version_cuts_and_names_the_new_start(rig: Rig, version: int) -> None:
    await fill(rig)
    assert await delete(rig, ("t", 0, 4), version=version) == [("t", 0, 4, 0)]
    assert await earliest(rig) == 4
    asked = FetchPartition(partition=0, fetch_offset=3, partition_max_bytes=1 << 20)
    fetch = FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="t", partitions=[asked])]
    )
    answer = (await rig.call(fetch, 11)).responses[0].partitions[0]
    assert answer.error_code == 1


@pytest.mark.parametrize(
    ("offset", "low_watermark", "code"),
    [
        (-1, 10, 0),
        (10, 10, 0),
        (3, 3, 0),
        (2, 2, 0),
        (1, 2, 0),  # already gone
        (0, 2, 0),
        (11, -1, 1),
        (2**63 - 1, -1, 1),
        (-2, -1, 1),
        (-(2**63), -1, 1),
    ],
)
async def test_offsets(rig: Rig, offset: int, low_watermark: int, code: int) -> None:
    await fill(rig)
    await delete(rig, ("t", 0, 2))
    assert await delete(rig, ("t", 0, offset)) == [("t", 0, low_watermark, code)]
    assert await earliest(rig) == (2 if code else low_watermark)


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (("nope", 0, 0), 3),
        (("a b", 0, 0), 3),
        (("__cluster_metadata", 0, 1), 3),
        (("t", 99, 0), 3),
        (("t", -1, 0), 3),
        (("compacted", 0, 0), 44),
        (("compacted", 0, 99), 44),
        (("compacted", 99, 0), 3),
        (("both", 0, 99), 1),
        (("__consumer_offsets", 0, 0), 17),
        (("__consumer_offsets", 99, 0), 3),
    ],
    ids=repr,
)
async def test_refusals(rig: Rig, wanted: Wanted, code: int) -> None:
    await fill(rig)
    await fill(rig, name="compacted", cleanup_policy="compact")
    await fill(rig, name="both", cleanup_policy="compact,delete")
    await create(rig, "__consumer_offsets", 2)
    assert await delete(rig, wanted) == [(*wanted[:2], -1, code)]


async def test_a_topic_with_compaction_and_deletion_can_be_trimmed(rig: Rig) -> None:
    await fill(rig, cleanup_policy="compact,delete")
    assert await delete(rig, ("t", 0, -1)) == [("t", 0, 10, 0)]


async def test_the_last_of_two_offsets_counts_and_each_partition_is_answered_once(rig: Rig) -> None:
    await fill(rig)
    wanted = [("t", 0, 9), ("nope", 0, 1), ("t", 1, -1), ("t", 0, 5)]
    assert await delete(rig, *wanted) == [("t", 0, 5, 0), ("t", 1, 0, 0), ("nope", 0, -1, 3)]
    assert await delete(rig) == []


@pytest.mark.parametrize("offset", [-1, 12])
async def test_records_acknowledged_from_the_page_cache_can_be_deleted(
    rig: Rig, offset: int
) -> None:
    await fill(rig)
    await produce(rig, batch(b"x", b"y"), acks=1)
    log = rig.services.partitions.get("t", 0).log
    assert log.high_watermark < log.end_offset == 12
    assert await delete(rig, ("t", 0, offset)) == [("t", 0, 12, 0)]
    assert log.durable_offset == 12


async def test_of_very_many_partitions_some_are_cut_after_the_others(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.handlers.delete_records.TOGETHER", 2)
    await fill(rig)
    await fill(rig, name="u")
    wanted = [("t", 0, 5), ("no", 0, 0), ("t", 1, 1), ("u", 0, -1), ("t", 0, 6)]
    assert await delete(rig, *wanted) == [
        ("t", 0, 6, 0),
        ("t", 1, -1, 1),
        ("no", 0, -1, 3),
        ("u", 0, 10, 0),
    ]
    assert await earliest(rig) == 6


async def test_of_very_many_partitions_each_is_cut_where_it_ended_when_the_request_came(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.handlers.delete_records.TOGETHER", 1)
    await fill(rig)
    await fill(rig, name="u")
    write, go_on = rig.services.checkpoints.write, asyncio.Event()

    async def slow(_: object) -> None:
        await go_on.wait()
        await write()

    monkeypatch.setattr(type(rig.services.checkpoints), "write", slow)
    deleting = asyncio.create_task(delete(rig, ("t", 0, -1), ("u", 0, -1)))
    await asyncio.sleep(0.01)
    assert await produce(rig, batch(b"later"), topic="u") == 10
    go_on.set()
    assert await deleting == [("t", 0, 10, 0), ("u", 0, 10, 0)]
    assert rig.services.partitions.get("u", 0).log.end_offset == 11


async def test_a_timeout_of_zero_still_waits_for_the_disk(rig: Rig) -> None:
    await fill(rig)
    await produce(rig, batch(b"x"), acks=1)
    answer = await ask(rig, request(("t", 0, -1), timeout_ms=0), 2)
    assert answer.topics[0].partitions[0].low_watermark == 11


async def test_the_start_survives_a_crash_from_the_moment_of_the_answer(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    await fill(rig)
    await delete(rig, ("t", 0, 7), ("t", 1, 0))
    text = (tmp_path / "data" / "log-start-offset-checkpoint").read_text()
    assert text == "0\n1\nt 0 7\n"
    await crash(rig)
    again = Rig(tmp_path / "data")
    assert await earliest(again) == 7
    assert await produce(again, batch(b"x")) == 10
    await crash(again)
    third = Rig(tmp_path / "data")
    assert await earliest(third) == 7
    assert await third.close()


async def test_concurrent_requests_are_all_written_before_their_answers(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    await fill(rig, 100)
    checkpoint = tmp_path / "data" / "log-start-offset-checkpoint"

    async def one(offset: int) -> None:
        ((_, _, low_watermark, code),) = await delete(rig, ("t", 0, offset))
        assert code == 0
        assert low_watermark >= offset
        assert int(checkpoint.read_text().split()[-1]) >= low_watermark

    await asyncio.gather(*(one(offset) for offset in range(1, 60)))
    assert await rig.close()


async def test_a_start_that_cannot_be_written_is_not_acknowledged(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(rig)

    async def fail() -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(type(rig.services.checkpoints), "write", lambda _: fail())
        answer = await delete(rig, ("t", 0, 3), ("t", 9, 3))
        assert await earliest(rig) == 0
    assert answer == [("t", 0, -1, 56), ("t", 9, -1, 3)]
    assert await delete(rig, ("t", 0, 2)) == [("t", 0, 3, 0)]


async def test_without_a_checkpoint_the_deleted_segments_make_it_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk; what lies within a segment waits until there is room."""
    rig = Rig(tmp_path / "data")
    await fill(rig, 5)
    log = rig.services.partitions.get("t", 0).log
    log.roll(0)
    await produce(rig, batch(b"a", b"b"))
    job = log.begin_checkpoint()
    assert job is not None
    job.run()
    log.finish_checkpoint(job, None)

    async def fail() -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(type(rig.services.checkpoints), "write", lambda _: fail())
        assert await delete(rig, ("t", 0, 6)) == [("t", 0, -1, 56)]
        assert await earliest(rig) == 5
        assert await delete(rig, ("t", 0, 5)) == [("t", 0, 5, 0)]
    await crash(rig)
    again = Rig(tmp_path / "data")
    assert await earliest(again) == 5
    assert await again.close()


async def test_records_of_a_write_caching_topic_are_flushed_before_they_are_deleted(
    rig: Rig,
) -> None:
    """A power cut would otherwise leave a log that ends below its start."""
    await fill(rig, write_caching="true")
    log = rig.services.partitions.get("t", 0).log
    assert (log.durable_offset, log.high_watermark) == (0, 10)
    assert await delete(rig, ("t", 0, 7)) == [("t", 0, 7, 0)]
    assert log.durable_offset == 10


async def test_a_topic_that_is_deleted_meanwhile_is_unknown(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(rig)
    write = rig.services.checkpoints.write

    async def late(_: object) -> None:
        monkeypatch.undo()
        await rig.services.topics.delete("t")
        await write()

    monkeypatch.setattr(type(rig.services.checkpoints), "write", late)
    assert await delete(rig, ("t", 0, 7)) == [("t", 0, -1, 3)]


async def test_a_failed_log_is_not_trimmed(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    await fill(rig)
    log = rig.services.partitions.get("t", 0).log
    fail(log, LogFailed(log.directory, "fsync failed"))
    assert await delete(rig, ("t", 0, 3), ("t", 0, -1)) == [("t", 0, -1, 56)]
    assert log.start_offset == 0
    assert not await rig.close()
