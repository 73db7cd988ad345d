"""Logs of topics are opened and dropped in threads, a few at a time, each independently."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker import topic_logs, topics
from broker.metadata.growth import MorePartitions
from broker.metadata.topic_rules import NewTopic, TopicError
from broker.topic_logs import LOGS_PER_JOB
from protocol.errors import ErrorCode
from storage.opening import log_opening
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import crash, create, produce, strays


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path / "data")
    yield made
    assert await made.close()


async def test_other_requests_are_served_while_many_directories_are_created(rig: Rig) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += len(rig.services.partitions) > 0

    counting = asyncio.create_task(count())
    await create(rig, "t", 3 * LOGS_PER_JOB)
    counting.cancel()
    assert turns >= 3


async def test_a_topic_deleted_while_it_is_opened(rig: Rig) -> None:
    creating = asyncio.create_task(create(rig, "t", 3 * LOGS_PER_JOB))
    while not rig.services.partitions.all():
        await asyncio.sleep(0)
    await rig.services.topics.delete("t")
    await creating
    assert rig.services.topics.all() == []
    assert rig.services.partitions.all() == []
    assert strays(rig) == []
    await create(rig, "t", 1)
    assert await produce(rig, batch(b"a")) == 0


async def test_a_deletion_answers_every_waiting_request(rig: Rig) -> None:
    """One producer waits for a flush; the append of another waits for its turn."""
    await create(rig)
    partition = rig.services.partitions.get("t", 0)
    partition.flush_started_ns = rig.clock.monotonic_ns()
    await produce(rig, batch(b"a"), acks=1)
    told: list[ErrorCode] = []
    rig.services.commit.wait(partition, 1, 60_000, told.append)
    partition.flush_started_ns = 1  # so old that appends queue
    queued = asyncio.create_task(produce(rig, batch(b"b"), acks=1))
    while not partition.queue:
        await asyncio.sleep(0)
    await rig.services.topics.delete("t")
    assert told == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    with pytest.raises(AssertionError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        await queued


async def test_only_a_partition_without_disk_space_is_offline_and_it_is_retried(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = rig.services.logs.directory.filesystem
    mkdir = disk.mkdir

    def full(path: str) -> None:
        if path.endswith("t-1"):
            raise OSError(28, "No space left on device", path)
        mkdir(path)

    monkeypatch.setattr(type(disk), "mkdir", lambda _, path: full(path))
    await create(rig, "t", 3)
    for number in (0, 2):
        assert await produce(rig, batch(b"a"), partition=number) == 0
    with pytest.raises(AssertionError, match="KAFKA_STORAGE_ERROR"):
        await produce(rig, batch(b"a"), partition=1)
    await rig.services.topics.open_offline()
    assert rig.services.partitions.offline() == [("t", 1)]
    assert len([r for r in caplog.records if "cannot be opened" in r.message]) == 1
    monkeypatch.undo()
    await rig.services.topics.open_offline()
    assert rig.services.partitions.offline() == []
    assert await produce(rig, batch(b"a"), partition=1) == 0


async def test_the_files_of_an_offline_partition_are_deleted_with_its_topic(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk, say: topics are deleted there to make room."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "t-1")

    monkeypatch.setattr(log_opening, "load_log", full)
    await create(rig, "t", 2)
    assert rig.services.partitions.offline() == [("t", 0), ("t", 1)]
    await rig.services.topics.delete("t")
    assert rig.services.partitions.offline() == []
    assert strays(rig) == []
    names = rig.services.logs.directory.filesystem.list(rig.services.logs.directory.path)
    assert len([name for name in names if name.endswith("-delete")]) == 2


def break_renames(rig: Rig, name: str, patch: pytest.MonkeyPatch) -> None:
    disk = type(rig.services.logs.directory.filesystem)
    rename = disk.rename

    def broken(self: Any, old: str, new: str) -> None:
        if old.endswith(name):
            raise OSError(5, "Input/output error", old)
        rename(self, old, new)

    patch.setattr(disk, "rename", broken)


async def test_no_topic_is_created_where_the_directory_of_a_deleted_one_remains(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(rig, "t", 2)
    assert await produce(rig, batch(b"old"), partition=1) == 0
    break_renames(rig, "t-1", monkeypatch)
    await rig.services.topics.delete("t")
    refused = (await rig.services.topics.create([NewTopic(name="t")]))["t"]
    assert isinstance(refused, TopicError)
    assert refused.code == ErrorCode.KAFKA_STORAGE_ERROR
    await create(rig, "other")
    monkeypatch.undo()
    await rig.services.topics.open_offline()
    await create(rig, "t", 2)
    assert await produce(rig, batch(b"new"), partition=1) == 0
    assert strays(rig) == []
    assert rig.services.logs.directory.stray_names() == []


async def test_no_partition_is_added_where_a_directory_of_no_topic_remains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Rig(tmp_path / "data")
    await create(first)
    break_renames(first, "t-1", monkeypatch)
    assert await first.close()
    (tmp_path / "data" / "t-1").mkdir()
    (tmp_path / "data" / "t-1" / "00000000000000000000.log").write_bytes(b"something")
    second = Rig(tmp_path / "data")
    topics, more = second.services.topics, [MorePartitions(name="t", count=2)]
    refused = (await topics.grow(more))["t"]
    assert isinstance(refused, TopicError)
    assert refused.code == ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.undo()
    await topics.open_offline()
    await topics.grow(more)
    assert await produce(second, batch(b"new"), partition=1) == 0
    assert len(second.services.logs.directory.stray_names()) == 1
    assert await second.close()


async def test_a_deletion_that_a_crash_has_interrupted_is_finished_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Rig(tmp_path / "data")
    await create(first, "t", 2)
    assert await produce(first, batch(b"old"), partition=1) == 0
    break_renames(first, "t-1", monkeypatch)
    await first.services.topics.delete("t")
    await crash(first)
    monkeypatch.undo()
    second = Rig(tmp_path / "data")
    names = os.listdir(tmp_path / "data")
    assert [name for name in names if name.startswith("t-") and "-delete" not in name] == []
    await create(second, "t", 2)
    assert await produce(second, batch(b"new"), partition=1) == 0
    assert await second.close()


async def test_a_large_creation_runs_in_threads_and_in_short_steps(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Encoding 2,000 records, and making and renaming 2,000 directories, once held up the loop."""
    encoders: list[threading.Thread] = []
    encode = topics.encode_batch

    def encode_noted(records: Any, now_ms: int) -> bytearray:
        encoders.append(threading.current_thread())
        return encode(records, now_ms)

    opened: list[int] = []
    finish = rig.services.logs.finish_open

    def finish_noted(opening: Any) -> Any:
        opened.append(len(opening.attempts))
        return finish(opening)

    monkeypatch.setattr(topics, "encode_batch", encode_noted)
    monkeypatch.setattr(rig.services.logs, "finish_open", finish_noted)
    await create(rig, "t", 10 * LOGS_PER_JOB)
    assert encoders
    assert threading.main_thread() not in encoders
    assert opened == [LOGS_PER_JOB] * 10
    monkeypatch.setattr(topic_logs, "TAKEN_OUT_PER_TURN", LOGS_PER_JOB)
    deleting = asyncio.create_task(rig.services.topics.delete("t"))
    left: set[int] = set()
    while not deleting.done():
        left.add(len(rig.services.partitions))
        await asyncio.sleep(0)
    await deleting  # the file system of the rig watches the loop's calls
    assert left == set(range(0, 10 * LOGS_PER_JOB + 1, LOGS_PER_JOB))
    assert strays(rig) == []
