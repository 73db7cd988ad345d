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
    disk.fail("open", error=errno.EMFILE, forever=True, path_part="index")
    fill(opened, [1_001, 1_002])
    assert opened.next_offset == 5
    assert "cannot be read" in opened.indexes.damage
    assert not opened.indexes.is_full
    disk.heal()
    assert opened.rebuild_indexes() is None
    assert opened.indexes.offset.entry_count == 4


def test_full_indexes_and_offsets_that_do_not_fit(disk: MemoryFileSystem) -> None:
    segment = create(disk, 5, interval=0, index_max=36)
    fill(segment, [10])
    assert not segment.indexes.is_full
    fill(segment, [11, 12])
    assert segment.indexes.is_full  # the time index keeps room for one last entry
    assert segment.fits(5 + 2**31 - 1)
    assert not segment.fits(5 + 2**31)


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
