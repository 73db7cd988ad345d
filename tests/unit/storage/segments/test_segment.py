"""Segments: index entries as Kafka writes them, timestamps, rebuilding, truncating, deleting."""

from __future__ import annotations

import errno
import itertools
import struct

import pytest

from protocol.records import read_header
from storage.errors import AppendFailed, DamagedLog, LogFailed
from storage.files.open_files import OpenFiles
from storage.segments.segment import Segment
from tests.support.batches import batch, header_of
from tests.support.lookups import first_found
from tests.support.memory_filesystem import MemoryFileSystem
from tests.support.segments import TIMES, append, create_segment, fill, reopen

INDEX_SIZE_MAX = 10 * 1024 * 1024


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
        created_ms=5,
    )


# -- Appending ---------------------------------------------------------------------------------


def test_index_entries_are_those_of_kafkas_log_segment(disk: MemoryFileSystem) -> None:
    """One entry before a batch if more than the interval was appended since the last entry."""
    segment = create(disk, 10, interval=1000)
    for index in range(9):
        append(segment, 10 + 3 * index, 3, size=400, timestamp=1_000 + 10 * index)
    segment.indexes.write()
    # 0, 400 and 800 bytes are not more than 1000; before the batch at 1200 there are 1200.
    assert disk.live_bytes(segment.indexes.offset.path) == struct.pack(">4i", 11, 1200, 20, 2400)
    assert disk.live_bytes(segment.indexes.time.path) == struct.pack(">qiqi", 1032, 11, 1062, 20)


def test_an_append_is_one_system_call(disk: MemoryFileSystem) -> None:
    segment = create(disk, interval=0)
    append(segment, 0)
    append(segment, 3)
    disk.counts.clear()
    for first in range(6, 300, 3):
        append(segment, first)
    assert disk.counts == {"pwrite": 98}


def test_an_append_accepts_the_stamped_offset(disk: MemoryFileSystem) -> None:
    segment = create(disk, 100, interval=0)
    produced = batch(0, 3)
    header = header_of(produced)
    for first in (100, 103, 106):
        struct.pack_into(">q", produced, 0, first)
        segment.append(produced, header, first)
    assert segment.next_offset == 109
    assert segment.max_timestamp_offset == 102
    found = segment.position_of(107)
    assert found is not None
    assert found[1].base_offset == 106
    assert segment.indexes.offset.last_entry == (108, 2 * len(produced))


@pytest.mark.parametrize("truncates", [True, False])
def test_a_failed_append_leaves_no_trace(disk: MemoryFileSystem, truncates: bool) -> None:
    segment = create(disk, interval=0)
    fill(segment, [1_000, 1_001])
    before = (segment.size, segment.next_offset, segment.max_timestamp)
    entries = segment.indexes.offset.entry_count
    disk.fail("pwrite", error=errno.ENOSPC, bytes_written=100)
    if not truncates:
        disk.fail("truncate")
    with pytest.raises(AppendFailed) as caught:
        fill(segment, [9_000])
    assert caught.value.rolled_back is truncates
    assert (segment.size, segment.next_offset, segment.max_timestamp) == before
    assert segment.indexes.offset.entry_count == entries


def test_a_log_that_cannot_be_read_fails_the_append_before_the_write(
    disk: MemoryFileSystem,
) -> None:
    segment = create(disk)
    fill(segment, [1_000])
    opened = reopen(disk, segment)
    disk.fail("pread", path_part=".log")
    with pytest.raises(LogFailed):
        fill(opened, [1_001])
    assert opened.size == segment.size == disk.size(segment.log_file.path)


def test_create_empties_index_files_left_under_its_name(disk: MemoryFileSystem) -> None:
    for name in ("index", "timeindex"):
        disk.open(f"/t-0/{7:020d}.{name}", create=True).pwrite(b"left by a crash", 0)
    segment = create(disk, 7, interval=0)
    fill(segment, [1, 2])
    assert segment.indexes.offset.entry_count == 1
    segment.indexes.write()
    assert disk.size(segment.indexes.offset.path) == 8
    assert disk.size(segment.indexes.time.path) == 12
    assert segment.created_ms == 5


def test_create_overwrites_no_log(disk: MemoryFileSystem) -> None:
    fill(create(disk), [1, 2])
    with pytest.raises(FileExistsError):
        create(disk)
    assert disk.size(f"/t-0/{0:020d}.log") == 800


# -- Timestamps --------------------------------------------------------------------------------


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES.keys())
@pytest.mark.parametrize("reopened", [False, True])
@pytest.mark.parametrize("start_offset", [0, 17])
def test_look_up_by_timestamp_agrees_with_a_scan(
    disk: MemoryFileSystem, times: list[int], reopened: bool, start_offset: int
) -> None:
    segment = create(disk)
    fill(segment, times)
    if reopened:
        segment.on_roll()
        segment = reopen(disk, segment)
    for wanted in {0, 999, 1_000, 1_001, 1_030, 1_059, 1_060, 9_999, 10_000, *times}:
        expected = next(
            ((t, o, 0) for o, t in enumerate(times) if t >= wanted and o >= start_offset), None
        )
        assert first_found(segment.timestamp_candidates(wanted, start_offset)) == expected, wanted
    assert not segment.indexes.damage


@pytest.mark.parametrize("codec", [0, 1, 4])
def test_a_timestamp_inside_a_batch(disk: MemoryFileSystem, codec: int) -> None:
    segment = create(disk, 50)
    append(segment, 50, 10, timestamp=1_000, codec=codec, leader_epoch=4)  # 1000 … 1009
    assert first_found(segment.timestamp_candidates(1_005)) == (1_005, 55, 4)
    assert first_found(segment.timestamp_candidates(1_005, 57)) == (
        1_007,
        57,
        4,
    )  # the log begins at 57
    assert first_found(segment.timestamp_candidates(1_005, 60)) is None
    assert first_found(segment.timestamp_candidates(1_010)) is None
    assert first_found(segment.timestamp_candidates(1_005, 0, 0)) is None


# -- Indexes -----------------------------------------------------------------------------------


def test_a_roll_ends_the_time_index_with_the_largest_timestamp(disk: MemoryFileSystem) -> None:
    segment = create(disk, interval=1000)
    fill(segment, [1_000, 2_000, 1_500])
    segment.on_roll()
    assert disk.live_bytes(segment.indexes.time.path) == struct.pack(">qi", 2_000, 1)
    segment.on_roll()
    assert disk.size(segment.indexes.time.path) == 12


def test_rebuilt_indexes_equal_those_of_appending(disk: MemoryFileSystem) -> None:
    segment = create(disk, 1_000)
    fill(segment, TIMES["shuffled"])
    segment.on_roll()
    paths = segment.files.index_paths()
    made = [disk.live_bytes(path) for path in paths]
    for path in paths:
        disk.unlink(path)
    opened = reopen(disk, segment, known_end=False)
    opened.indexes.damage = "missing"
    assert opened.rebuild_indexes() is None
    assert [disk.live_bytes(path) for path in paths] == made
    assert (opened.next_offset, opened.indexes.damage) == (1_060, "")
    assert opened.max_timestamp == max(TIMES["shuffled"])


def test_a_rebuild_stops_at_damage_and_reports_it(disk: MemoryFileSystem) -> None:
    segment = create(disk, interval=0)
    fill(segment, TIMES["rising"])
    disk.edit(segment.log_file.path, 30 * 400 + 16, b"\x09")
    opened = reopen(disk, segment)
    damage = opened.rebuild_indexes()
    assert isinstance(damage, DamagedLog)
    assert (damage.position, damage.offset) == (30 * 400, 30)
    assert opened.indexes.offset.last_entry == (29, 29 * 400)
    assert opened.next_offset == 60  # the end does not move


def test_recovery_continues_from_a_point(disk: MemoryFileSystem) -> None:
    """Indexes are cut at the recovery point, then extended with the batches after it."""
    segment = create(disk)
    fill(segment, TIMES["shuffled"])
    segment.indexes.write()
    made = [disk.live_bytes(path) for path in segment.files.index_paths()]
    opened = reopen(disk, segment, known_end=False)
    entry = opened.indexes.offset.lookup(30)
    assert entry is not None
    opened.truncate_indexes(entry[0])
    for position, header in opened.log_file.scan(entry[1]):
        opened.note_batch(position, header)
    opened.indexes.write()
    assert (opened.next_offset, opened.max_timestamp) == (60, max(TIMES["shuffled"]))
    assert opened.indexes.offset.entry_count >= len(made[0]) // 8 - 2
    for offset in range(60):
        found = opened.position_of(offset)
        assert found is not None
        assert found[0] == 400 * offset
    assert not opened.indexes.damage


def test_headers_are_those_of_the_batches(disk: MemoryFileSystem) -> None:
    segment = create(disk, interval=0)
    laid = []
    for first, codec in zip(itertools.count(0, 5), (0, 1, 2, 3, 4)):
        data = batch(first, 5, codec=codec)
        laid.append((segment.append(data, read_header(data)), read_header(data)))
    assert list(segment.log_file.scan()) == laid
