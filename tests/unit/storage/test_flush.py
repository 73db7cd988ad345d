"""The flush job: it syncs the files that it captured, in the right order."""

import pytest

from storage.flush import Flush
from tests.support.memory_filesystem import MemoryFileSystem


def job(filesystem, *, paths=(), directories=("/d",)):
    files = [filesystem.open(f"/d/{n}", create=True) for n in "ab"]
    for file in files:
        file.pwrite(b"data", 0)
    return Flush(
        filesystem, files, paths, directories,
        end_offset=5, segment_base_offset=0, segment_position=4, size_bytes=8,
    )  # fmt: skip


@pytest.fixture
def filesystem():
    filesystem = MemoryFileSystem()
    filesystem.mkdir("/d")
    filesystem.sync_directory("/")
    return filesystem


def test_files_and_names_are_durable(filesystem):
    job(filesystem).run()
    filesystem.crash()
    assert filesystem.read("/d/a") == filesystem.read("/d/b") == b"data"


def test_small_files_are_opened_only_by_the_job(filesystem):
    filesystem.open("/d/small", create=True).pwrite(b"small", 0)
    work = job(filesystem, paths=["/d/small"])
    assert filesystem.counts["open"] == 3
    work.run()
    filesystem.crash()
    assert filesystem.read("/d/small") == b"small"


def test_an_unopenable_small_file_is_a_failure_unless_it_is_gone(filesystem):
    job(filesystem, paths=["/d/gone"]).run()
    filesystem.fail("open", 3, path_part="/d")
    with pytest.raises(OSError, match="Input/output"):
        job(filesystem, paths=["/d/a"]).run()


def test_without_a_directory_only_the_files_are_synced(filesystem):
    job(filesystem, directories=()).run()
    assert filesystem.counts["sync_directory"] == 1, "the sync of the fixture"


def test_a_renamed_or_unlinked_file_is_still_synced(filesystem):
    work = job(filesystem)
    filesystem.rename("/d/a", "/d/c")
    filesystem.unlink("/d/b")
    work.run()
    filesystem.crash()
    assert filesystem.read("/d/c") == b"data"


@pytest.mark.parametrize("operation", ["fdatasync", "sync_directory"])
def test_any_failure_reaches_the_caller(filesystem, operation):
    filesystem.fail(operation)
    with pytest.raises(OSError, match="Input/output"):
        job(filesystem).run()
