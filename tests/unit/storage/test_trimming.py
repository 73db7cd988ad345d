"""Trimming: how retention removes files, and when it must wait."""

import contextlib

import pytest

from storage import trimming
from storage.errors import OffsetOutOfRange
from tests.support.log_house import (
    NOW,
    House,
    append,
    apply_retention,
    batch,
    checkpoint,
    delete_records,
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
    assert apply_retention(house, log, NOW) == 2
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
    assert log.apply_retention(NOW)
    house.manager.write_checkpoints()
    house.filesystem.fail("rename", nth)
    with contextlib.suppress(OSError):
        apply_retention(house, log, NOW)
    assert list(read_all(log)) == [4, 5, 6]
    apply_retention(house, log, NOW)
    house.purge(NOW)
    for suffix in (".log", ".index", ".timeindex"):
        assert house.names(suffix) == [f"{base:020}{suffix}" for base in (4, 6)]
    assert not house.names("deleted")
    assert [segment.base_offset for segment in log.segments] == [4, 6]


def test_clients_see_a_start_offset_once_it_is_written():
    """A power cut once took back what clients had seen."""
    house, log = house_with(7, retention_bytes=3 * SIZE)
    log.delete_records_before(1)
    assert log.apply_retention(NOW)
    assert (log.start_offset, log.next_start_offset) == (0, 4)
    assert log.begin_deletion(NOW) is None
    assert list(read_all(log)) == [0, 1, 2, 3, 4, 5, 6]
    write = house.manager.begin_write_checkpoints()
    write()
    assert log.start_offset == 0, "a thread does not change a log"
    assert house.manager.begin_write_checkpoints() is None
    assert log.start_offset == 4
    with pytest.raises(OffsetOutOfRange):
        log.read(3, 100)
    house.crash()
    assert list(read_all(house.restart())) == [4, 5, 6]


def test_a_start_offset_that_cannot_be_written_is_seen_after_a_later_write():
    house, log = house_with(7)
    house.filesystem.fail("replace")
    with pytest.raises(OSError, match="Input/output"):
        delete_records(house, log, 3)
    assert log.start_offset == 0
    house.manager.write_checkpoints()
    assert log.start_offset == 3


def test_the_log_does_not_begin_above_what_is_durable():
    """With write.caching a power cut would leave a log that ends below its start."""
    _, log = house_with(3, write_caching=True)
    append(log, 2)
    assert (log.durable_offset, log.high_watermark) == (3, 5)
    with pytest.raises(OffsetOutOfRange):
        log.delete_records_before(4)


@pytest.mark.parametrize("unsynced", ["lost", "kept"])
def test_on_a_full_disk_the_deletion_itself_makes_the_start_offset_durable(unsynced):
    house, log = house_with(7, retention_bytes=3 * SIZE)
    assert log.apply_retention(NOW)
    deletion = log.begin_deletion(NOW, sync=True)
    deletion.run()
    assert log.start_offset == 0
    assert list(read_all(log)) == [0, 1, 2, 3, 4, 5, 6], "under their new names"
    deletion.finish()
    assert (log.start_offset, list(read_all(log))) == (4, [4, 5, 6])
    house.crash(unsynced)
    assert list(read_all(house.restart())) == [4, 5, 6]


# The first renames of each segment are those of its log; an index may keep its name.
@pytest.mark.parametrize(("call", "nth"), [("rename", 1), ("rename", 4), ("sync_directory", 1)])
def test_until_a_deletion_is_durable_its_segments_are_read(call, nth):
    house, log = house_with(7, retention_bytes=3 * SIZE, file_delete_delay_ms=0)
    house.filesystem.fail(call, nth)
    with pytest.raises(OSError, match="Input/output"):
        apply_retention(house, log, NOW, sync=True)
    house.purge(NOW)
    assert list(read_all(log)) == [0, 1, 2, 3, 4, 5, 6]
    assert apply_retention(house, log, NOW, sync=True) == 2
    assert log.start_offset == 4
    house.purge(NOW)
    assert not house.names("deleted")
    house.crash()
    assert list(read_all(house.restart())) == [4, 5, 6]


def test_a_deletion_that_is_durable_by_itself_takes_so_many_segments_at_most(monkeypatch):
    monkeypatch.setattr(trimming, "SYNCED_SEGMENTS_MAX", 1)
    house, log = house_with(7, retention_bytes=3 * SIZE)
    assert apply_retention(house, log, NOW, sync=True) == 1
    assert (log.start_offset, log.next_start_offset) == (2, 4)
    assert apply_retention(house, log, NOW, sync=True) == 1
    assert log.start_offset == 4


def test_one_deletion_at_a_time():
    house, log = house_with(7, retention_bytes=3 * SIZE)
    assert log.apply_retention(NOW)
    house.manager.write_checkpoints()
    deletion = log.begin_deletion(NOW)
    assert log.segments.held, "compaction waits, too"
    assert not log.apply_retention(NOW + 10**9)
    assert log.begin_deletion(NOW) is None
    deletion.run()
    deletion.finish()
    assert not log.segments.held
    assert log.apply_retention(NOW + 10**9)


def test_no_segment_is_deleted_before_the_recovery_point_has_passed_it():
    house, log = house_with(5, ready=False, retention_bytes=0)
    assert apply_retention(house, log, NOW) == 0
    flush(log)
    assert apply_retention(house, log, NOW) == 0
    checkpoint(house, log)
    assert apply_retention(house, log, NOW) == 3


def test_deleting_every_segment_starts_a_new_one():
    house, log = house_with(5, retention_ms=50)
    assert apply_retention(house, log, NOW + 51) == 3
    assert (log.start_offset, log.end_offset, len(log.segments)) == (5, 5, 1)
    assert append(log) == [5]
    flush(log)
    house.crash()
    assert list(read_all(house.restart())) == [5]


def test_an_active_segment_above_the_recovery_point_is_rolled_before_its_deletion():
    house, log = house_with(1, ready=False, retention_ms=50, write_caching=True)
    assert apply_retention(house, log, NOW + 51) == 0
    assert log.flush_due()
    flush(log)
    checkpoint(house, log)
    assert apply_retention(house, log, NOW + 51) == 1
    assert (log.start_offset, len(log.segments)) == (1, 1)


def test_delete_records_deletes_segments_under_every_policy():
    house, log = house_with(7, cleanup_policy=("compact",))
    delete_records(house, log, 5)
    assert apply_retention(house, log, NOW) == 2
    assert list(read_all(log)) == [5, 6]
    assert [s.base_offset for s in log.segments] == [4, 6]


def test_snapshots_are_deleted_with_their_segments():
    house, log = house_with(7, retention_bytes=0, file_delete_delay_ms=0)
    assert len(house.names(".snapshot")) == 3
    apply_retention(house, log, NOW)
    house.purge(NOW)
    assert house.names(".snapshot") == []


def test_a_failed_log_keeps_its_active_segment():
    house, log = house_with(3, retention_bytes=0)
    append(log)
    house.filesystem.fail("fdatasync")
    flush(log)
    assert log.failed is not None
    assert apply_retention(house, log, NOW) == 1
    assert list(read_all(log)) == [2]
