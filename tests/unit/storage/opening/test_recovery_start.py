"""Where recovery begins; damage below the recovery point stays and is skipped."""

import pytest

from protocol.record_batch import HEADER_SIZE
from storage.errors import DamagedLog, LogFailed
from tests.support.log_house import append, flush, read_all
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
