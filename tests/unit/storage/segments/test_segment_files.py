"""The files of a segment: their names, their deletion, and a renamed directory."""

from __future__ import annotations

import pytest

from storage.files.open_files import OpenFiles
from storage.segments.segment import Segment
from tests.support.memory_filesystem import MemoryFileSystem
from tests.support.segments import create_segment, fill


@pytest.fixture
def disk() -> MemoryFileSystem:
    memory = MemoryFileSystem()
    memory.mkdir("/t-0")
    return memory


def create(disk: MemoryFileSystem, base_offset: int = 0, interval: int = 1000) -> Segment:
    return create_segment(OpenFiles(disk, 10), "/t-0", base_offset, interval=interval)


def test_slices_of_deleted_files_stay_readable(disk: MemoryFileSystem) -> None:
    segment = create(disk, interval=0)
    fill(segment, [1, 2, 3])
    segment.indexes.write()
    disk.open(f"/t-0/{0:020d}.txnindex", create=True)
    content = disk.live_bytes(segment.log_file.path)
    part = segment.read(0, 10_000)
    assert part is not None
    renamed = segment.files.rename_deleted()
    assert renamed == [
        f"/t-0/{0:020d}.{kind}.deleted" for kind in ("log", "index", "timeindex", "txnindex")
    ]
    assert disk.list("/t-0") == sorted(path[5:] for path in renamed)
    assert segment.files.paths() == renamed[:3]
    segment.files.forget()
    for path in renamed:
        disk.unlink(path)
    assert part.load_hot() == content


def test_deleting_renames_the_log_first(disk: MemoryFileSystem) -> None:
    """A crash in between leaves an index without a log, never a log that looks current."""
    segment = create(disk)
    fill(segment, [1])
    segment.indexes.write()
    disk.calls.clear()
    segment.files.rename_deleted()
    renames = [path for op, path in disk.calls if op == "rename"]
    assert renames[0].endswith(".log")


def test_a_segment_stays_usable_in_a_renamed_directory(disk: MemoryFileSystem) -> None:
    segment = create(disk)
    fill(segment, [1, 2])
    segment.indexes.write()
    segment.files.forget()
    segment.files.note_moved("/t-0-delete")
    disk.rename("/t-0", "/t-0-delete")
    assert segment.files.paths() == segment.files.existing()
    assert all(path.startswith("/t-0-delete/") for path in segment.files.paths())
    assert segment.max_timestamp == 2


def test_a_failed_rename_of_an_index_is_no_error(disk: MemoryFileSystem) -> None:
    segment = create(disk)
    disk.fail("rename", path_part=".timeindex")
    renamed = segment.files.rename_deleted()
    assert renamed == [
        f"/t-0/{0:020d}.log.deleted", f"/t-0/{0:020d}.index.deleted", f"/t-0/{0:020d}.timeindex"
    ]  # fmt: skip


def test_a_failed_rename_of_a_log_is_an_error(disk: MemoryFileSystem) -> None:
    segment = create(disk)
    disk.fail("rename", path_part=".log")
    before = segment.files.paths()
    with pytest.raises(OSError, match="Input/output"):
        segment.files.rename_deleted()
    assert segment.files.paths() == before
