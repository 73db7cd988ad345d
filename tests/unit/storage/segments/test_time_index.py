"""The time index: the largest timestamp so far and its offset; rows strictly rise."""

from __future__ import annotations

import errno
import random
import struct

import pytest

from storage.files.open_files import OpenFiles
from storage.segments.time_index import TimeIndex
from tests.support.memory_filesystem import MemoryFileSystem

BASE = 737337
PATH = f"/{BASE:020d}.timeindex"
ROWS = [(1_000, 10), (1_500, 20), (9_000, 25)]


@pytest.fixture
def disk() -> MemoryFileSystem:
    return MemoryFileSystem()


def index_of(
    disk: MemoryFileSystem, rows: list[tuple[int, int]] | None = None, *, written: bool = True
) -> TimeIndex:
    """Return an index of (timestamp, relative offset) rows, from its file or in memory."""
    index = TimeIndex(OpenFiles(disk, 10), PATH, BASE, 1 << 20)
    for timestamp, relative in rows or []:
        assert index.maybe_append(timestamp, BASE + relative)
    if not written:
        return index
    index.write_tail()
    return TimeIndex(OpenFiles(disk, 10), PATH, BASE, 1 << 20)


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [(-1, None), (999, None), (1_000, 0), (1_499, 0), (1_500, 1), (8_999, 1), (9_000, 2),
     (2**62, 2)],
)  # fmt: skip
def test_the_last_row_not_above_the_timestamp(
    disk: MemoryFileSystem, written: bool, timestamp: int, expected: int | None
) -> None:
    index = index_of(disk, ROWS, written=written)
    if expected is None:
        assert index.lookup(timestamp) is None
    else:
        row = ROWS[expected]
        assert index.lookup(timestamp) == (row[0], BASE + row[1])


def test_the_bytes_are_kafkas(disk: MemoryFileSystem) -> None:
    index_of(disk, ROWS)
    assert disk.live_bytes(PATH) == struct.pack(">qiqiqi", 1000, 10, 1500, 20, 9000, 25)


def test_many_rows_in_the_file_and_in_memory(disk: MemoryFileSystem) -> None:
    rows = [(1_000 + 7 * i, 3 * i) for i in range(1_000)]
    index = index_of(disk, rows[:900])
    for timestamp, relative in rows[900:]:
        index.maybe_append(timestamp, BASE + relative)
    for target in range(990, 8_100, 13):
        below = [row for row in rows if row[0] <= target]
        expected = (below[-1][0], BASE + below[-1][1]) if below else None
        assert index.lookup(target) == expected, target


@pytest.mark.parametrize(
    ("name", "timestamp", "relative"),
    [("same time", 9_000, 30), ("older", 8_000, 30), ("same offset", 9_500, 25),
     ("offset back", 9_500, 24), ("no timestamp", -1, 30)],
)  # fmt: skip
def test_rows_that_do_not_rise_are_left_out(
    disk: MemoryFileSystem, name: str, timestamp: int, relative: int
) -> None:
    index = index_of(disk, ROWS)
    assert not index.maybe_append(timestamp, BASE + relative), name
    assert index.entry_count == 3
    assert index.last_entry == (9_000, BASE + 25)


def test_a_full_index_keeps_room_for_the_last_row_of_a_roll(disk: MemoryFileSystem) -> None:
    index = TimeIndex(OpenFiles(disk, 10), PATH, 0, 36)
    assert not index.is_full
    index.maybe_append(1, 1)
    assert not index.is_full
    index.maybe_append(2, 2)
    assert index.is_full
    assert index.maybe_append(3, 3)


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize(("relative", "left"), [(26, 3), (25, 2), (21, 2), (20, 1), (10, 0)])
def test_truncate(disk: MemoryFileSystem, written: bool, relative: int, left: int) -> None:
    index = index_of(disk, ROWS, written=written)
    index.truncate_to(BASE + relative)
    assert index.entry_count == left
    assert index.maybe_append(10_000, BASE + 99)
    index.write_tail()
    assert index_of(disk).last_entry == (10_000, BASE + 99)
    assert len(disk.live_bytes(PATH)) == 12 * (left + 1)


def test_a_failed_write_keeps_the_rows_in_memory(disk: MemoryFileSystem) -> None:
    index = index_of(disk, ROWS, written=False)
    disk.fail("pwrite", error=errno.EIO, bytes_written=5)
    with pytest.raises(OSError, match="Input/output"):
        index.write_tail()
    index.write_tail()
    assert index_of(disk).entry_count == 3


def test_sync(disk: MemoryFileSystem) -> None:
    index = TimeIndex(OpenFiles(disk, 10), PATH, BASE, 1 << 20)
    index.sync()
    index.maybe_append(5, BASE)
    index.write_tail()
    disk.sync_directory("/")
    index.sync()
    assert disk.durable_bytes(PATH) == struct.pack(">qi", 5, 0)


@pytest.mark.parametrize("zeros", [12, 120, 10_000])
def test_padding_with_zeros_is_not_rows(disk: MemoryFileSystem, zeros: int) -> None:
    index_of(disk, ROWS)
    disk.open(PATH).truncate(36 + zeros)
    index = index_of(disk)
    assert (index.entry_count, index.last_entry) == (3, (9_000, BASE + 25))


def test_garbage_never_raises(disk: MemoryFileSystem) -> None:
    randomness = random.Random(3)
    for size in (1, 12, 13, 4096, 20_000):
        disk.open(PATH, create=True).truncate(0)
        disk.open(PATH).pwrite(randomness.randbytes(size), 0)
        index = index_of(disk)
        for target in (-1, 0, 1_000, 2**62):
            index.lookup(target)
        index.maybe_append(5, BASE + 5)
        index.truncate_to(BASE + 1_000)
        index.clear()
        assert (index.entry_count, index.lookup(5)) == (0, None)


def test_values_that_fit_no_entry_are_left_out(disk: MemoryFileSystem) -> None:
    """A base offset with a flipped bit, when the index is rebuilt."""
    index = index_of(disk, ROWS, written=False)
    assert not index.maybe_append(10_000, BASE + 2**31)
    assert index.maybe_append(10_000, BASE + 2**31 - 1)
    assert index.last_entry == (10_000, BASE + 2**31 - 1)
