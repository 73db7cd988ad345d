"""The offset index: look-ups as in Kafka, in memory and in the file; damage never raises."""

from __future__ import annotations

import errno
import random
import struct

import pytest

from storage.files.open_files import OpenFiles
from storage.segments.offset_index import OffsetIndex
from tests.support.memory_filesystem import MemoryFileSystem

BASE = 368769
PATH = f"/{BASE:020d}.index"
SIZE_MAX = 10 * 1024 * 1024


@pytest.fixture
def disk() -> MemoryFileSystem:
    return MemoryFileSystem()


def index_of(
    disk: MemoryFileSystem, rows: list[tuple[int, int]] | None = None, *, written: bool = True
) -> OffsetIndex:
    """Return an index of relative rows, read back from its file or still in memory."""
    index = OffsetIndex(OpenFiles(disk, 10), PATH, BASE, SIZE_MAX)
    for relative, position in rows or []:
        index.append(BASE + relative, position)
    if not written:
        return index
    index.write_tail()
    return OffsetIndex(OpenFiles(disk, 10), PATH, BASE, SIZE_MAX)


# The seeds' example, 368769.index: rows 1 -> 0, 3 -> 497, 6 -> 1407. Ours hold the last offset of
# a batch, as Kafka's have since it has batches; so row (3, 497) says that the batch at 497 ends
# with relative offset 3, and the row for a target is still the last one not above it.
ROWS = [(1, 0), (3, 497), (6, 1407)]


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize(
    ("relative", "expected"),
    [(-5, None), (0, None), (1, (1, 0)), (2, (1, 0)), (3, (3, 497)), (5, (3, 497)),
     (6, (6, 1407)), (7, (6, 1407)), (2**40, (6, 1407))],
)  # fmt: skip
def test_the_last_row_not_above_the_offset(
    disk: MemoryFileSystem, written: bool, relative: int, expected: tuple[int, int] | None
) -> None:
    index = index_of(disk, ROWS, written=written)
    found = index.lookup(BASE + relative)
    assert found == (expected and (BASE + expected[0], expected[1]))


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize(
    ("relative", "expected"),
    [(-5, (1, 0)), (1, (1, 0)), (2, (3, 497)), (3, (3, 497)), (4, (6, 1407)), (6, (6, 1407)),
     (7, None), (2**40, None)],
)  # fmt: skip
def test_the_first_row_not_below_the_offset(
    disk: MemoryFileSystem, written: bool, relative: int, expected: tuple[int, int] | None
) -> None:
    index = index_of(disk, ROWS, written=written)
    found = index.lookup_behind(BASE + relative)
    assert found == (expected and (BASE + expected[0], expected[1]))


def test_the_first_row_not_below_the_offset_in_file_and_memory(disk: MemoryFileSystem) -> None:
    index = index_of(disk, ROWS[:2])
    index.append(BASE + 6, 1407)
    assert [index.lookup_behind(BASE + at) for at in (1, 3, 4)] == [
        (BASE + relative, position) for relative, position in ROWS
    ]
    assert index_of(MemoryFileSystem()).lookup_behind(0) is None


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize(
    ("position", "expected"),
    [(0, (1, 0)), (496, (1, 0)), (497, (3, 497)), (1406, (3, 497)), (9999, (6, 1407))],
)
def test_the_last_row_not_after_the_position(
    disk: MemoryFileSystem, written: bool, position: int, expected: tuple[int, int]
) -> None:
    index = index_of(disk, ROWS, written=written)
    assert index.lookup_position(position) == (BASE + expected[0], expected[1])


def test_the_bytes_are_kafkas(disk: MemoryFileSystem) -> None:
    index_of(disk, ROWS)
    assert disk.live_bytes(PATH) == struct.pack(">6i", 1, 0, 3, 497, 6, 1407)


def test_an_append_touches_no_file(disk: MemoryFileSystem) -> None:
    index = index_of(disk)
    assert index.entry_count == 0
    disk.counts.clear()
    for relative, position in ROWS:
        index.append(BASE + relative, position)
    assert index.entry_count == 3
    assert index.last_entry == (BASE + 6, 1407)
    assert not disk.counts
    index.write_tail()
    index.write_tail()
    assert disk.counts["pwrite"] == 1


@pytest.mark.parametrize("shape", ["even", "dense at the end", "dense at the start"])
@pytest.mark.parametrize("in_memory", [0, 700])
def test_many_rows(disk: MemoryFileSystem, shape: str, in_memory: int) -> None:
    randomness = random.Random(7)
    count = 3000
    steps = {
        "even": lambda i: 4096,
        "dense at the end": lambda i: 1 if i > 1500 else 20_000,
        "dense at the start": lambda i: 20_000 if i > 1500 else 1,
    }[shape]
    rows, relative, position = [], 0, 0
    for i in range(count):
        relative += randomness.randint(1, 40)
        position += steps(i)
        rows.append((relative, position))
    index = index_of(disk, rows[: count - in_memory])
    for row in rows[count - in_memory :]:
        index.append(BASE + row[0], row[1])
    assert index.entry_count == count
    disk.counts.clear()
    targets = [*range(0, relative + 5, 97), *(row[0] for row in rows[::61])]
    for target in targets:
        below = [row for row in rows if row[0] <= target]
        expected = (BASE + below[-1][0], below[-1][1]) if below else None
        assert index.lookup(BASE + target) == expected, target
    assert disk.counts["pread"] <= 5 * len(targets)
    for target in range(0, position, position // 100):
        below = [row for row in rows if row[1] <= target]
        expected = (BASE + below[-1][0], below[-1][1]) if below else None
        assert index.lookup_position(target) == expected, target


def test_rows_that_do_not_rise_are_left_out(disk: MemoryFileSystem) -> None:
    index = index_of(disk, ROWS)
    for relative, position in [(6, 2000), (5, 2000), (9, 1000)]:
        index.append(BASE + relative, position)
    assert index.entry_count == 3


def test_full(disk: MemoryFileSystem) -> None:
    index = OffsetIndex(OpenFiles(disk, 10), PATH, 0, 20)  # room for two rows and a half
    assert not index.is_full
    index.append(1, 1)
    assert not index.is_full
    index.append(2, 2)
    assert index.is_full


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize(
    ("relative", "left"), [(100, 3), (7, 3), (6, 2), (4, 2), (3, 1), (2, 1), (1, 0), (0, 0)]
)
def test_truncate_drops_batches_not_wholly_below(
    disk: MemoryFileSystem, written: bool, relative: int, left: int
) -> None:
    index = index_of(disk, ROWS, written=written)
    index.truncate_to(BASE + relative)
    assert index.entry_count == left
    index.append(BASE + 200, 5000)
    index.write_tail()
    reopened = index_of(disk)
    assert reopened.entry_count == left + 1
    expected = [*ROWS[:left], (200, 5000)]
    assert disk.live_bytes(PATH) == b"".join(struct.pack(">2i", *row) for row in expected)


def test_a_failed_write_keeps_the_rows_in_memory(disk: MemoryFileSystem) -> None:
    index = index_of(disk, ROWS, written=False)
    disk.fail("pwrite", error=errno.ENOSPC, bytes_written=13)
    with pytest.raises(OSError, match="No space"):
        index.write_tail()
    assert index.lookup(BASE + 3) == (BASE + 3, 497)
    index.write_tail()
    assert index_of(disk).entry_count == 3
    assert index_of(disk).lookup(BASE + 3) == (BASE + 3, 497)


def test_sync_makes_it_durable_and_skips_a_clean_index(disk: MemoryFileSystem) -> None:
    index = OffsetIndex(OpenFiles(disk, 10), PATH, BASE, SIZE_MAX)
    index.sync()  # no file yet: nothing to do
    index.append(BASE + 1, 0)
    index.write_tail()
    disk.sync_directory("/")
    index.sync()
    index.sync()
    assert disk.counts["fdatasync"] == 1
    assert disk.durable_bytes(PATH) == struct.pack(">2i", 1, 0)


@pytest.mark.parametrize("zeros", [8, 16, 800, 10 * 1024])
def test_kafkas_preallocated_zeros_are_not_rows(disk: MemoryFileSystem, zeros: int) -> None:
    index_of(disk, ROWS)
    file = disk.open(PATH)
    file.truncate(24 + zeros)
    index = index_of(disk)
    assert index.entry_count == 3
    index.append(BASE + 9, 3000)
    index.write_tail()
    assert index_of(disk).lookup(BASE + 9) == (BASE + 9, 3000)


def test_garbage_never_raises(disk: MemoryFileSystem) -> None:
    randomness = random.Random(3)
    for size in (1, 8, 9, 4096, 5003, 20_000):
        disk.open(PATH, create=True).truncate(0)
        disk.open(PATH).pwrite(randomness.randbytes(size), 0)
        index = index_of(disk)
        for target in (0, 1, 1000, 2**31 - 1, 2**62):
            index.lookup(BASE + target)
            index.lookup_position(target)
        index.truncate_to(BASE + 1000)
        index.clear()
        assert index.entry_count == 0
        assert index.lookup(BASE + 5) is None


@pytest.mark.parametrize(("relative", "position"), [(2**31, 500), (2**62, 500), (5, 2**31)])
def test_values_that_fit_no_entry_are_left_out(
    disk: MemoryFileSystem, relative: int, position: int
) -> None:
    """A base offset with a flipped bit, when the index is rebuilt."""
    index = index_of(disk, ROWS[:2], written=False)
    index.append(BASE + relative, position)
    index.append(BASE + 2**31 - 1, 2**31 - 1)
    assert index.entry_count == 3
    index.write_tail()
    assert index.last_entry == (BASE + 2**31 - 1, 2**31 - 1)
