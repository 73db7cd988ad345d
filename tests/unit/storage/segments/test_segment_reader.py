"""Reading batches: whole ones, and what damage leaves of a read."""

from __future__ import annotations

import random
import struct

import pytest

from storage.errors import DamagedLog
from storage.segments.log_file import LogSlice
from tests.support.laid_segments import append, create, filled, reopen
from tests.support.memory_filesystem import MemoryFileSystem


@pytest.fixture
def disk() -> MemoryFileSystem:
    memory = MemoryFileSystem()
    memory.mkdir("/t-0")
    return memory


# -- Reads -------------------------------------------------------------------------------------


def sizes(part: LogSlice | None) -> tuple[int, int] | None:
    return part and (part.position, part.size)


@pytest.mark.parametrize("reopened", [False, True])
def test_reads_are_whole_batches(disk: MemoryFileSystem, reopened: bool) -> None:
    segment = create(disk, interval=0)
    for first in range(0, 50, 5):
        append(segment, first, 5, 400)
    if reopened:
        segment = reopen(disk, segment)
    cases = [
        ("all", 0, 10_000, None, True, (0, 4000)),
        ("exactly all", 0, 4000, None, True, (0, 4000)),
        ("one byte less", 0, 3999, None, True, (0, 3600)),
        ("two and a bit", 0, 900, None, True, (0, 800)),
        ("from the middle of a batch", 17, 900, None, True, (1200, 800)),
        ("exactly one", 17, 400, None, True, (1200, 400)),
        ("less than one", 17, 399, None, True, (1200, 400)),
        ("nothing asked", 17, 0, None, True, (1200, 400)),
        ("less than one, and that not wanted", 17, 399, None, False, None),
        ("exactly one, no more wanted", 17, 400, None, False, (1200, 400)),
        ("up to a mark", 17, 10_000, 2000, True, (1200, 800)),
        ("the mark is nearer than the size", 17, 900, 1600, True, (1200, 400)),
        ("the size is nearer than the mark", 0, 900, 2000, True, (0, 800)),
        ("behind the mark", 30, 10_000, 2000, True, None),
        ("the last batch", 49, 10_000, None, True, (3600, 400)),
        ("behind the end", 50, 10_000, None, True, None),
    ]
    for name, offset, size_max, end, at_least_one, expected in cases:
        part = segment.read(offset, size_max, end, at_least_one_batch=at_least_one)
        assert sizes(part) == expected, name


def test_a_read_that_ends_at_a_known_offset_is_remembered(disk: MemoryFileSystem) -> None:
    segment, laid = filled(disk)
    opened = reopen(disk, segment)
    end, offset = laid[100][0], laid[100][1]
    assert sizes(opened.read(0, 10**6, end, offset_end=offset)) == (0, end)
    disk.calls.clear()
    found = opened.position_of(offset)
    assert found is not None
    assert found[0] == end
    assert [op for op, _ in disk.calls] == ["pread"]


def test_a_cached_look_up_serves_once_and_never_past_the_visible_end(
    disk: MemoryFileSystem,
) -> None:
    segment, laid = filled(disk)
    position, first, last = laid[50]
    found = segment.position_of(last)
    disk.counts.clear()
    assert segment.position_of(last) == found
    assert disk.counts["pread"] == 0
    assert segment.position_of(last) == found
    assert disk.counts["pread"] > 0, "the second answer is read again: files can rot"

    assert segment.position_of(last, position) is None, "the batch ends after the given end"
    segment.position_of(last)
    segment.truncate_indexes(first)
    segment.log_file.truncate(position)
    assert segment.position_of(last) is None, "the batch was truncated"


def test_the_cache_is_bounded_with_many_readers(disk: MemoryFileSystem) -> None:
    segment, laid = filled(disk)
    for _, first, _ in laid:
        segment.read(first, 1_000)
    assert len(segment._read_ends) <= 16
    assert len(segment._appended) <= 16


@pytest.mark.parametrize("shape", ["indexed", "no index", "wrong index"])
def test_the_next_offset_is_read_from_the_end(disk: MemoryFileSystem, shape: str) -> None:
    segment, laid = filled(disk)
    opened = reopen(disk, segment)
    if shape == "no index":
        disk.unlink(opened.indexes.offset.path)
    if shape == "wrong index":
        disk.edit(opened.indexes.offset.path, 0, bytes(random.Random(1).randbytes(400)))
    opened.next_offset = -1
    disk.counts.clear()
    assert opened.read_next_offset() == laid[-1][2] + 1 == opened.next_offset
    if shape == "indexed":
        assert disk.counts["pread"] <= 5


def test_the_next_offset_of_an_empty_or_torn_segment(disk: MemoryFileSystem) -> None:
    assert create(disk, 7).read_next_offset() == 7
    segment, laid = filled(disk)
    segment.log_file.truncate(laid[-1][0] + 70)
    opened = reopen(disk, segment)
    with pytest.raises(DamagedLog) as caught:
        opened.read_next_offset()
    assert caught.value.position == laid[-1][0]


# -- Damage ----------------------------------------------------------------------------------------


def test_a_slice_ends_before_the_damage_and_the_next_read_reports_it(
    disk: MemoryFileSystem,
) -> None:
    segment, laid = filled(disk, interval=100_000)  # no index entries: the walk reaches the damage
    position, first, _ = laid[8]
    disk.edit(segment.log_file.path, position + 16, b"\x07")
    opened = reopen(disk, segment)
    part = opened.read(0, 10_000)
    assert part is not None
    assert (part.position, part.size) == (0, position)
    with pytest.raises(DamagedLog, match="magic 7"):
        opened.read(first, 10_000)


def test_a_batch_that_does_not_follow_the_one_before_may_not_be_the_damaged_one(
    disk: MemoryFileSystem,
) -> None:
    """The batch before claims the offsets of those behind it, so neither is in the slice."""
    segment, laid = filled(disk, interval=100_000)
    position, first, _ = laid[8]
    disk.edit(segment.log_file.path, position, struct.pack(">q", first + 20))
    part = reopen(disk, segment).read(0, 10_000)
    assert part is not None
    assert (part.position, part.size) == (0, position)


def test_a_slice_tells_of_the_hole_before_it(disk: MemoryFileSystem) -> None:
    """Where there can be none, the batch behind it claims the offsets of another one."""
    segment = create(disk, base_offset=10)
    for first in (10, 12, 20):
        append(segment, first, 2)
    opened = reopen(disk, segment)
    found = [opened.read(offset, 1) for offset in (10, 13, 15, 21)]
    assert [part and part.hole_from for part in found] == [-1, -1, 14, 14]
    disk.edit(segment.log_file.path, 7, bytes([11]))
    part = reopen(disk, segment).read(12, 1)
    assert part is not None
    assert (part.position, part.hole_from) == (0, 10)


def test_no_reader_is_led_to_a_batch_out_of_its_place(disk: MemoryFileSystem) -> None:
    """A read ended before a batch that claims another's offset: that is no short cut to it."""
    segment = create(disk)
    for first in (0, 2, 4, 6, 8):
        append(segment, first, 2)
    size = segment.size // 5
    disk.edit(segment.log_file.path, size + 7, bytes([6]))
    opened = reopen(disk, segment)
    part = opened.read(0, size + 1)
    assert part is not None
    assert part.size == size
    part = opened.read(6, 1)
    assert part is None or part.hole_from == 2
