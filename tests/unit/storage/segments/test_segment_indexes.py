"""The indexes of a segment: full, unreadable, written and synced."""

from __future__ import annotations

import errno
import struct

import pytest

from storage.files.open_files import OpenFiles
from storage.segments.segment import Segment
from tests.support.memory_filesystem import MemoryFileSystem
from tests.support.segments import create_segment, fill, reopen


@pytest.fixture
def disk() -> MemoryFileSystem:
    memory = MemoryFileSystem()
    memory.mkdir("/t-0")
    return memory


def create(
    disk: MemoryFileSystem, base_offset: int = 0, interval: int = 1000, index_max: int = 1 << 20
) -> Segment:
    return create_segment(
        OpenFiles(disk, 10),
        "/t-0",
        base_offset,
        interval=interval,
        index_max=index_max,
    )


def test_an_index_that_cannot_be_opened_does_not_fail_an_append(disk: MemoryFileSystem) -> None:
    segment = create(disk, interval=0)
    fill(segment, [1_000] * 3)
    segment.indexes.write()
    opened = reopen(disk, segment)
    assert opened.max_timestamp == 1_000
    opened.files.forget()
    opened = reopen(disk, segment)
    disk.fail("open", forever=True, path_part="index")
    fill(opened, [1_001, 1_002])
    assert opened.next_offset == 5
    assert "cannot be read" in opened.indexes.damage
    assert not opened.indexes.is_full
    disk.heal()
    assert opened.rebuild_indexes() is None
    assert opened.indexes.offset.entry_count == 4


@pytest.mark.parametrize("part", [".index", ".timeindex"])
def test_an_append_does_not_read_an_index_again_that_could_not_be_read(
    disk: MemoryFileSystem, part: str
) -> None:
    """It runs on the loop: `load_end` has tried, in a thread or before the broker listened."""
    segment = create(disk, interval=0)
    fill(segment, [1_000] * 3)
    segment.on_roll()
    opened = reopen(disk, segment)
    assert opened.max_timestamp == 1_000
    opened.files.forget()
    opened = reopen(disk, segment)
    disk.fail("open", forever=True, path_part=part)
    opened.load_end()
    assert "cannot be read" in opened.indexes.damage
    opened.files.forget()
    tried = disk.counts["open"]
    fill(opened, [1_001, 1_002])
    opened.on_roll()
    assert not opened.indexes.is_full
    assert disk.counts["open"] - tried == 1, "only the log"
    disk.heal()
    assert opened.rebuild_indexes() is None
    assert opened.indexes.offset.entry_count == 4
    fill(opened, [1_003])
    assert opened.indexes.offset.entry_count == 5


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_an_index_without_a_descriptor_is_not_damaged(disk: MemoryFileSystem, number: int) -> None:
    segment = create(disk, interval=0)
    fill(segment, [1_000] * 3)
    segment.indexes.write()
    opened = reopen(disk, segment)
    assert opened.max_timestamp == 1_000
    opened.files.forget()
    opened = reopen(disk, segment)
    disk.fail("open", error=number, forever=True, path_part="index")
    fill(opened, [1_001, 1_002])
    assert opened.indexes.lookup(1) is None
    assert not opened.indexes.is_full
    found = opened.position_of(1)
    assert found is not None
    assert found[1].base_offset == 1
    assert opened.indexes.damage == ""
    disk.heal()
    assert opened.indexes.lookup(1) is not None
    fill(opened, [1_003])
    assert opened.indexes.last_offset_entry() == (5, found[1].size * 5)
    assert opened.indexes.damage == ""


def test_full_indexes_and_offsets_that_do_not_fit(disk: MemoryFileSystem) -> None:
    segment = create(disk, 5, interval=0, index_max=36)
    fill(segment, [10])
    assert not segment.indexes.is_full
    fill(segment, [11, 12])
    assert segment.indexes.is_full  # the time index keeps room for one last entry
    assert segment.last_offset_max == 5 + 2**31 - 1


def test_written_indexes_are_listed_for_syncing(disk: MemoryFileSystem) -> None:
    segment = create(disk, interval=0)
    disk.sync_directory("/t-0")
    disk.sync_directory("/")
    assert segment.indexes.write() == []
    fill(segment, [1, 2, 3])
    files = segment.indexes.write()
    assert {file.path for file in files} == {segment.indexes.offset.path, segment.indexes.time.path}
    segment.indexes.sync()
    assert segment.indexes.write() == []
    assert disk.durable_bytes(segment.indexes.offset.path) == struct.pack(">4i", 1, 400, 2, 800)
