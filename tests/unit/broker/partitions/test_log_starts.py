"""Log start offsets: one write shows those of all logs; without it, deletions do, log by log."""

import errno
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from storage.log import Log
from storage.trimming import SegmentDeletion
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import create, produce

NAMES = ("a", "b")


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path / "data")
    yield made
    assert await made.close()


async def logs_of(rig: Rig) -> list[Log]:
    """Return two logs with a closed segment of two records, and a third record behind it."""
    logs = []
    for name in NAMES:
        await create(rig, name, file_delete_delay_ms="3600000")
        await produce(rig, batch(b"0", b"1"), topic=name)
        log = rig.services.partitions.get(name, 0).log
        log.roll(rig.services.clock.now_ms())
        await produce(rig, batch(b"2"), topic=name)
        checkpoint = log.begin_checkpoint()
        assert checkpoint is not None
        checkpoint.run()
        log.finish_checkpoint(checkpoint, None)
        logs.append(log)
    return logs


def starts(logs: list[Log]) -> list[int]:
    return [log.start_offset for log in logs]


def files(tmp_path: Path, name: str, ending: str) -> int:
    return len(list((tmp_path / "data" / f"{name}-0").glob(f"*.log{ending}")))


class FullDisk:
    """Refuses writes of the checkpoint files, `times` times."""

    def __init__(self, rig: Rig, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
        write = rig.services.checkpoints.write
        self.tries = 0

        async def refuse(_: object) -> None:
            self.tries += 1
            if self.tries <= times:
                raise OSError(errno.ENOSPC, "No space left on device")
            await write()

        monkeypatch.setattr(type(rig.services.checkpoints), "write", refuse)


async def test_one_write_shows_the_starts_of_all_logs_and_deletes_nothing(
    rig: Rig, tmp_path: Path
) -> None:
    logs = await logs_of(rig)
    for log in logs:
        log.delete_records_before(2)
    assert await rig.services.starts.write()
    assert starts(logs) == [2, 2]
    await rig.services.starts.settle(logs[:1], 0)
    assert [files(tmp_path, name, "") for name in NAMES] == [2, 2]
    await rig.services.starts.delete_segments(logs[0], 0)
    assert [files(tmp_path, name, "") for name in NAMES] == [1, 2]
    await rig.services.starts.delete_segments(logs[0], 0)


async def test_a_write_that_finds_no_room_is_noted(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = await logs_of(rig)
    FullDisk(rig, monkeypatch, 1)
    logs[0].delete_records_before(1)
    assert not await rig.services.starts.write()
    assert rig.services.logs.home.room.refusals == 1
    assert starts(logs) == [0, 0]


async def test_without_room_the_deletions_come_first(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    logs = await logs_of(rig)
    disk = FullDisk(rig, monkeypatch, 1)
    for log in logs:
        log.delete_records_before(2)
    await rig.services.starts.settle(logs, 0)
    assert starts(logs) == [2, 2]
    assert disk.tries == 1
    assert [files(tmp_path, name, ".deleted") for name in NAMES] == [1, 1]


async def test_a_start_within_a_segment_is_written_with_the_room_that_they_made(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    logs = await logs_of(rig)
    disk = FullDisk(rig, monkeypatch, 1)
    logs[0].delete_records_before(3)
    logs[1].delete_records_before(1)
    await rig.services.starts.settle(logs, 0)
    assert starts(logs) == [3, 1]
    assert disk.tries == 2
    assert files(tmp_path, "a", ".deleted") == 0, "unlinked at once"


async def test_a_deletion_that_fails_leaves_the_others_alone(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    logs = await logs_of(rig)
    FullDisk(rig, monkeypatch, 2)
    finish = SegmentDeletion.finish

    def fails_for_a(deletion: SegmentDeletion) -> None:
        finish(deletion)
        if deletion.segments[0].log_file.path.startswith(logs[0].directory):
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(SegmentDeletion, "finish", fails_for_a)
    for log in logs:
        log.delete_records_before(3)
    with pytest.raises(OSError, match="No space left"):
        await rig.services.starts.settle(logs, 0)
    assert starts(logs) == [2, 2]
    assert f"deletion of segments of {logs[0].directory} failed" in caplog.text


async def test_a_deletion_is_finished_whatever_becomes_of_its_thread(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = await logs_of(rig)
    logs[0].delete_records_before(2)
    assert await rig.services.starts.write()

    def fails(_: SegmentDeletion) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(SegmentDeletion, "run", fails)
        with pytest.raises(ZeroDivisionError):
            await rig.services.starts.delete_segments(logs[0], 0)
    assert not logs[0].segments.held
    await rig.services.starts.delete_segments(logs[0], 0)
    assert len(logs[0].segments) == 1
