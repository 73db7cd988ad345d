"""The guard of file calls on the loop notes what it must note, and nothing else."""

import asyncio
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from storage.files.filesystem import ON_THE_LOOP, TURN_MAX, File, FileSystem
from storage.segments.cold import NOTHING, without_waiting
from storage.segments.log_file import LogFile
from tests.support import broker_process, failures, loop_guard
from tests.support.broker_process import BrokerProcess
from tests.support.broker_rig import Rig, batch
from tests.support.loop_guard import GuardedFileSystem, operations
from tests.support.rig_client import create, produce


def test_the_loop_may_call_only_operations_of_the_file_system() -> None:
    assert set(ON_THE_LOOP) <= {*operations(File), *operations(FileSystem)}


def test_the_loop_may_not_call_operations_that_wait_for_the_disk() -> None:
    never = {
        "File.fdatasync",
        "File.pread",
        "File.pull",
        "FileSystem.sync_directory",
        "FileSystem.replace",
        "FileSystem.read",
        "FileSystem.exists",
    }
    assert never & set(ON_THE_LOOP) == set()
    assert {"FileSystem.unlink", "FileSystem.rename"} <= TURN_MAX.keys(), "they add up"


def ask(filesystem: GuardedFileSystem) -> int:
    return filesystem.free_bytes("/")


broker_asks = FunctionType(ask.__code__, {"__name__": "broker.made_up"}, "ask")


def filesystem_of(rig: Rig) -> Any:
    return rig.services.logs.directory.filesystem


async def test_a_call_by_the_broker_is_noted_with_its_stack(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    broker_asks(filesystem_of(rig))
    (found,) = loop_guard.take_violations()
    assert (found.operation, found.path) == ("FileSystem.free_bytes", "/")
    assert "test_loop_guard.py" in found.stack
    await rig.close()


def test_a_broker_whose_loop_is_closed_serves_no_more() -> None:
    """A rig that was killed never says so; tests after it would be watched."""
    filesystem = GuardedFileSystem()

    async def serve() -> bool:
        filesystem.serving = True
        return loop_guard.is_one_serving()

    assert asyncio.run(serve())
    assert not loop_guard.is_one_serving()
    filesystem.serving = False


def rename(filesystem: GuardedFileSystem, path: str) -> None:
    filesystem.rename(path, path + "x")
    filesystem.rename(path + "x", path)


broker_renames = FunctionType(rename.__code__, {"__name__": "broker.made_up"}, "rename")


async def test_accumulating_work_is_bounded_in_each_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TURN_MAX, "FileSystem.rename", 5)
    rig = Rig(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    for _ in range(3):
        broker_renames(filesystem_of(rig), str(tmp_path / "file"))
        broker_renames(filesystem_of(rig), str(tmp_path / "file"))
        await asyncio.sleep(0)
        assert loop_guard.take_violations() == []
    for _ in range(5):
        broker_renames(filesystem_of(rig), str(tmp_path / "file"))
    (found,) = loop_guard.take_violations()
    assert "more than 5" in str(found)
    await rig.close()


def walk(log_file: LogFile) -> int:
    return sum(1 for _ in log_file.scan())


broker_walks = FunctionType(walk.__code__, {"__name__": "broker.made_up"}, "walk")


async def test_scanned_batches_and_read_bytes_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path)
    await create(rig, "walked")
    for _ in range(3):
        await produce(rig, batch(b"a"), topic="walked")
    log_file = rig.services.partitions.get("walked", 0).log.segments.active.log_file

    def walked_on_the_loop() -> int:
        with without_waiting(NOTHING):
            return broker_walks(log_file)

    await asyncio.sleep(0)
    assert walked_on_the_loop() == 3
    assert loop_guard.take_violations() == []
    for work in ("batches walked", "bytes read"):
        await asyncio.sleep(0)
        with monkeypatch.context() as patched:
            patched.setitem(TURN_MAX, work, 2)
            walked_on_the_loop()
        (found,) = loop_guard.take_violations()
        assert f"2 {work} a turn" in str(found)
        assert await rig.services.pool.run(lambda: broker_walks(log_file)) == 3
    assert loop_guard.take_violations() == []
    await rig.close()


async def test_a_call_by_a_test_is_not_noted(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    ask(filesystem_of(rig))
    assert loop_guard.take_violations() == []
    await rig.close()


async def test_a_call_in_a_thread_is_not_noted(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    await rig.services.pool.run(lambda: broker_asks(filesystem_of(rig)))
    assert loop_guard.take_violations() == []
    await rig.close()


async def test_nothing_is_noted_before_the_broker_serves(tmp_path: Path) -> None:
    filesystem = GuardedFileSystem()
    broker_asks(filesystem)
    assert loop_guard.take_violations() == []


def test_the_complaints_of_a_process_are_returned_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = BrokerProcess(tmp_path / "data")
    broker.output_path.write_text(f"a line\n\n{loop_guard.MARK}: File.pread(x)\n  File\n\nmore\n")
    assert [text.splitlines()[:2] for text in broker.complaints()] == [
        [f"{loop_guard.MARK}: File.pread(x)", "  File"]
    ]
    assert broker.complaints() == []
    assert {loop_guard.MARK, failures.MARK} <= set(broker_process.COMPLAINTS)
