"""Soundness: rot in fields without a CRC is never served, and no good batch is withheld for it."""

import pytest

from protocol.record_batch import batches
from storage.errors import DamagedLog, LogFailed
from storage.segments import soundness
from tests.support.log_house import NOW, House, append, batch, flush, read_all

SIZE = len(batch())
LOG = "00000000000000000000.log"


def reopened(count=30, flips=(), **config):
    """A cleanly stopped log of `count` batches in one file, with bits flipped, open again."""
    config = {"internal_segment_bytes": 10**6, "index_interval_bytes": 4 * SIZE} | config
    house = House()
    house.open()
    append(house.log(**config), count)
    assert house.stop()
    for at, bit in flips:
        data = house.filesystem.live_bytes(house.path(LOG))
        house.filesystem.edit(house.path(LOG), at, bytes([data[at] ^ bit]))
    return house, house.restart(**config)


def served(log, start, size_max=10**6):
    """Offsets as a client sees them: from the headers in what a read returns."""
    piece = log.read(start, size_max)
    return [] if piece is None else [header.base_offset for _, header in batches(piece.load())]


@pytest.mark.parametrize("bit", [0x01, 0x02, 0x10, 0x80])
@pytest.mark.parametrize("byte", [0, 3, 6, 7, 8, 9, 10, 11, 16])
@pytest.mark.parametrize("index", [1, 13, 28])
def test_a_flip_outside_the_crc_is_never_served(index, byte, bit):
    _, log = reopened(flips=[(index * SIZE + byte, bit)])
    for start in range(30):
        try:
            offsets = served(log, start)
        except (DamagedLog, LogFailed):
            assert start <= index + 8, "only near the damage"
            continue
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
        assert offsets[0] <= start
        assert index not in offsets
    assert served(log, 0) == list(range(index))


@pytest.mark.parametrize("byte", [17, 21, 23, 26, 30, 40, 50, 60, SIZE - 1])
@pytest.mark.parametrize("index", [0, 13, 29])
def test_a_batch_with_a_wrong_crc_is_never_served(index, byte):
    """Many clients do not check the CRC. The batches before and after it are served."""
    _, log = reopened(flips=[(index * SIZE + byte, 0x04)])
    for start in range(30):
        try:
            assert served(log, start, SIZE) == [start] != [index]
        except (DamagedLog, LogFailed):
            # An impossible last offset stops a walk: up to the next index entry.
            assert start == index or (byte in (23, 26) and 0 < start - index <= 8)


@pytest.mark.parametrize("bit", [0x01, 0x80])
@pytest.mark.parametrize("byte", [12, 15])
@pytest.mark.parametrize("index", [0, 13, 29])
def test_a_flipped_leader_epoch_is_never_served(index, byte, bit):
    _, log = reopened(flips=[(index * SIZE + byte, bit)])
    with pytest.raises(DamagedLog, match="leader epoch"):
        log.read(index, SIZE)
    assert served(log, (index + 1) % 30, SIZE) == [(index + 1) % 30]


def test_if_the_epoch_file_is_wrong_the_batches_are_served():
    house, log = reopened()
    append(log, 10)
    flush(log)
    house.stop()
    house.filesystem.replace(house.path("leader-epoch-checkpoint"), b"0\n2\n0 0\n1 12\n")
    log = house.restart(internal_segment_bytes=10**6)
    for start in range(30):
        assert served(log, start, SIZE) == [start]


def test_if_the_epoch_file_is_wrong_the_last_batch_of_a_segment_is_served():
    """No batch follows it in the segment, so the doubtful file was consulted instead."""
    house, log = reopened(2)
    append(log, 4)
    log.roll(NOW)
    append(log, 4)
    flush(log)
    house.stop()
    house.filesystem.replace(house.path("leader-epoch-checkpoint"), b"0\n2\n0 0\n1 8\n")
    log = house.restart(internal_segment_bytes=10**6)
    for start in range(10):
        assert served(log, start, SIZE) == [start]


def test_a_base_offset_that_claims_another_batchs_offsets_is_never_served():
    """The first batch of a segment says 12 instead of 8: a read of 12 returned another record."""
    house = House()
    house.open()
    config = {"internal_segment_bytes": 8 * SIZE}
    append(house.log(**config), 30)
    house.stop()
    house.filesystem.edit(house.path("00000000000000000008.log"), 7, bytes([12]))
    log = house.restart(**config)
    for start in range(30):
        try:
            assert served(log, start, SIZE) == [start]
        except (DamagedLog, LogFailed):
            assert 8 <= start < 16, "the walk from the segment's start is blocked"


def test_an_apparent_hole_after_a_shortened_batch_is_damage():
    house = House()
    house.open()
    log = house.log(internal_segment_bytes=10**6)
    for _ in range(3):
        log.append(batch(count=5), NOW)
    house.stop()
    data = house.filesystem.live_bytes(house.path(LOG))
    size = len(data) // 3
    house.filesystem.edit(house.path(LOG), size + 26, b"\x01")  # last offset delta 4 is 1 now
    log = house.restart(internal_segment_bytes=10**6)
    for start in (5, 7, 9):
        with pytest.raises(DamagedLog):
            log.read(start, size)
    assert served(log, 10, size) == [10]


def test_batches_appended_by_this_process_are_not_walked():
    house, log = reopened(10)
    append(log, 20)
    flush(log)
    read_all(log)
    house.filesystem.calls.clear()
    assert len(served(log, 10)) == 20
    reads = [path for operation, path in house.filesystem.calls if operation == "pread"]
    assert len(reads) <= 2, "the header, and the bytes"


def flipped(house, at, bit):
    """Flip a bit of the log file under the process that has it open."""
    data = house.filesystem.live_bytes(house.path(LOG))
    house.filesystem.edit(house.path(LOG), at, bytes([data[at] ^ bit]))


def looked_at(log, start, size_max=10**6):
    """Offsets as `served`, by a reader that looks at what it has read."""
    piece = log.read(start, size_max)
    if piece is not None and not log.is_in_order(piece, piece.load(), start):
        log.distrust(piece)
        piece = log.read(start, size_max)
    return [] if piece is None else [header.base_offset for _, header in batches(piece.load())]


@pytest.mark.parametrize("bit", [0x01, 0x10, 0x80])
@pytest.mark.parametrize("byte", [0, 3, 6, 7, 8, 11, 12, 15, 16])
@pytest.mark.parametrize("index", [0, 13, 29])
@pytest.mark.parametrize("is_found", [False, True])
def test_a_later_flip_outside_the_crc_is_not_served_either(is_found, index, byte, bit):
    """The bytes were written by this process, or found and checked, when they were sound."""
    if is_found:
        house, log = reopened()
        assert looked_at(log, 0) == list(range(30))
    else:
        house = House()
        house.open()
        log = house.log(internal_segment_bytes=10**6, index_interval_bytes=4 * SIZE)
        append(log, 30)
        flush(log)
    flipped(house, index * SIZE + byte, bit)
    for size_max in (10**6, 5 * SIZE, SIZE):
        for start in range(30):
            try:
                offsets = looked_at(log, start, size_max)
            except (DamagedLog, LogFailed):
                assert start <= index + 8, "only near the damage"
                continue
            assert offsets == list(range(start, start + len(offsets)))
            assert index not in offsets
            assert log.read(start, size_max).position == start * SIZE, "none for another"
    assert index == 0 or looked_at(log, 0) == list(range(index))
    append(log, 3)
    flush(log)
    assert looked_at(log, 30) == [30, 31, 32], "what is written from now on is trusted"


def test_the_first_header_of_a_read_is_looked_at_in_any_case():
    """The look-up reads it, so records that are sent as mapped pages need no look of their own."""
    house = House()
    house.open()
    log = house.log(internal_segment_bytes=10**6)
    append(log, 30)
    flush(log)
    flipped(house, 29 * SIZE + 6, 0x01)
    log.segments.active.next_offset = 400  # so that the header is possible by itself
    with pytest.raises(DamagedLog):
        log.read(29, 10**6)


def test_where_a_hole_is_sound_a_doubt_costs_time_only():
    """Kafka had compacted the log, and its checkpoint is lost: nobody knows of the holes."""
    house = House()
    house.open()
    log = house.log(internal_segment_bytes=10**6)
    append(log, 10)
    house.stop()
    data = house.filesystem.live_bytes(house.path(LOG))
    house.filesystem.replace(house.path(LOG), data[: 3 * SIZE] + data[5 * SIZE :])
    log = house.restart(internal_segment_bytes=10**6)
    for _ in range(2):
        assert looked_at(log, 0) == [0, 1, 2, 5, 6, 7, 8, 9]
        assert looked_at(log, 3) == [5, 6, 7, 8, 9]


def test_two_batches_of_a_compacted_log_that_overlap_are_not_served():
    house = House()
    house.open()
    config = {"internal_segment_bytes": 8 * SIZE, "cleanup_policy": frozenset({"compact"})}
    log = house.log(**config)
    append(log, 30)
    flush(log)
    assert looked_at(log, 8) == list(range(8, 16))
    path = house.path("00000000000000000008.log")
    for index, wrong in ((3, 15), (3, 10), (7, 31), (7, 13)):
        sound = house.filesystem.live_bytes(path)
        house.filesystem.edit(path, index * SIZE + 7, bytes([wrong]))
        assert max(looked_at(log, 8)) < 8 + index
        house.filesystem.replace(path, sound)


def test_each_part_is_walked_once(monkeypatch):
    _, log = reopened(30)
    walks = []
    walk = soundness._walk
    monkeypatch.setattr(
        soundness, "_walk", lambda *args, **kwargs: walks.append(args[1:3]) or walk(*args, **kwargs)
    )
    for _ in range(3):
        for start in (0, 5, 10, 15, 20, 25):
            log.read(start, 5 * SIZE)
    assert walks == [(n * SIZE, (n + 5) * SIZE) for n in range(0, 30, 5)]


def test_a_walk_is_bounded(monkeypatch):
    monkeypatch.setattr(soundness, "WALK_BYTES_MAX", 3 * SIZE)
    _, log = reopened(30)
    assert served(log, 0) == [0, 1, 2]
    assert list(read_all(log, 0, 10**6)) == list(range(30))
    assert len(served(log, 0)) == 30, "by now the whole segment is known"


def test_a_walk_over_many_small_batches_is_bounded_too(monkeypatch):
    """An unopened batch of one record takes as long as one of a thousand."""
    monkeypatch.setattr(soundness, "WALK_BATCHES_MAX", 4)
    _, log = reopened(30)
    assert served(log, 0) == [0, 1, 2, 3]
    assert list(read_all(log, 0, 10**6)) == list(range(30))
    assert len(served(log, 0)) == 30, "by now the whole segment is known"


def test_gaps_of_compaction_are_served():
    """Batches 4 to 7 are gone; the batches after them are served."""
    house = House()
    house.open()
    log = house.log(internal_segment_bytes=10**6)
    append(log, 4)
    log.end_offset = 8
    append(log, 6)
    house.stop()
    log = house.restart(internal_segment_bytes=10**6)
    assert served(log, 0) == [0, 1, 2, 3, 8, 9, 10, 11, 12, 13]
    assert served(log, 5)[0] == 8
    house.stop()
    log = house.restart(internal_segment_bytes=10**6)
    assert served(log, 5)[0] == 8


def test_an_apparent_hole_between_segments_is_damage():
    house = House()
    house.open()
    log = house.log(internal_segment_bytes=300)
    for _ in range(4):
        log.append(batch(count=5), NOW)
    house.stop()
    house.filesystem.edit(house.path("00000000000000000005.log"), 26, b"\x01")
    log = house.restart(internal_segment_bytes=300)
    for start in (5, 8, 9):
        with pytest.raises(DamagedLog):
            log.read(start, 10**6)
    assert served(log, 10) == [10]


@pytest.mark.parametrize(("bit", "ends"), [(0x01, 30), (0x04, 15), (0x08, 15)])
def test_the_apparent_hole_after_a_lowered_base_offset_is_damage(bit, ends):
    """An index entry leads to the batch, so the batches before it are not read."""
    house = House()
    house.open()
    config = {"internal_segment_bytes": 10**6, "index_interval_bytes": 1}
    log = house.log(**config)
    for _ in range(ends // 5):
        log.append(batch(count=5), NOW)
    log.roll(NOW)
    append(log)
    flush(log)
    house.stop()
    path = house.path(LOG)
    size = len(house.filesystem.live_bytes(path)) // (ends // 5)
    at = 2 * size + 7  # the batch of offset 10
    house.filesystem.edit(path, at, bytes([10 ^ bit]))
    log = house.restart(**config)
    for start in range(10, 15):
        with pytest.raises(DamagedLog):
            log.read(start, size)


def test_a_hole_that_begins_at_the_requested_offset_is_checked_too():
    """The last batch of a segment, 10 to 14, says base offset 8, so it seems to end before 13."""
    house = House()
    house.open()
    log = house.log(internal_segment_bytes=10**6, index_interval_bytes=1)
    for _ in range(3):
        log.append(batch(count=5), NOW)
    log.roll(NOW)
    append(log)
    flush(log)
    house.stop()
    size = len(house.filesystem.live_bytes(house.path(LOG))) // 3
    house.filesystem.edit(house.path(LOG), 2 * size + 7, bytes([8]))
    log = house.restart(internal_segment_bytes=10**6)
    for start in (13, 14):
        with pytest.raises(DamagedLog):
            log.read(start, size)


def compacted(bases, *, at, bit):
    """Return a compacted log of batches of one record with these offsets, and a bit flipped."""
    house = House()
    house.open()
    config = {"internal_segment_bytes": 10**6, "index_interval_bytes": 10**6}
    log = house.log(**config)
    for base in bases:
        log.end_offset = base
        append(log)
    log.roll(NOW)
    append(log)
    flush(log)
    house.stop()
    data = house.filesystem.live_bytes(house.path(LOG))
    house.filesystem.edit(house.path(LOG), at, bytes([data[at] ^ bit]))
    log = house.restart(**config)
    log.segments.cleaned.compacted = True
    return log


@pytest.mark.parametrize(("byte", "bit"), [(3, 0x40), (0, 0x01), (7, 0x20), (6, 0x01)])
@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_raised_base_offset_is_never_served_in_a_compacted_log(index, byte, bit):
    bases = [0, 11, 22, 26, 27]
    log = compacted(bases, at=index * SIZE + byte, bit=bit)
    for start in range(28):
        try:
            offsets = served(log, start)
        except (DamagedLog, LogFailed):
            continue
        assert offsets
        assert set(offsets) <= {*bases[:index]} or set(offsets) <= {*bases[index + 1 :]}
    if index:
        assert served(log, 0) == bases[:index]


def test_a_raised_base_offset_is_not_served_as_the_next_batch():
    """The batch of 6 says 7, as does the next one: either may be wrong."""
    log = compacted([0, 6, 7, 8], at=SIZE + 7, bit=0x01)
    assert served(log, 0) == [0]
    for start in range(1, 7):
        with pytest.raises(DamagedLog):
            log.read(start, 10**6)


def test_a_lowered_base_offset_leaves_no_hole_in_a_compacted_log():
    """The batch of offset 5 says 1: a reader that is at 4 would miss it."""
    log = compacted([0, 3, 5, 9], at=2 * SIZE + 7, bit=0x04)
    assert served(log, 0) == [0, 3]
    for start in (4, 5):
        with pytest.raises(DamagedLog):
            log.read(start, 10**6)


def test_damage_far_from_a_hole_does_not_matter():
    log = compacted([0, 11, 22, 33], at=SIZE - 1, bit=0x01)
    assert served(log, 12) == [22, 33]
    with pytest.raises(DamagedLog):
        log.read(0, 10**6)
