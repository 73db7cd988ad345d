"""A clean stop: either everything is durable, or the stop reports that it is not clean."""

import errno
from concurrent.futures import ThreadPoolExecutor

import pytest

from protocol.control_records import Marker
from storage.clean_stop import LOGS_PER_WAVE
from storage.errors import LogFailed
from tests.support.log_house import CLEAN_MARK, NOW, House, append, batch, read_all


@pytest.fixture
def house():
    house = House()
    house.open()
    return house


@pytest.mark.parametrize("operation", ["fdatasync", "pwrite", "rename", "sync_directory"])
def test_a_stop_that_fails_anywhere_is_not_clean(operation):
    """Every call of the stop fails once: either nothing is lost, or the clean mark is missing."""
    for nth in range(1, 40):
        house = House()
        house.open()
        log = house.log(internal_segment_bytes=300)
        append(log, 7, pid=-1)
        house.filesystem.fail(operation, nth)
        clean = house.stop()
        calls_failed = house.filesystem._faults[0].seen >= nth
        house.filesystem.heal()
        assert clean or calls_failed
        assert clean == house.filesystem.exists(CLEAN_MARK) or operation in ("sync_directory",)
        house.crash()
        log = house.restart(internal_segment_bytes=300)
        if clean:
            assert list(read_all(log)) == list(range(7)), nth
            assert house.manager.directory.was_clean
        if not calls_failed:
            break
    else:
        pytest.fail("the stop has no end")


def test_an_unclean_stop_leaves_no_mark(house):
    append(house.log(), 3)
    assert not house.stop(clean=False)
    assert not house.filesystem.exists(CLEAN_MARK)
    assert house.restart().end_offset == 3


def test_the_jobs_of_many_logs_may_run_side_by_side(house):
    """Each list holds one job of each of many logs: a flush, then a checkpoint."""
    logs = [house.log(partition=number) for number in range(LOGS_PER_WAVE + 6)]
    for log in logs:
        append(log, 3)
    sizes = []

    def run(steps):
        with ThreadPoolExecutor(8) as threads:
            for jobs in steps:
                sizes.append(len(jobs))
                list(threads.map(lambda job: job.run(), jobs))

    run(house.manager.closing(clean=True))
    assert sizes == [LOGS_PER_WAVE, LOGS_PER_WAVE, 6, 6]
    assert all(log.recovery_point == 3 for log in logs)
    assert house.manager.home.unflushed_bytes == 0
    house.crash()
    house.open()
    assert house.manager.directory.was_clean


def test_a_log_whose_flush_fails_does_not_keep_others_from_closing(house):
    logs = [house.log(partition=number) for number in range(3)]
    for log in logs:
        append(log, 3)
    house.filesystem.fail("fdatasync", 2)
    assert not house.stop()
    assert [log.failed is None for log in logs].count(False) == 1
    assert [log.recovery_point for log in logs].count(3) == 2
    (complaint,) = house.manager.warnings
    assert "was not closed cleanly" in complaint


def test_a_stop_without_a_descriptor_is_not_clean(house):
    """The names of an empty log were never synced, and the mark said that all is on the disk."""
    house.log()
    house.filesystem.fail("sync_directory", error=errno.EMFILE)
    assert not house.stop()
    assert not house.filesystem.exists(CLEAN_MARK)
    (complaint,) = house.manager.warnings
    assert "could not be closed cleanly" in complaint


def ended(log, *, producer_id=7):
    """Write a transaction and its marker."""
    log.append(batch(pid=producer_id, epoch=1, sequence=0, transactional=True), NOW, 2)
    log.append_marker(Marker(producer_id, 1, is_commit=True, coordinator_epoch=0), NOW)


def test_a_marker_whose_decision_was_not_waited_for_goes_with_a_clean_stop(house):
    """A decision is appended before its markers, so both are on the disk."""
    ended(house.log())
    append(house.log(partition=1), 3)
    assert house.manager.close(clean=True, are_decided=True)
    log = house.restart()
    assert house.manager.directory.was_clean
    assert log.take_replayed_markers() == []
    assert log.last_stable_offset == log.recovery_point == log.end_offset == 2


def test_a_marker_stays_while_any_log_is_not_flushed(house):
    """It may be the one with the decision."""
    ended(house.log())
    other = house.log(partition=1)
    append(other, 3)
    other.failed = LogFailed("t-1", "on purpose")
    assert not house.manager.close(clean=True, are_decided=True)
    log = house.restart()
    assert [one.offset for one in log.take_replayed_markers()] == [1]


def test_markers_that_a_start_has_not_looked_at_are_left_to_the_next(house):
    ended(house.log())
    house.kill()
    log = house.restart()
    ended(log, producer_id=8)
    assert not house.manager.close(clean=True, are_decided=True)
    assert log.recovery_point == 1
    log = house.restart()
    assert [one.offset for one in log.take_replayed_markers()] == [1, 3]
    log.settle_replayed()
    assert house.manager.close(clean=True, are_decided=True)
