"""An opening that the disk or the system interrupts: it fails, or the log is whole; never less.

Each file call of an opening fails in turn. What an unreadable file holds is unknown, so a log that
is opened without it would have lost its end, its start, producers or epochs.
"""

import contextlib
import errno
import logging

import pytest

from storage.errors import CorruptMetadata, LogFailed, StorageError
from storage.files.filenames import producers_name, snapshot_name
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
from tests.support.stopped_logs import LOG, SEGMENTS, house_with, quarantined

SETTINGS = SEGMENTS | {"cleanup_policy": ("delete",)}
DESCRIPTORS = {"open", "list", "sync_directory", "read", "replace"}


def stopped(how):
    """Return a log whose snapshot alone knows a producer, of three epochs, with a torn end."""
    house = House()
    house.open()
    log = house.log(**SETTINGS)
    for sequence in range(6):
        log.append(batch(pid=6, epoch=0, sequence=sequence), NOW)
    flush(log)
    checkpoint(house, log)
    log.delete_records_before(6)
    house.kill()
    log = house.restart(**SETTINGS)
    for sequence in range(7):
        log.append(batch(pid=7, epoch=0, sequence=sequence), NOW)
    flush(log)
    checkpoint(house, log)
    log.delete_records_before(6)
    assert apply_retention(house, log, NOW) == 1
    house.manager.write_checkpoints()
    for sequence in range(7, 11):
        log.append(batch(pid=7, epoch=0, sequence=sequence), NOW)
    flush(log)
    if how == "clean":
        assert house.stop()
    else:
        house.filesystem.edit(house.path(log.segments.active.log_file.path.split("/")[-1]),
                              log.segments.active.size, bytes(batch())[:50])  # fmt: skip
        house.kill()
    house.open()
    return house


def state_of(log):
    """Return all that clients are told of a log."""
    producers = {
        entry.producer_id: (entry.epoch, entry.last_sequence, list(entry.batches))
        for entry in log.producers.entries.values()
    }
    offsets = log.start_offset, log.end_offset, log.high_watermark
    return offsets, log.failed, log.epochs.entries(), producers, read_all(log)


class Fault:
    """Fails the nth call, and with `forever` each later one, of those that can meet the error."""

    def __init__(self, number, nth, *, forever):
        self.number, self.nth, self.forever = number, nth, forever
        self.calls = 0

    def __call__(self, operation, path):
        if self.number == errno.EMFILE and operation not in DESCRIPTORS:
            return None
        self.calls += 1
        if self.calls < self.nth or (self.calls > self.nth and not self.forever):
            return None
        return OSError(self.number, "on purpose", path), 0.5


@pytest.mark.parametrize("how", ["clean", "killed"])
@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE], ids=["EIO", "EMFILE"])
@pytest.mark.parametrize("forever", [False, True], ids=["once", "forever"])
def test_a_log_is_opened_whole_or_not_at_all(how, number, forever):
    expected = state_of(stopped(how).log(epoch=2, **SETTINGS))
    assert expected[0] == (6, 17, 17)
    assert set(expected[3]) == {6, 7}
    refused = 0
    for nth in range(1, 1000):
        house = stopped(how)
        fault = house.filesystem.before = Fault(number, nth, forever=forever)
        log = None
        with contextlib.suppress(OSError, StorageError):
            log = house.log(epoch=2, **SETTINGS)
        house.filesystem.before = None
        if fault.calls < nth:
            break
        if log is None:
            refused += 1
            log = house.log(epoch=2, **SETTINGS)
        assert state_of(log) == expected, nth
        if number == errno.EMFILE:
            assert not [one for one in log.segments if one.indexes.damage], nth
        assert append(log) == [17]
        flush(log)
        house.crash()
        house.open()
        assert list(read_all(house.log(epoch=3, **SETTINGS)))[-1] == 17
        assert len(quarantined(house)) == (how == "killed"), nth
    assert nth > 8
    assert refused > 3


@pytest.mark.parametrize("operation", ["pread", "pwrite", "fdatasync"])
def test_a_log_whose_recovery_the_disk_interrupts_is_not_opened(operation):
    """It was opened up to its recovery point: what a client had read above that was gone."""
    house = house_with(10, below=4)
    house.kill()
    house.open()
    house.filesystem.fail(operation, path_part=".log", forever=True)
    for _ in range(2):
        with pytest.raises((OSError, LogFailed), match="Input/output"):
            house.log(epoch=1)
    assert ("t", 0) not in house.manager.logs
    house.filesystem.heal()
    log = house.log(epoch=1)
    assert (log.end_offset, log.high_watermark, log.failed) == (10, 10, None)
    assert list(read_all(log)) == list(range(10))


def test_a_stop_without_a_log_that_is_to_be_recovered_is_not_clean():
    """A clean stop says that all is on the disk. Records in the page cache may have been lost."""
    house = house_with(10, below=4)
    house.kill()
    house.open()
    house.filesystem.fail("fdatasync", path_part=".log")
    with pytest.raises(OSError, match="Input/output"):
        house.log(epoch=1)
    assert not house.stop()
    assert "t-0 was not closed cleanly" in house.manager.warnings[-1]
    assert house.restart().end_offset == 10
    assert house.stop()


def test_a_clean_log_that_is_not_opened_stays_clean():
    house = house_with(10, below=4)
    assert house.stop()
    house.open()
    house.filesystem.fail("pread", path_part=".log")
    with pytest.raises(LogFailed, match="Input/output"):
        house.log(epoch=1)
    assert house.stop()
    assert house.restart().end_offset == 10
    assert house.manager.reports == []


def test_a_log_that_is_not_opened_holds_no_files():
    house = house_with(10, below=4)
    house.kill()
    house.open()
    house.filesystem.fail("fdatasync", path_part=".log")
    with pytest.raises(OSError, match="Input/output"):
        house.log(epoch=1)
    assert len(house.manager.home.files) == 0


def test_deleted_records_stay_deleted_when_the_disk_fails_a_recovery():
    """The log start offset is above the durable end. It was lost, and the records came back."""
    house = house_with(10)
    house.manager.get("t", 0).delete_records_before(3)
    house.manager.write_checkpoints()
    house.kill()
    house.filesystem.fail("fdatasync", path_part=".log")
    with pytest.raises(OSError, match="Input/output"):
        house.restart()
    house.stop()
    log = house.restart()
    assert (log.start_offset, list(read_all(log))) == (3, list(range(3, 10)))


def test_what_an_interrupted_recovery_has_cut_is_said_once(caplog):
    """The next recovery does not find it any more."""
    house = house_with(10, below=3)
    house.filesystem.edit(house.path(LOG), 10 * len(batch()), b"\xff" * 300)
    house.kill()
    house.open()
    house.filesystem.fail("fdatasync", path_part=LOG, forever=True)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            with contextlib.suppress(OSError):
                house.log(epoch=1)
        house.filesystem.heal()
        assert house.log(epoch=1).end_offset == 10
    said = [line for line in caplog.messages if "300 bytes kept in" in line]
    assert len(said) == 1
    assert "truncating to offset 10" in said[0]


def test_no_copies_pile_up_of_what_cannot_be_cut():
    house = house_with(10, below=3)
    house.filesystem.edit(house.path(LOG), 10 * len(batch()), b"\xff" * 300)
    house.kill()
    house.open()
    house.filesystem.fail("truncate", path_part=LOG, forever=True)
    for _ in range(3):
        house.now_ms += 1000
        with pytest.raises(OSError, match="Input/output"):
            house.log(epoch=1)
    assert quarantined(house) == {}
    house.filesystem.heal()
    assert house.log(epoch=1).end_offset == 10
    assert len(quarantined(house)) == 1


def test_a_quarantine_without_a_descriptor_does_not_fail_the_log_for_good():
    house = house_with(10, below=3)
    house.filesystem.edit(house.path(LOG), 10 * len(batch()), b"\xff" * 300)
    house.kill()
    house.open()
    house.filesystem.fail("open", error=errno.EMFILE, path_part="quarantine", forever=True)
    with pytest.raises(OSError, match="Too many open files"):
        house.log(epoch=1)
    house.filesystem.heal()
    assert append(house.log(epoch=1)) == [10]


@pytest.mark.parametrize("name", ["partition.metadata", "leader-epoch-checkpoint",
                                  snapshot_name(10), producers_name(10)])  # fmt: skip
def test_a_file_that_the_disk_does_not_give_is_not_taken_for_a_damaged_one(name):
    house = House()
    house.open()
    log = house.log()
    for sequence in range(10):
        log.append(batch(pid=5, epoch=0, sequence=sequence), NOW)
    assert house.stop()
    before = house.filesystem.live_bytes(house.path(name))
    house.open()
    house.filesystem.fail("read", path_part=name)
    with pytest.raises(OSError, match="Input/output"):
        house.log(epoch=1)
    assert house.filesystem.live_bytes(house.path(name)) == before
    log = house.log(epoch=1)
    assert [one.first_offset for one in log.producers.entries[5].batches] == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
@pytest.mark.parametrize("name", ["recovery-point", "log-start", "cleaner"])
def test_a_start_without_a_checkpoint_file_that_cannot_be_read_is_refused(name, number):
    """With start offset 0, deleted records would be served again."""
    house = house_with(10, below=4)
    house.manager.get("t", 0).delete_records_before(3)
    house.manager.write_checkpoints()
    house.kill()
    house.filesystem.fail("read", error=number, path_part=f"{name}-offset-checkpoint")
    with pytest.raises(CorruptMetadata, match="cannot be read"):
        house.open()
    log = house.restart()
    assert (log.start_offset, log.end_offset) == (3, 10)
