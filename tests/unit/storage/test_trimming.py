"""Trimming: how retention removes files, and when it must wait."""

import contextlib

import pytest

from storage.errors import OffsetOutOfRange
from tests.support.log_house import (
    NOW,
    House,
    append,
    apply_retention,
    batch,
    checkpoint,
    flush,
    read_all,
)

SIZE = len(batch())


def house_with(count, *, ready=True, **config):
    house = House()
    house.open()
    log = house.log(**({"internal_segment_bytes": 2 * SIZE} | config))
    append(log, count)
    if ready:
        flush(log)
        checkpoint(house, log)
    return house, log


def test_segments_are_renamed_first_and_unlinked_later():
    house, log = house_with(7, retention_bytes=3 * SIZE, file_delete_delay_ms=100)
    piece = log.read(0, 10**6)
    assert [segment.base_offset for segment, _ in log.segments_to_delete(NOW)] == [0, 2]
    assert apply_retention(log, NOW) == 2
    assert log.start_offset == 4
    assert house.names("deleted")
    assert len(piece.read()) == 2 * SIZE, "an open slice is still readable"
    house.purge(NOW + 99)
    assert house.names("deleted")
    house.purge(NOW + 100)
    assert not house.names("deleted")
    assert house.names(".log") == [f"{base:020}.log" for base in (4, 6)]
    with pytest.raises(OffsetOutOfRange):
        log.read(3, 100)


@pytest.mark.parametrize("nth", range(1, 7))  # of the renames: three files per segment
def test_a_failed_rename_leaves_no_file_behind(nth):
    house, log = house_with(7, retention_bytes=3 * SIZE, file_delete_delay_ms=0)
    house.filesystem.fail("rename", nth)
    with contextlib.suppress(OSError):
        apply_retention(log, NOW)
    assert list(read_all(log)) == [4, 5, 6]
    apply_retention(log, NOW)
    house.purge(NOW)
    for suffix in (".log", ".index", ".timeindex"):
        assert house.names(suffix) == [f"{base:020}{suffix}" for base in (4, 6)]
    assert not house.names("deleted")
    assert [segment.base_offset for segment in log.segments] == [4, 6]


def test_no_segment_is_deleted_before_the_recovery_point_has_passed_it():
    house, log = house_with(5, ready=False, retention_bytes=0)
    assert apply_retention(log, NOW) == 0
    flush(log)
    assert apply_retention(log, NOW) == 0
    checkpoint(house, log)
    assert apply_retention(log, NOW) == 3


def test_deleting_every_segment_starts_a_new_one():
    house, log = house_with(5, retention_ms=50)
    assert apply_retention(log, NOW + 51) == 3
    assert (log.start_offset, log.end_offset, len(log.segments)) == (5, 5, 1)
    assert append(log) == [5]
    flush(log)
    house.crash()
    assert list(read_all(house.restart())) == [5]


def test_an_active_segment_above_the_recovery_point_is_rolled_before_its_deletion():
    house, log = house_with(1, ready=False, retention_ms=50, write_caching=True)
    assert apply_retention(log, NOW + 51) == 0
    assert log.flush_due()
    flush(log)
    checkpoint(house, log)
    assert apply_retention(log, NOW + 51) == 1
    assert (log.start_offset, len(log.segments)) == (1, 1)


def test_delete_records_deletes_segments_under_every_policy():
    _, log = house_with(7, cleanup_policy=("compact",))
    log.delete_records_before(5)
    assert apply_retention(log, NOW) == 2
    assert list(read_all(log)) == [5, 6]
    assert [s.base_offset for s in log.segments] == [4, 6]


def test_snapshots_are_deleted_with_their_segments():
    house, log = house_with(7, retention_bytes=0, file_delete_delay_ms=0)
    assert len(house.names(".snapshot")) == 3
    apply_retention(log, NOW)
    house.purge(NOW)
    assert house.names(".snapshot") == []


def test_a_failed_log_keeps_its_active_segment():
    house, log = house_with(3, retention_bytes=0)
    append(log)
    house.filesystem.fail("fdatasync")
    flush(log)
    assert log.failed is not None
    assert apply_retention(log, NOW) == 1
    assert list(read_all(log)) == [2]
