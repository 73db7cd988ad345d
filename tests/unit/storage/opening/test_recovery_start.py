"""Where recovery begins; damage below the recovery point stays and is skipped."""

import pytest

from protocol.record_batch import HEADER_SIZE
from storage.errors import DamagedLog, LogFailed
from storage.files.text_files import encode_offsets
from tests.support.log_house import DATA, append, flush, read_all
from tests.support.stopped_logs import LOG, SIZE, house_with, quarantined, report_of


def test_only_what_is_above_the_recovery_point_is_read_or_written():
    house = house_with(200, below=190)
    house.kill()
    house.filesystem.calls.clear()
    house.restart()
    assert report_of(house).batches_checked == 10
    assert report_of(house).recovery_point == 190
    assert report_of(house).bytes_rewritten == 10 * SIZE


@pytest.mark.parametrize("position", [0, 8, 16, 21, HEADER_SIZE + 3])
def test_a_flip_below_the_recovery_point_is_never_cut(position):
    house = house_with(40, below=30, internal_segment_bytes=10 * SIZE, index_interval_bytes=1)
    at = 5 * SIZE + position
    path = house.path("00000000000000000010.log")
    data = house.filesystem.live_bytes(path)
    house.filesystem.edit(path, at, bytes([data[at] ^ 0x40]))
    house.kill()
    log = house.restart(internal_segment_bytes=10 * SIZE, index_interval_bytes=1)
    assert (log.end_offset, log.failed) == (40, None)
    assert not quarantined(house)
    assert list(read_all(log, 17)) == list(range(17, 40))
    if position < 17:  # the structure shows what the CRC does not cover
        with pytest.raises(DamagedLog):
            read_all(log, 15, size_max=100)


@pytest.mark.parametrize("position", [11, 17, 23, 26, 60, SIZE - 1])
def test_a_flip_in_the_last_batch_below_the_recovery_point_is_never_cut(position):
    """A last offset above the recovery point once removed the batch."""
    house = house_with(10, below=10)
    house.stop()
    before = bytearray(house.filesystem.live_bytes(house.path(LOG)))
    before[9 * SIZE + position] ^= 0x10 if position > 11 else 0x01
    house.filesystem.edit(house.path(LOG), 0, bytes(before))
    log = house.restart(internal_segment_bytes=10**6)
    assert house.filesystem.live_bytes(house.path(LOG)) == bytes(before)
    assert quarantined(house) == {}
    assert log.end_offset == 10
    assert [log.read(start, SIZE).position for start in range(9)] == [n * SIZE for n in range(9)]
    with pytest.raises(DamagedLog):
        log.read(9, SIZE)


COMPACTED = {"cleanup_policy": ("compact",)}


@pytest.mark.parametrize(("index", "byte", "bit"), [(1, 2, 0x10), (1, 7, 0x40), (9, 7, 0x40)])
@pytest.mark.parametrize("above", [0, 3])
def test_a_rotten_base_offset_of_a_compacted_log_is_never_cut(above, index, byte, bit):
    """The batch seemed to begin behind a hole, above the recovery point.

    Recovery began with it, and cut it and the acknowledged batches behind it.
    """
    house = house_with(10 + above, below=10, **COMPACTED)
    at = index * SIZE + byte
    data = house.filesystem.live_bytes(house.path(LOG))
    house.filesystem.edit(house.path(LOG), at, bytes([data[at] ^ bit]))
    house.kill()
    for name in house.names("index"):
        house.filesystem.unlink(house.path(name))
    log = house.restart(**COMPACTED)
    assert not quarantined(house)
    assert log.end_offset == 10 + above
    with pytest.raises(DamagedLog):
        log.read(index, SIZE)
    assert append(log) == [10 + above]
    flush(log)
    assert list(read_all(log, 10)) == list(range(10, 11 + above))


@pytest.mark.parametrize("below", [7, 10])
def test_nor_in_a_closed_segment(below):
    config = COMPACTED | {"internal_segment_bytes": 10 * SIZE}
    house = house_with(15, below=below, **config)
    house.filesystem.edit(house.path(LOG), 3 * SIZE + 7, bytes([3 | 0x40]))
    house.kill()
    log = house.restart(**config)
    assert not quarantined(house)
    assert log.end_offset == 15
    assert list(read_all(log, 10)) == list(range(10, 15))


def test_holes_of_a_compacted_log_are_no_damage():
    """Even around the recovery point, and in the last segment if it has been cleaned."""
    for below in (2, 4, 5, 8):
        house = house_with(10, below=below, **COMPACTED)
        data = house.filesystem.live_bytes(house.path(LOG))
        holed = b"".join(data[n * SIZE : (n + 1) * SIZE] for n in (0, 3, 7, 9))
        house.kill()
        house.filesystem.replace(house.path(LOG), holed)
        checkpoint = encode_offsets({("t", 0): 10})
        house.filesystem.replace(f"{DATA}/cleaner-offset-checkpoint", checkpoint)
        log = house.restart(**COMPACTED)
        assert not quarantined(house)
        assert (log.end_offset, log.failed) == (10, None)
        assert list(read_all(log)) == [0, 3, 7, 9]


def test_recovery_skips_damage_that_hides_the_recovery_point():
    """In the active segment, with no index entry after it, the next batch is found by its CRC."""
    house = house_with(40, below=30)
    house.filesystem.edit(house.path(LOG), 20 * SIZE + 8, b"\x7f")
    house.kill()
    for name in house.names("index"):
        house.filesystem.unlink(house.path(name))
    log = house.restart()
    assert log.end_offset == 40
    assert not quarantined(house)
    assert report_of(house).batches_checked == 10
    assert list(read_all(log, 31))[-1] == 39


def test_without_a_good_batch_after_it_the_log_continues_at_the_recovery_point():
    house = house_with(40, below=40)
    house.filesystem.edit(house.path(LOG), 20 * SIZE, b"\xff" * 20 * SIZE)
    house.kill()
    for name in house.names("index"):
        house.filesystem.unlink(house.path(name))
    log = house.restart()
    assert log.end_offset == 40
    assert not quarantined(house)
    assert append(log) == [40]
    flush(log)
    assert list(read_all(log, 40)) == [40]
    with pytest.raises(LogFailed):
        read_all(log, 15)


def test_an_index_entry_with_a_negative_position_is_ignored():
    house = house_with(10, below=8, index_interval_bytes=1)
    house.kill()
    index = house.path(LOG.replace(".log", ".index"))
    size = len(house.filesystem.live_bytes(index))
    house.filesystem.edit(index, size - 4, b"\x80")
    log = house.restart(internal_segment_bytes=10**6)
    assert log.failed is None
    assert list(read_all(log)) == list(range(10))
