"""The largest timestamp of a segment, whatever its time index contains."""

from __future__ import annotations

import random
import struct

import pytest

from storage.errors import LogFailed
from storage.files.open_files import OpenFiles
from storage.segments.cold import Pulled, without_waiting
from storage.segments.largest_timestamp import ColdTimestamp
from storage.segments.segment import Segment
from tests.support.lookups import first_found
from tests.support.memory_filesystem import MemoryFileSystem
from tests.support.segments import TIMES, create_segment, fill, reopen


@pytest.fixture
def disk() -> MemoryFileSystem:
    memory = MemoryFileSystem()
    memory.mkdir("/t-0")
    return memory


def create(disk: MemoryFileSystem, base_offset: int = 0, interval: int = 1000) -> Segment:
    return create_segment(OpenFiles(disk, 10), "/t-0", base_offset, interval=interval)


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES.keys())
@pytest.mark.parametrize("state", ["in memory", "rolled", "not rolled", "no time index"])
def test_the_largest_timestamp(disk: MemoryFileSystem, times: list[int], state: str) -> None:
    segment = create(disk)
    fill(segment, times)
    if state == "rolled":
        segment.on_roll()
    else:
        segment.indexes.write()
    if state == "no time index":
        segment.indexes.time.clear()
    if state != "in memory":
        segment = reopen(disk, segment)
    assert segment.max_timestamp == max(times)
    if max(times) >= 0:
        assert segment.max_timestamp_offset == times.index(max(times))
    assert segment.first_timestamp == times[0]
    assert not segment.indexes.damage


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
def test_a_wrong_time_index_affects_neither_retention_nor_look_ups(
    disk: MemoryFileSystem, name: str, damage: object
) -> None:
    """KAFKA-10207: zeros at the end of a time index made Kafka delete live data."""
    times = TIMES["rising"]
    segment = create(disk)
    fill(segment, times)
    segment.on_roll()
    path = segment.indexes.time.path
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


def test_damage_in_the_log_does_not_hide_the_largest_timestamp(disk: MemoryFileSystem) -> None:
    segment = create(disk)
    fill(segment, TIMES["rising"])
    segment.on_roll()
    disk.edit(segment.log_file.path, 30 * 400 + 16, b"\x09")
    assert reopen(disk, segment).max_timestamp == 1_059  # the index and the end agree
    segment.indexes.time.clear()
    assert reopen(disk, segment).max_timestamp == 1_029  # of the readable batches


@pytest.mark.parametrize(("at", "rotten"), [(0, b"\x7f"), (8, b"\x7f"), (16, b"\x09")])
def test_batches_that_damage_hides_are_not_taken_for_old(
    disk: MemoryFileSystem, at: int, rotten: bytes
) -> None:
    """Retention deleted a segment with young records because the length before them had rotted."""
    segment = create(disk, interval=100_000)
    fill(segment, TIMES["rising"])
    segment.on_roll()
    disk.edit(segment.log_file.path, at, rotten)
    assert reopen(disk, segment).max_timestamp == 1_059
    path = segment.indexes.time.path
    for offset in (-1, 60):  # of no record here: the index is damaged, too
        disk.edit(path, len(disk.live_bytes(path)) - 4, struct.pack(">i", offset))
        assert reopen(disk, segment).max_timestamp < 1_059


def look_up(segment: Segment, pulled: Pulled) -> int:
    with without_waiting(pulled):
        return segment.max_timestamp


def miss(segment: Segment, pulled: Pulled) -> ColdTimestamp:
    with pytest.raises(ColdTimestamp) as caught:
        look_up(segment, pulled)
    return caught.value


def test_a_look_up_on_the_loop_reads_nothing_for_it(disk: MemoryFileSystem) -> None:
    """Not even what is in memory: it may be the headers of a whole segment."""
    segment = create(disk)
    fill(segment, TIMES["shuffled"])
    segment.indexes.write()
    segment, pulled = reopen(disk, segment), Pulled()
    pulled.starts_left = 1
    disk.counts.clear()
    missing = miss(segment, pulled)
    assert not disk.counts["pread"]
    missing.pull()
    miss(segment, Pulled())  # the segment belongs to the loop
    missing.keep(pulled)
    disk.counts.clear()
    assert look_up(segment, Pulled()) == max(TIMES["shuffled"])
    assert segment.max_timestamp_offset == TIMES["shuffled"].index(max(TIMES["shuffled"]))
    assert not disk.counts["pread"]
    assert pulled.starts_left > 1  # many such segments do not end the look-up


def test_what_a_thread_finds_is_dropped_if_the_segment_has_changed(disk: MemoryFileSystem) -> None:
    segment = create(disk)
    fill(segment, TIMES["rising"])
    segment = reopen(disk, segment)
    missing = miss(segment, Pulled())
    missing.pull()
    position, header = segment.position_of(30)  # type: ignore[misc]
    segment.truncate_indexes(30)
    segment.log_file.truncate(position)
    missing.keep(Pulled())
    assert segment.max_timestamp == header.max_timestamp - 1


def test_damage_that_a_thread_finds_is_flagged(disk: MemoryFileSystem) -> None:
    segment = create(disk)
    fill(segment, TIMES["rising"])
    segment.on_roll()
    segment = reopen(disk, segment)
    path = segment.indexes.offset.path
    disk.edit(path, 0, b"".join(struct.pack(">ii", at, at * 400 + 1) for at in range(59)))
    missing, pulled = miss(segment, Pulled()), Pulled()
    missing.pull()
    assert not segment.indexes.damage
    missing.keep(pulled)
    assert segment.indexes.damage
    assert look_up(segment, pulled) == 1_059


def test_a_log_that_cannot_be_read_fails_the_look_up(disk: MemoryFileSystem) -> None:
    segment = create(disk)
    fill(segment, TIMES["rising"])
    segment = reopen(disk, segment)
    missing, pulled = miss(segment, Pulled()), Pulled()
    disk.fail("pread", forever=True, path_part=".log")
    missing.pull()
    missing.keep(pulled)
    with pytest.raises(LogFailed, match="read at position"):
        look_up(segment, pulled)
    miss(segment, Pulled())  # the next look-up tries again
