"""A log on a disk that is full, or that fails: what it keeps, serves and logs."""

import errno
import logging

import pytest

from storage.errors import AppendFailed, LogFailed
from tests.support.log_house import (
    House,
    append,
    apply_retention,
    batch,
    checkpoint,
    flush,
    read_all,
)

OFFLINE = "is offline for writes"
NOW = 1_700_000_000_000


def opened(**config):
    house = House()
    house.open()
    return house, house.log(**config)


def offline_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.message for r in caplog.records if OFFLINE in r.message]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("bytes_written", [0, 1, 60, 97])
def test_a_full_disk_refuses_the_batch_and_fails_no_log(number, bytes_written, caplog):
    house, log = opened()
    append(log, 2)
    flush(log)
    size = len(house.filesystem.live_bytes(log.segments.active.log_file.path))
    house.filesystem.fail("pwrite", error=number, bytes_written=bytes_written, forever=True)
    for _ in range(3):
        with pytest.raises(AppendFailed):
            log.append(batch(), NOW)
    path = log.segments.active.log_file.path
    assert len(house.filesystem.live_bytes(path)) == size, "no partial batch stays"
    assert log.failed is None
    assert house.manager.home.room.refusals == 3
    assert house.manager.home.room.wanted_bytes == len(batch())
    assert list(read_all(log)) == [0, 1]
    house.filesystem.heal()
    assert append(log) == [2]
    flush(log)
    house.kill()
    assert list(read_all(house.restart())) == [0, 1, 2]
    assert offline_lines(caplog) == []


def test_a_partial_batch_that_cannot_be_truncated_fails_the_log(caplog):
    house, log = opened()
    append(log, 2)
    flush(log)
    house.filesystem.fail("pwrite", error=errno.ENOSPC, bytes_written=50)
    house.filesystem.fail("truncate", error=errno.EIO)
    with pytest.raises(AppendFailed):
        log.append(batch(), NOW)
    with pytest.raises(LogFailed):
        log.append(batch(), NOW)
    assert log.failed is not None
    assert list(read_all(log)) == [0, 1]
    house.kill()
    assert list(read_all(house.restart())) == [0, 1]
    assert len(offline_lines(caplog)) == 1


@pytest.mark.parametrize(
    ("op", "path_part"), [("open", ".log"), ("open", ".index"), ("open", ".timeindex")]
)
def test_no_room_for_a_new_segment_leaves_no_file_that_claims_offsets(op, path_part):
    house, log = opened(internal_segment_bytes=250)
    append(log, 2, value=b"v" * 30)
    flush(log)
    house.filesystem.fail(op, error=errno.ENOSPC, path_part=path_part, forever=True)
    with pytest.raises(AppendFailed):
        log.append(batch(b"v" * 60), NOW)
    assert log.failed is None
    assert house.names(".log") == ["00000000000000000000.log"]
    house.filesystem.heal()
    assert append(log, value=b"") == [2], "a smaller batch fits into the previous segment"
    flush(log)
    checkpoint(house, log)
    house.kill()
    assert list(read_all(house.restart())) == [0, 1, 2]


def test_retention_continues_without_room_for_a_new_segment():
    house, log = opened(internal_segment_bytes=200, retention_ms=50)
    append(log, 5)
    flush(log)
    checkpoint(house, log)
    count = len(log.segments)
    house.filesystem.fail("open", error=errno.ENOSPC, path_part=".log", forever=True)
    assert apply_retention(house, log, NOW + 100_000) == count - 1
    house.filesystem.heal()
    assert apply_retention(house, log, NOW + 100_000) == 1
    assert (log.start_offset, log.end_offset) == (5, 5)


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS])
def test_any_other_failed_write_fails_only_its_log(number, caplog):
    house, log = opened()
    other = house.log("other")
    append(log, 2)
    flush(log)
    append(log)
    house.filesystem.fail("pwrite", error=number)
    with pytest.raises(AppendFailed):
        log.append(batch(), NOW)
    with pytest.raises(LogFailed):
        log.append(batch(), NOW)
    assert list(read_all(log)) == [0, 1], "reads end at the last durable offset"
    assert append(other) == [0]
    flush(other)
    assert list(read_all(other)) == [0]
    assert house.manager.unflushed_bytes == 0
    assert len(offline_lines(caplog)) == 1
    assert not house.stop()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_failed_fsync_fails_the_log_for_any_reason(number, caplog):
    house, log = opened()
    append(log, 2)
    flush(log)
    append(log, 3)
    house.filesystem.fail("fdatasync", error=number)
    flush(log)
    assert log.failed is not None
    assert log.high_watermark == log.durable_offset == 2
    assert list(read_all(log)) == [0, 1]
    assert log.begin_flush() is None, "never tried again"
    assert len(offline_lines(caplog)) == 1
    assert caplog.records[-1].levelno == logging.ERROR


def test_a_closed_log_logs_nothing(caplog):
    house, log = opened()
    append(log)
    log.close("/moved")
    assert log.failed is not None
    assert offline_lines(caplog) == []
    assert house.manager.unflushed_bytes == 0


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_flush_without_a_descriptor_is_left_to_the_next_one(number, caplog):
    """A new name had to be synced. The log went offline until a restart."""
    house, log = opened()
    append(log, 12)
    assert len(log.segments) > 1
    house.filesystem.fail("sync_directory", error=number, forever=True)
    for _ in range(3):
        flush(log)
    assert (log.failed, log.durable_offset, log.unflushed_bytes) == (None, 0, 12 * len(batch()))
    assert len([line for line in caplog.messages if "cannot be flushed yet" in line]) == 1
    append(log, 12)
    house.filesystem.heal()
    flush(log)
    assert (log.durable_offset, log.high_watermark, log.unflushed_bytes) == (24, 24, 0)
    house.crash()
    assert list(read_all(house.restart())) == list(range(24))
