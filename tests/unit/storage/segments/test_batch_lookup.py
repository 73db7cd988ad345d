"""Finding batches: the seeds' worked examples, wrong indexes, damaged logs."""

from __future__ import annotations

import logging
import random
import struct

import pytest

from storage.errors import DamagedLog
from storage.segments.segment import Segment
from tests.support.batches import batch
from tests.support.laid_segments import append, create, filled, reopen
from tests.support.memory_filesystem import MemoryFileSystem


@pytest.fixture
def disk() -> MemoryFileSystem:
    memory = MemoryFileSystem()
    memory.mkdir("/t-0")
    return memory


# -- The seeds' worked examples ----------------------------------------------------------------


def test_seed_offset_368776_in_368769_log(disk: MemoryFileSystem) -> None:
    """Index rows 1 -> 0, 3 -> 497, 6 -> 1407; offset 368776 is relative 7.

    The seed counts messages; in a file of batches a row holds the last offset of the batch at
    its position. So the batch at 0 ends with relative 1, that at 497 with 3, that at 1407 with
    6, and relative 7 begins the next batch, which the walk from 1407 finds.
    """
    base = 368769
    segment = create(disk, base)
    assert append(segment, base, 2, 497) == 0
    assert append(segment, base + 2, 2, 910) == 497
    assert append(segment, base + 4, 3, 600) == 1407
    assert append(segment, base + 7, 1, 300) == 2007
    for relative, position in [(1, 0), (3, 497), (6, 1407)]:
        segment.indexes.offset.append(base + relative, position)
    opened = reopen(disk, segment)
    assert opened.log_file.path == "/t-0/00000000000000368769.log"
    assert disk.live_bytes("/t-0/00000000000000368769.index") == struct.pack(
        ">6i", 1, 0, 3, 497, 6, 1407
    )
    assert opened.indexes.offset.lookup(368776) == (base + 6, 1407)
    found = opened.position_of(368776)
    assert found is not None
    assert (found[0], found[1].base_offset) == (2007, 368776)
    for relative, position in [(0, 0), (1, 0), (2, 497), (3, 497), (4, 1407), (5, 1407), (6, 1407)]:
        found = opened.position_of(base + relative)
        assert found is not None
        assert found[0] == position, relative
    assert not opened.indexes.damage


def test_seed_relative_offset_62_of_737337_log(disk: MemoryFileSystem) -> None:
    """The index has rows 60 and 65: the walk for 62 begins at 60's batch."""
    base = 737337
    segment = create(disk, base)
    positions = [append(segment, base + first, 5, 400) for first in range(1, 76, 5)]
    assert positions[11:13] == [4400, 4800]  # batches that end with relative 60 and 65
    segment.indexes.offset.append(base + 60, 4400)
    segment.indexes.offset.append(base + 65, 4800)
    opened = reopen(disk, segment)
    offset = base + 62
    assert offset == 737399
    assert opened.indexes.offset.lookup(offset) == (base + 60, 4400)
    found = opened.position_of(offset)
    assert found is not None
    assert found[0] == 4800
    assert found[1].base_offset <= offset <= found[1].last_offset


def test_seed_offset_7_by_entry_6_at_9807(disk: MemoryFileSystem) -> None:
    """Offset 7: the row of 6 says 9807; the walk from there meets 7 in the next batch."""
    segment = create(disk)
    assert append(segment, 0, 6, 9807) == 0
    assert append(segment, 6, 1, 500) == 9807
    assert append(segment, 7, 1, 500) == 10307
    segment.indexes.offset.append(6, 9807)
    opened = reopen(disk, segment)
    assert opened.indexes.offset.lookup(7) == (6, 9807)
    found = opened.position_of(7)
    assert found is not None
    assert (found[0], found[1].base_offset) == (10307, 7)


def test_seed_offset_35_of_base_32_is_relative_3(disk: MemoryFileSystem) -> None:
    segment = create(disk, 32)
    append(segment, 32, 3, 300)
    append(segment, 35, 1, 300)
    segment.indexes.offset.append(35, 300)
    opened = reopen(disk, segment)
    assert opened.log_file.path == "/t-0/00000000000000000032.log"
    assert disk.live_bytes("/t-0/00000000000000000032.index") == struct.pack(">2i", 3, 300)
    assert opened.indexes.offset.lookup(35) == (35, 300)
    found = opened.position_of(35)
    assert found is not None
    assert found[0] == 300


# -- Look-ups ----------------------------------------------------------------------------------


@pytest.mark.parametrize("base_offset", [0, 368769])
@pytest.mark.parametrize("reopened", [False, True])
def test_every_offset_is_found(disk: MemoryFileSystem, base_offset: int, reopened: bool) -> None:
    segment, laid = filled(disk, base_offset=base_offset)
    if reopened:
        segment = reopen(disk, segment)
    for position, first, last in laid:
        for offset in {first, last, (first + last) // 2}:
            found = segment.position_of(offset)
            assert found is not None
            assert (found[0], found[1].base_offset, found[1].last_offset) == (
                position,
                first,
                last,
            )
    assert segment.position_of(laid[-1][2] + 1) is None
    assert segment.position_of(laid[50][1], laid[50][0]) is None  # ends before it
    assert not segment.indexes.damage


def test_a_look_up_in_a_gap_finds_the_next_batch(disk: MemoryFileSystem) -> None:
    """Compaction leaves gaps: before the first batch, and between two."""
    segment = create(disk, 100, interval=0)
    for first in (105, 110, 120):
        append(segment, first, 3, 300)
    segment = reopen(disk, segment)
    cases = [(100, 0), (104, 0), (107, 0), (108, 300), (109, 300), (113, 600), (122, 600)]
    for offset, position in cases:
        found = segment.position_of(offset)
        assert found is not None
        assert found[0] == position, offset
    assert segment.position_of(123) is None
    assert not segment.indexes.damage


def test_a_sequential_reader_needs_no_look_up(disk: MemoryFileSystem) -> None:
    segment, laid = filled(disk)
    segment = reopen(disk, segment)
    offset, seen = 0, b""
    part = segment.read(offset, 5_000)
    index_reads = []
    while part is not None:
        seen += part.read()
        offset = max(last for at, _, last in laid if at < part.position + part.size) + 1
        disk.calls.clear()
        part = segment.read(offset, 5_000) if offset < segment.next_offset else None
        index_reads.append([path for _, path in disk.calls if path.endswith(".index")])
    assert seen == disk.live_bytes(segment.log_file.path)
    # One look-up for the end of the slice, none for its beginning.
    assert max(len(reads) for reads in index_reads) <= 1


DAMAGED_INDEXES = [
    ("missing", lambda rows: None),
    ("empty", lambda rows: b""),
    ("zeros", lambda rows: bytes(len(rows))),
    ("cut in an entry", lambda rows: rows[: len(rows) // 2 + 3]),
    ("preallocated", lambda rows: rows + bytes(4096)),
    ("positions off by one", lambda rows: _shift(rows, 0, 1)),
    ("positions past the end", lambda rows: _shift(rows, 0, 1_000_000)),
    ("offsets too low", lambda rows: _shift(rows, -40, 0)),
    ("offsets too high", lambda rows: _shift(rows, 3, 0)),
    ("negative", lambda rows: _shift(rows, -(2**20), -(2**20))),
    ("another segment's", lambda rows: _shift(rows, 5_000, 123)),
    ("random", lambda rows: random.Random(5).randbytes(len(rows))),
]


def _shift(rows: bytes, offset: int, position: int) -> bytes:
    return b"".join(
        struct.pack(">2i", a + offset, b + position) for a, b in struct.iter_unpack(">2i", rows)
    )


@pytest.mark.parametrize(("name", "damage"), DAMAGED_INDEXES, ids=[d[0] for d in DAMAGED_INDEXES])
def test_a_wrong_index_costs_time_but_changes_no_answer(
    disk: MemoryFileSystem, name: str, damage: object, caplog: pytest.LogCaptureFixture
) -> None:
    segment, laid = filled(disk)
    segment.indexes.write()
    path = segment.indexes.offset.path
    sound = disk.live_bytes(path)
    content = damage(sound)  # type: ignore[operator]
    disk.unlink(path)
    if content is not None:
        disk.open(path, create=True).pwrite(content, 0)
    opened = reopen(disk, segment)
    with caplog.at_level(logging.WARNING):
        for position, first, last in laid:
            for offset in (first, last):
                found = opened.position_of(offset)
                assert found is not None
                assert (found[0], found[1].last_offset) == (position, last)
            part = opened.read(first, 3_000)
            assert part is not None
            assert part.position == position
            assert 0 < part.size <= 3_000
            assert part.position + part.size in {at for at, _, _ in laid} | {opened.size}
    assert len(caplog.records) <= 1  # logged once
    assert bool(caplog.records) == bool(opened.indexes.damage)
    assert opened.rebuild_indexes() is None
    assert not opened.indexes.damage
    assert disk.live_bytes(path) == sound


def test_an_unreadable_index_counts_as_missing(disk: MemoryFileSystem) -> None:
    segment, laid = filled(disk)
    opened = reopen(disk, segment)
    disk.fail("pread", forever=True, path_part=".index")
    for position, first, _ in laid[::20]:
        found = opened.position_of(first)
        assert found is not None
        assert found[0] == position
    assert "cannot be read" in opened.indexes.damage


# -- Damaged logs ------------------------------------------------------------------------------


@pytest.mark.parametrize("reopened", [False, True])
@pytest.mark.parametrize("value", ["down", "up a little", "up far", "negative"])
def test_an_inconsistent_base_offset_is_damage(
    disk: MemoryFileSystem, value: str, reopened: bool
) -> None:
    """The CRC does not cover the base offset: only its neighbours can tell."""
    segment, laid = filled(disk)
    segment.indexes.write()
    position, first, last = laid[77]
    wrong = {"down": first - 1, "up a little": first + 1, "up far": first + 2**30, "negative": -1}
    disk.edit(segment.log_file.path, position, struct.pack(">q", wrong[value]))
    if reopened:
        segment = reopen(disk, segment)
    with pytest.raises(DamagedLog) as caught:
        [segment.position_of(offset) for offset in range(first, last + 2)]
    assert caught.value.position in (position, laid[78][0])
    assert caught.value.path == segment.log_file.path
    good = segment.position_of(laid[20][1])
    assert good is not None
    assert good[0] == laid[20][0]
    assert not segment.indexes.damage  # the log is damaged, not the index


def test_damage_at_the_very_end_is_found_by_the_end_offset(disk: MemoryFileSystem) -> None:
    segment, laid = filled(disk)
    position, first, _ = laid[-1]
    disk.edit(segment.log_file.path, position, struct.pack(">q", first + 5))
    opened = reopen(disk, segment)
    with pytest.raises(DamagedLog):
        opened.position_of(first)


@pytest.mark.parametrize("length", [0, 48, 2**31 - 1])
def test_an_inconsistent_length_is_not_the_end_of_the_log(
    disk: MemoryFileSystem, length: int
) -> None:
    segment, laid = filled(disk)
    segment.indexes.write()
    position, first, _ = laid[77]
    disk.edit(segment.log_file.path, position + 8, struct.pack(">i", length))
    opened = reopen(disk, segment)
    with pytest.raises(DamagedLog) as caught:
        opened.position_of(first)
    assert caught.value.position == position


def indexed(segment: Segment, laid: list[tuple[int, int, int]]) -> int:
    """Return the index of a batch in the middle that the offset index has an entry for."""
    entry = segment.indexes.lookup(laid[100][1])
    assert entry is not None
    return next(at for at, (position, _, _) in enumerate(laid) if position == entry[1])


@pytest.mark.parametrize(
    ("at", "rotten"), [(0, struct.pack(">q", 2**30)), (8, b"\x7f"), (16, b"7")]
)
def test_the_batch_of_the_next_index_entry_is_found_behind_damage(
    disk: MemoryFileSystem, at: int, rotten: bytes
) -> None:
    segment, laid = filled(disk)
    index = indexed(segment, laid)
    disk.edit(segment.log_file.path, laid[index - 1][0] + at, rotten)
    position, first, last = laid[index]
    opened = reopen(disk, segment)
    for offset in range(first, last + 1):
        found = opened.position_of(offset)
        assert found is not None
        assert (found[0], found[1].base_offset) == (position, first)
    with pytest.raises(DamagedLog):
        opened.position_of(first - 1)
    assert not opened.indexes.damage


def test_behind_damage_an_index_entry_must_have_the_last_offset_of_its_batch(
    disk: MemoryFileSystem,
) -> None:
    segment, laid = filled(disk)
    index = indexed(segment, laid)
    lost = laid[index - 1][1]
    disk.edit(segment.log_file.path, laid[index - 1][0] + 16, b"\x07")
    disk.edit(segment.log_file.path, laid[index][0], struct.pack(">q", lost))  # it claims its place
    with pytest.raises(DamagedLog):
        reopen(disk, segment).position_of(lost)


@pytest.mark.parametrize(("at", "rotten"), [(0, b"\x7f"), (8, b"\x7f"), (16, b"7")])
def test_behind_a_hole_a_batch_is_found_whatever_the_next_one_has_become(
    disk: MemoryFileSystem, at: int, rotten: bytes
) -> None:
    """The next batch is not possible by itself, so it says nothing about the one before."""
    segment = create(disk)
    for first in (0, 10, 20, 30):
        append(segment, first, 2)
    opened = reopen(disk, segment)
    third = segment.size // 4 * 2
    disk.edit(segment.log_file.path, third + at, rotten)
    found = opened.position_of(5)
    assert found is not None
    assert found[1].base_offset == 10
    with pytest.raises(DamagedLog):
        opened.position_of(20)
    disk.edit(segment.log_file.path, third, batch(11, 2))
    with pytest.raises(DamagedLog, match="base offset 11"):
        opened.position_of(5)
