"""Segments: index entries as Kafka makes them, timestamps, rebuilding, truncating, deleting."""

from __future__ import annotations

import errno
import itertools
import random
import struct

import pytest

from protocol.records import read_header
from storage.errors import AppendFailed, DamagedLog, LogFailed
from storage.files.open_files import OpenFiles
from storage.segments.segment import Segment
from tests.support.batches import batch, header_of
from tests.support.lookups import first_found
from tests.support.memory_filesystem import MemoryFileSystem

INDEX_SIZE_MAX = 10 * 1024 * 1024


@pytest.fixture
def disk() -> MemoryFileSystem:
    memory = MemoryFileSystem()
    memory.mkdir("/t-0")
    return memory


def create(
    disk: MemoryFileSystem, base_offset: int = 0, interval: int = 1000, index_max: int = 1 << 20
) -> Segment:
    return Segment.create(
        OpenFiles(disk, 10),
        "/t-0",
        base_offset,
        index_interval_bytes=interval,
        index_size_max=index_max,
        created_ms=5,
    )


def reopen(disk: MemoryFileSystem, segment: Segment, *, known_end: bool = True) -> Segment:
    opened = Segment.open(
        OpenFiles(disk, 10),
        "/t-0",
        segment.base_offset,
        size=disk.size(segment.log_file.path),
        index_interval_bytes=segment.index_interval_bytes,
        index_size_max=INDEX_SIZE_MAX,
        created_ms=9,
    )
    if known_end:
        opened.next_offset = segment.next_offset
    return opened


def append(segment: Segment, base_offset: int, count: int = 3, **options: int) -> int:
    data = batch(base_offset, count, **options)
    return segment.append(data, header_of(data))


def fill(segment: Segment, times: list[int], size: int = 400) -> None:
    """Append a batch of one record per time."""
    for time in times:
        append(segment, segment.next_offset, 1, size=size, timestamp=time)


# -- Appending ---------------------------------------------------------------------------------


def test_index_entries_are_made_as_kafkas_log_segment_makes_them(disk: MemoryFileSystem) -> None:
    """One before a batch when more than the interval was appended since the last one."""
    segment = create(disk, 10, interval=1000)
    for index in range(9):
        append(segment, 10 + 3 * index, 3, size=400, timestamp=1_000 + 10 * index)
    segment.write_indexes()
    # 0, 400 and 800 bytes are not more than 1000; before the batch at 1200 there are 1200.
    assert disk.live_bytes(segment.offset_index.path) == struct.pack(">4i", 11, 1200, 20, 2400)
    assert disk.live_bytes(segment.time_index.path) == struct.pack(">qiqi", 1032, 11, 1062, 20)


def test_an_append_is_one_system_call(disk: MemoryFileSystem) -> None:
    segment = create(disk, interval=0)
    append(segment, 0)
    append(segment, 3)
    disk.counts.clear()
    for first in range(6, 300, 3):
        append(segment, first)
    assert disk.counts == {"pwrite": 98}


def test_an_append_can_be_told_the_stamped_offset(disk: MemoryFileSystem) -> None:
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
    assert segment.offset_index.last_entry == (108, 2 * len(produced))


@pytest.mark.parametrize("truncates", [True, False])
def test_a_failed_append_leaves_no_trace(disk: MemoryFileSystem, truncates: bool) -> None:
    segment = create(disk, interval=0)
    fill(segment, [1_000, 1_001])
    before = (segment.size, segment.next_offset, segment.max_timestamp)
    entries = segment.offset_index.entry_count
    disk.fail("pwrite", error=errno.ENOSPC, bytes_written=100)
    if not truncates:
        disk.fail("truncate")
    with pytest.raises(AppendFailed) as caught:
        fill(segment, [9_000])
    assert caught.value.rolled_back is truncates
    assert (segment.size, segment.next_offset, segment.max_timestamp) == before
    assert segment.offset_index.entry_count == entries


def test_an_index_that_cannot_be_opened_does_not_fail_an_append(disk: MemoryFileSystem) -> None:
    segment = create(disk, interval=0)
    fill(segment, [1_000] * 3)
    segment.write_indexes()
    opened = reopen(disk, segment)
    assert opened.max_timestamp == 1_000
    opened.forget_files()
    opened = reopen(disk, segment)
    disk.fail("open", error=errno.EMFILE, forever=True, path_part="index")
    fill(opened, [1_001, 1_002])
    assert opened.next_offset == 5
    assert "cannot be read" in opened.index_damage
    assert not opened.is_index_full
    disk.heal()
    assert opened.rebuild_indexes() is None
    assert opened.offset_index.entry_count == 4


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


def test_full_indexes_and_offsets_that_do_not_fit(disk: MemoryFileSystem) -> None:
    segment = create(disk, 5, interval=0, index_max=36)
    fill(segment, [10])
    assert not segment.is_index_full
    fill(segment, [11, 12])
    assert segment.is_index_full  # the time index keeps room for one last entry
    assert segment.fits(5 + 2**31 - 1)
    assert not segment.fits(5 + 2**31)


def test_create_empties_index_files_left_under_its_name(disk: MemoryFileSystem) -> None:
    for name in ("index", "timeindex"):
        disk.open(f"/t-0/{7:020d}.{name}", create=True).pwrite(b"left by a crash", 0)
    segment = create(disk, 7, interval=0)
    fill(segment, [1, 2])
    assert segment.offset_index.entry_count == 1
    segment.write_indexes()
    assert disk.size(segment.offset_index.path) == 8
    assert disk.size(segment.time_index.path) == 12
    assert segment.created_ms == 5


def test_create_writes_over_nobodys_log(disk: MemoryFileSystem) -> None:
    fill(create(disk), [1, 2])
    with pytest.raises(FileExistsError):
        create(disk)
    assert disk.size(f"/t-0/{0:020d}.log") == 800


# -- Timestamps --------------------------------------------------------------------------------

TIMES = {
    "rising": list(range(1_000, 1_060)),
    "constant": [1_000] * 60,
    "falling": list(range(1_060, 1_000, -1)),
    "shuffled": random.Random(1).sample(range(1_000, 2_000), 60),
    "one far ahead": [*range(1_000, 1_030), 9_999, *range(1_030, 1_059)],
    "none": [-1] * 60,
}


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES.keys())
@pytest.mark.parametrize("state", ["in memory", "rolled", "not rolled", "no time index"])
def test_the_largest_timestamp(disk: MemoryFileSystem, times: list[int], state: str) -> None:
    segment = create(disk)
    fill(segment, times)
    if state == "rolled":
        segment.on_roll()
    else:
        segment.write_indexes()
    if state == "no time index":
        segment.time_index.clear()
    if state != "in memory":
        segment = reopen(disk, segment)
    assert segment.max_timestamp == max(times)
    if max(times) >= 0:
        assert segment.max_timestamp_offset == times.index(max(times))
    assert segment.first_timestamp == times[0]
    assert not segment.index_damage


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES.keys())
@pytest.mark.parametrize("reopened", [False, True])
@pytest.mark.parametrize("start_offset", [0, 17])
def test_look_up_by_timestamp_is_what_a_scan_finds(
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
    assert not segment.index_damage


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


DAMAGED_TIME_INDEXES = [
    ("empty", lambda rows: b""),
    ("cut", lambda rows: rows[:24]),
    ("padded with zeros", lambda rows: rows + bytes(1200)),
    ("zeros", lambda rows: bytes(len(rows))),
    ("last far ahead", lambda rows: rows[:-12] + struct.pack(">qi", 2**50, 59)),
    ("last behind the first", lambda rows: rows[:-12] + struct.pack(">qi", 3, 59)),
    ("offsets off", lambda rows: _shift(rows, 0, -3)),
    ("offsets past the end", lambda rows: _shift(rows, 0, 3_000)),
    ("times ahead", lambda rows: _shift(rows, 500, 0)),
    ("random", lambda rows: random.Random(8).randbytes(len(rows))),
]


def _shift(rows: bytes, time: int, offset: int) -> bytes:
    return b"".join(
        struct.pack(">qi", t + time, o + offset) for t, o in struct.iter_unpack(">qi", rows)
    )


@pytest.mark.parametrize(
    ("name", "damage"), DAMAGED_TIME_INDEXES, ids=[d[0] for d in DAMAGED_TIME_INDEXES]
)
def test_a_wrong_time_index_drives_neither_retention_nor_look_ups(
    disk: MemoryFileSystem, name: str, damage: object
) -> None:
    """KAFKA-10207: zeros at the end of a time index made Kafka delete live data."""
    times = TIMES["rising"]
    segment = create(disk)
    fill(segment, times)
    segment.on_roll()
    path = segment.time_index.path
    content = damage(disk.live_bytes(path))  # type: ignore[operator]
    disk.open(path).truncate(0)
    disk.open(path).pwrite(content, 0)
    opened = reopen(disk, segment)
    assert opened.max_timestamp == 1_059, name
    for wanted in (0, 1_000, 1_017, 1_058, 1_059):
        found = first_found(opened.timestamp_candidates(wanted))
        assert found is not None
        assert found.timestamp == max(wanted, 1_000), name
    assert first_found(opened.timestamp_candidates(1_060)) is None


def test_damage_in_the_log_does_not_stop_the_largest_timestamp(disk: MemoryFileSystem) -> None:
    segment = create(disk)
    fill(segment, TIMES["rising"])
    segment.on_roll()
    disk.edit(segment.log_file.path, 30 * 400 + 16, b"\x09")
    assert reopen(disk, segment).max_timestamp == 1_059  # the index and the end agree
    segment.time_index.clear()
    assert reopen(disk, segment).max_timestamp == 1_029  # what could be read


# -- Keeping -----------------------------------------------------------------------------------


def test_a_roll_ends_the_time_index_with_the_largest_timestamp(disk: MemoryFileSystem) -> None:
    segment = create(disk, interval=1000)
    fill(segment, [1_000, 2_000, 1_500])
    segment.on_roll()
    assert disk.live_bytes(segment.time_index.path) == struct.pack(">qi", 2_000, 1)
    segment.on_roll()
    assert disk.size(segment.time_index.path) == 12


def test_written_indexes_are_named_for_syncing(disk: MemoryFileSystem) -> None:
    segment = create(disk, interval=0)
    disk.sync_directory("/t-0")
    disk.sync_directory("/")
    assert segment.write_indexes() == []
    fill(segment, [1, 2, 3])
    files = segment.write_indexes()
    assert {file.path for file in files} == {segment.offset_index.path, segment.time_index.path}
    segment.sync_indexes()
    assert segment.write_indexes() == []
    assert disk.durable_bytes(segment.offset_index.path) == struct.pack(">4i", 1, 400, 2, 800)


def test_rebuilt_indexes_are_those_that_appending_made(disk: MemoryFileSystem) -> None:
    segment = create(disk, 1_000)
    fill(segment, TIMES["shuffled"])
    segment.on_roll()
    paths = segment.files()[1:]
    made = [disk.live_bytes(path) for path in paths]
    for path in paths:
        disk.unlink(path)
    opened = reopen(disk, segment, known_end=False)
    opened.index_damage = "missing"
    assert opened.rebuild_indexes() is None
    assert [disk.live_bytes(path) for path in paths] == made
    assert (opened.next_offset, opened.index_damage) == (1_060, "")
    assert opened.max_timestamp == max(TIMES["shuffled"])


def test_a_rebuild_stops_at_damage_and_says_so(disk: MemoryFileSystem) -> None:
    segment = create(disk, interval=0)
    fill(segment, TIMES["rising"])
    disk.edit(segment.log_file.path, 30 * 400 + 16, b"\x09")
    opened = reopen(disk, segment)
    damage = opened.rebuild_indexes()
    assert isinstance(damage, DamagedLog)
    assert (damage.position, damage.offset) == (30 * 400, 30)
    assert opened.offset_index.last_entry == (29, 29 * 400)
    assert opened.next_offset == 60  # the end does not move


def test_recovery_walks_on_from_a_point(disk: MemoryFileSystem) -> None:
    """Indexes are cut at the recovery point and fed with what is found behind it."""
    segment = create(disk)
    fill(segment, TIMES["shuffled"])
    segment.write_indexes()
    made = [disk.live_bytes(path) for path in segment.files()[1:]]
    opened = reopen(disk, segment, known_end=False)
    entry = opened.offset_index.lookup(30)
    assert entry is not None
    opened.truncate_indexes(entry[0])
    for position, header in opened.log_file.scan(entry[1]):
        opened.note_batch(position, header)
    opened.write_indexes()
    assert (opened.next_offset, opened.max_timestamp) == (60, max(TIMES["shuffled"]))
    assert opened.offset_index.entry_count >= len(made[0]) // 8 - 2
    for offset in range(60):
        found = opened.position_of(offset)
        assert found is not None
        assert found[0] == 400 * offset
    assert not opened.index_damage


@pytest.mark.parametrize(("offset", "left"), [(60, 60), (59, 59), (31, 31), (1, 1), (0, 0)])
def test_truncate(disk: MemoryFileSystem, offset: int, left: int) -> None:
    segment = create(disk)
    fill(segment, TIMES["rising"])
    segment.read(40, 500)  # remembered positions must go as well
    assert segment.truncate(400 * offset, offset) == 400 * (60 - left)
    assert (segment.size, segment.next_offset) == (400 * left, left)
    assert segment.position_of(left) is None
    assert segment.max_timestamp == (999 + left if left else -1)
    fill(segment, [5_000])
    assert segment.max_timestamp == 5_000
    segment.on_roll()
    opened = reopen(disk, segment, known_end=False)
    assert opened.read_next_offset() == left + 1
    found = opened.position_of(left)
    assert found is not None
    assert found[0] == 400 * left
    last = opened.offset_index.last_entry
    assert last is None or last[1] <= 400 * left


def test_indexes_never_point_past_the_data_when_a_truncate_fails(disk: MemoryFileSystem) -> None:
    segment = create(disk, interval=0)
    fill(segment, TIMES["rising"])
    segment.write_indexes()
    for path in [".index", ".timeindex", ".log"]:
        disk.heal()
        disk.fail("truncate", path_part=path)
        with pytest.raises(OSError, match="Input/output"):
            segment.truncate(12_000, 30)
        assert segment.size == 24_000
        found = segment.position_of(45)
        assert found is not None
        assert found[0] == 18_000
    disk.heal()
    segment.truncate(12_000, 30)
    last = segment.offset_index.last_entry
    assert last is not None
    assert last[1] < 12_000


def test_deleted_files_keep_serving_what_was_handed_out(disk: MemoryFileSystem) -> None:
    segment = create(disk, interval=0)
    fill(segment, [1, 2, 3])
    segment.write_indexes()
    disk.open(f"/t-0/{0:020d}.txnindex", create=True)
    content = disk.live_bytes(segment.log_file.path)
    part = segment.read(0, 10_000)
    assert part is not None
    renamed = segment.rename_deleted()
    assert renamed == [
        f"/t-0/{0:020d}.{kind}.deleted" for kind in ("log", "index", "timeindex", "txnindex")
    ]
    assert disk.list("/t-0") == sorted(path[5:] for path in renamed)
    assert segment.files() == renamed[:3]
    segment.forget_files()
    for path in renamed:
        disk.unlink(path)
    assert part.load_hot() == content


def test_deleting_takes_the_log_first(disk: MemoryFileSystem) -> None:
    """A crash in between leaves an index without a log, never a log that looks alive."""
    segment = create(disk)
    fill(segment, [1])
    segment.write_indexes()
    disk.calls.clear()
    segment.rename_deleted()
    renames = [path for op, path in disk.calls if op == "rename"]
    assert renames[0].endswith(".log")


def test_headers_are_those_of_the_batches(disk: MemoryFileSystem) -> None:
    segment = create(disk, interval=0)
    laid = []
    for first, codec in zip(itertools.count(0, 5), (0, 1, 2, 3, 4)):
        data = batch(first, 5, codec=codec)
        laid.append((segment.append(data, read_header(data)), read_header(data)))
    assert list(segment.log_file.scan()) == laid
