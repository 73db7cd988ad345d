"""One partition's log: appending, rolling, flushing, and how each of them fails."""

import errno

import pytest

from protocol.record_batch import verify
from protocol.record_errors import CorruptBatch, RecordBatchTooLarge
from protocol.records import Record, build
from storage.errors import (
    AppendFailed,
    BatchTooLarge,
    InvalidTimestamp,
    LogFailed,
    NoTransaction,
    OutOfOrderSequence,
)
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
LOG = "00000000000000000000.log"


@pytest.fixture
def house():
    house = House()
    house.open()
    return house


# -- Appending --------------------------------------------------------------------------------


def test_an_appended_batch_is_stamped_and_written_to_the_file(house):
    log = house.log(epoch=7)
    append(log, 3)
    sent = batch(count=4)
    appended = log.append(sent, NOW)
    assert appended == (3, 6, -1, 0, False)
    assert (log.end_offset, log.durable_offset, log.high_watermark) == (7, 0, 0)
    stored = house.filesystem.live_bytes(house.path(LOG))[3 * SIZE :]
    assert stored == bytes(sent)
    header = verify(stored)
    assert (header.base_offset, header.leader_epoch) == (3, 7)
    assert log.epochs.entries() == [(7, 0)]


def damaged():
    data = batch()
    data[70] ^= 1
    return data


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        ("damaged", damaged, CorruptBatch),
        ("larger than max.message.bytes", lambda: batch(b"x" * 600), RecordBatchTooLarge),
        ("too new", lambda: batch(timestamp=NOW + 1001), InvalidTimestamp),
        ("too old", lambda: batch(timestamp=NOW - 2001), InvalidTimestamp),
        ("out of order", lambda: batch(pid=5, epoch=0, sequence=9), OutOfOrderSequence),
        (
            "transactional without a transaction",
            lambda: memoryview(
                build(
                    [Record(0, NOW, None, b"")],
                    producer_id=5,
                    producer_epoch=0,
                    base_sequence=1,
                    transactional=True,
                )
            ),
            NoTransaction,
        ),
    ],
)
def test_a_refused_batch_changes_nothing(house, name, data, error):
    log = house.log(
        max_message_bytes=500,
        message_timestamp_after_max_ms=1000,
        message_timestamp_before_max_ms=2000,
    )
    log.append(batch(pid=5, epoch=0, sequence=0), NOW)
    before = house.filesystem.live_bytes(house.path(LOG)), repr(log.producers.entries)
    with pytest.raises(error):
        log.append(data(), NOW)
    assert (house.filesystem.live_bytes(house.path(LOG)), repr(log.producers.entries)) == before
    assert log.failed is None
    assert append(log) == [1], name


@pytest.mark.parametrize("timestamp", [NOW + 1000, NOW - 2000, -1])
def test_timestamps_at_the_limits_and_none_are_accepted(house, timestamp):
    log = house.log(message_timestamp_after_max_ms=1000, message_timestamp_before_max_ms=2000)
    assert append(log, timestamp=timestamp) == [0]


def test_a_batch_larger_than_a_segment_is_refused(house):
    log = house.log(internal_segment_bytes=SIZE - 1)
    with pytest.raises(BatchTooLarge):
        append(log)
    assert (log.end_offset, len(log.segments)) == (0, 1)


def test_a_duplicate_returns_its_original_and_is_not_appended(house):
    log = house.log()
    first = log.append(batch(count=3, pid=5, epoch=0, sequence=0), NOW)
    log.append(batch(count=2, pid=5, epoch=0, sequence=3), NOW)
    again = log.append(batch(count=3, pid=5, epoch=0, sequence=0), NOW)
    assert again[:2] == first[:2]
    assert again.is_duplicate
    assert log.end_offset == 5


def test_log_append_time_stamps_and_never_goes_back(house):
    log = house.log(message_timestamp_type="LogAppendTime")
    times = [log.append(batch(timestamp=5), now).append_time_ms for now in (NOW, NOW - 60, NOW + 9)]
    assert times == [NOW, NOW, NOW + 9]
    header = verify(house.filesystem.live_bytes(house.path(LOG)))
    assert header.is_log_append_time
    assert header.max_timestamp == NOW


def test_the_brokers_own_batches_are_appended_without_producer_checks(house):
    log = house.log()
    marker = build([Record(0, NOW, b"\0\0\0\2", b"")], control=True)
    assert log.append_own(marker, NOW).base_offset == 0
    assert verify(house.filesystem.live_bytes(house.path(LOG))).is_control


@pytest.mark.parametrize("bytes_written", [0, 10, SIZE])
def test_a_full_disk_truncates_the_batch_and_later_appends_succeed(house, bytes_written):
    log = house.log()
    append(log, 2)
    house.filesystem.fail("pwrite", error=errno.ENOSPC, bytes_written=bytes_written)
    with pytest.raises(AppendFailed) as caught:
        log.append(batch(pid=5, epoch=0, sequence=0), NOW)
    assert caught.value.rolled_back
    assert (log.failed, log.end_offset) == (None, 2)
    assert len(house.filesystem.live_bytes(house.path(LOG))) == 2 * SIZE
    # The producer retries with the same sequence.
    assert log.append(batch(pid=5, epoch=0, sequence=0), NOW).base_offset == 2
    flush(log)
    assert len(read_all(log)) == 3


def test_after_a_full_disk_at_a_roll_later_appends_succeed(house):
    log = house.log(internal_segment_bytes=2 * SIZE)
    append(log, 2)
    house.filesystem.fail("open", error=errno.ENOSPC, path_part="00000000000000000002")
    with pytest.raises(AppendFailed):
        append(log)
    assert (log.failed, log.end_offset, len(log.segments)) == (None, 2, 1)
    assert append(log, 3) == [2, 3, 4]
    flush(log)
    house.crash()
    assert len(read_all(house.restart(internal_segment_bytes=2 * SIZE))) == 5


@pytest.mark.parametrize("truncates", [True, False])
def test_any_other_failed_write_fails_the_log(house, truncates):
    log = house.log()
    append(log, 2)
    flush(log)
    append(log, 2)
    house.filesystem.fail("pwrite", error=errno.EIO, bytes_written=30)
    if not truncates:
        house.filesystem.fail("truncate")
    with pytest.raises(AppendFailed):
        append(log)
    house.filesystem.heal()
    assert log.failed is not None
    with pytest.raises(LogFailed):
        append(log)
    assert list(read_all(log)) == [0, 1]
    assert house.manager.unflushed_bytes == 0
    assert not house.stop()
    house.filesystem.kill()
    assert house.restart().end_offset == 4


# -- Rolling ----------------------------------------------------------------------------------


def bases(log):
    return [segment.base_offset for segment in log.segments]


@pytest.mark.parametrize(
    ("name", "config", "appends", "wanted"),
    [
        ("by size", {"internal_segment_bytes": 3 * SIZE}, [NOW] * 7, [0, 3, 6]),
        ("one byte short of three", {"internal_segment_bytes": 3 * SIZE - 1}, [NOW] * 4, [0, 2]),
        ("at the age: not yet", {"segment_ms": 100}, [NOW, NOW + 100], [0]),
        ("by age of the records", {"segment_ms": 100}, [NOW, NOW + 101], [0, 1]),
        ("old records roll nothing", {"segment_ms": 100}, [NOW, NOW - 999], [0]),
        ("index full", {"segment_index_bytes": 36, "index_interval_bytes": 0}, [NOW] * 6, None),
    ],
)
def test_rolling(house, name, config, appends, wanted):
    log = house.log(**({"internal_segment_bytes": 10**6} | config))
    for timestamp in appends:
        log.append(batch(timestamp=timestamp), NOW)
    if wanted is None:
        assert len(log.segments) > 1, name
    else:
        assert bases(log) == wanted, name
    flush(log)
    assert len(read_all(log)) == len(appends)


def test_offsets_that_do_not_fit_the_index_roll(house):
    log = house.log()
    append(log)
    log.end_offset = 2**31 + 5
    append(log)
    assert bases(log) == [0, 2**31 + 5]


def test_an_empty_segment_is_not_rolled(house):
    log = house.log()
    assert log.roll(NOW) is log.segments.active
    assert bases(log) == [0]


def test_a_roll_leaves_a_snapshot_and_complete_indexes(house):
    log = house.log(internal_segment_bytes=4 * SIZE, index_interval_bytes=1)
    for n in range(5):
        log.append(batch(pid=5, epoch=0, sequence=n), NOW)
    flush(log)
    checkpoint(house, log)
    assert f"{4:020}.snapshot" in house.names()
    assert len(house.filesystem.live_bytes(house.path(f"{0:020}.index"))) == 3 * 8
    assert len(house.filesystem.live_bytes(house.path(f"{0:020}.timeindex"))) == 12


# -- Flushing ---------------------------------------------------------------------------------


def test_visible_records_are_durable(house):
    log = house.log()
    append(log, 3)
    assert log.read(0, 10**6) is None
    job = log.begin_flush()
    job.run()
    append(log, 2)
    assert log.begin_flush() is None, "one at a time"
    assert log.high_watermark == 0
    log.finish_flush(job, None)
    assert (log.durable_offset, log.high_watermark, log.end_offset) == (3, 3, 5)
    assert len(log.read(0, 10**6)) == 3 * SIZE
    assert log.unflushed_bytes == house.manager.unflushed_bytes == 2 * SIZE
    house.crash()
    assert len(read_all(house.restart())) == 3


def test_a_new_segments_name_is_durable_before_its_records_are(house):
    log = house.log(internal_segment_bytes=2 * SIZE)
    append(log, 5)
    flush(log)
    house.crash()
    assert len(read_all(house.restart(internal_segment_bytes=2 * SIZE))) == 5


def test_a_failed_fsync_is_never_forgotten(house):
    log = house.log()
    append(log, 2)
    flush(log)
    append(log, 2)
    house.filesystem.fail("fdatasync", path_part=".log")
    flush(log)
    assert "fsync failed" in log.failed.reason
    assert (log.durable_offset, log.high_watermark) == (2, 2)
    assert log.begin_flush() is None, "a second fsync would succeed without writing the pages"
    assert log.begin_checkpoint() is None
    assert house.manager.unflushed_bytes == 0
    for _ in range(2):
        with pytest.raises(LogFailed):
            append(log)
    assert list(read_all(log)) == [0, 1]
    assert log.read(3, 100) is None
    assert not house.stop()
    house.filesystem.crash()
    assert list(read_all(house.restart())) == [0, 1]


def test_beginning_a_flush_opens_no_file_so_it_cannot_fail(house):
    """A log's first flush once raised an uncaught error: its waiters were never answered."""
    log = house.log()
    append(log)
    house.filesystem.fail("open", forever=True)
    job = log.begin_flush()
    with pytest.raises(OSError, match="Input/output"):
        job.run()


def test_a_roll_retention_and_eviction_do_not_disturb_a_flush():
    house = House(open_files_max=4)
    house.open()
    config = {"internal_segment_bytes": 2 * SIZE, "write_caching": True, "retention_bytes": 0}
    log = house.log(**config)
    other = house.log("u", internal_segment_bytes=SIZE)
    append(log, 3)
    flush(log)
    append(log, 2)
    job = log.begin_flush()
    append(log, 4)
    append(other, 9)
    checkpoint(house, log)
    assert apply_retention(house, log, NOW) == 1
    house.purge(NOW + 10**9)
    job.run()
    log.finish_flush(job, None)
    assert (log.durable_offset, log.start_offset) == (5, 2)
    house.crash()
    assert list(read_all(house.restart(**config)))[:3] == [2, 3, 4]


def test_a_flush_that_ends_after_its_log_was_deleted_changes_nothing(house):
    log = house.log()
    other = house.log("u")
    append(log, 3)
    append(other, 1)
    job = log.begin_flush()
    house.delete_log("t", 0)
    house.purge(NOW + 10**9)
    job.run()
    log.finish_flush(job, None)
    assert house.manager.unflushed_bytes == other.unflushed_bytes == SIZE
    with pytest.raises(LogFailed):
        append(log)


def test_with_write_caching_records_are_visible_at_once(house):
    log = house.log(write_caching=True, flush_messages=3, flush_ms=500)
    append(log, 2)
    assert len(read_all(log)) == 2
    assert not log.flush_due(NOW + 499)
    assert log.flush_due(NOW + 500), "flush.ms"
    append(log)
    assert log.flush_due(), "flush.messages"
    flush(log)
    assert not log.flush_due(NOW + 9999)
    append(log, 20)
    flush(log)
    append(log)
    assert not log.flush_due(NOW)
    log.roll(NOW)
    assert log.flush_due(NOW), "a roll"
    house.filesystem.fail("fdatasync")
    flush(log)
    assert log.high_watermark == log.durable_offset < log.end_offset


def test_write_caching_can_be_changed(house):
    log = house.log()
    append(log, 3)
    log.update_config(house.log("u", write_caching=True).config)
    assert log.high_watermark == 3
    log.update_config(house.log("v").config)
    assert log.high_watermark == 3, "records that readers have seen stay visible"
    append(log)
    assert log.high_watermark == 3
    flush(log)
    assert log.high_watermark == log.durable_offset == 4


def test_idle_producers_expire(house):
    log = house.log()
    log.append(batch(pid=5, epoch=0, sequence=0), NOW)
    assert sum(log.expire_producers(NOW + 86_399_999)) == 0
    assert sum(log.expire_producers(NOW + 86_400_000)) == 1
    assert log.append(batch(pid=5, epoch=0, sequence=77), NOW).base_offset == 1


def test_records_acknowledged_from_the_page_cache_do_not_count_as_unflushed(house):
    cached = house.log(write_caching=True)
    synced = house.log("u")
    append(cached, 5)
    append(synced, 2)
    assert house.manager.unflushed_bytes == synced.unflushed_bytes == 2 * SIZE
    flush(cached)
    assert house.manager.unflushed_bytes == 2 * SIZE
    flush(synced)
    assert house.manager.unflushed_bytes == 0


@pytest.mark.parametrize("ending", ["flush", "failed flush", "close", "delete"])
@pytest.mark.parametrize("switches", [(True,), (False,), (True, False), (False, True, False)])
def test_the_unflushed_count_follows_the_current_write_caching(house, switches, ending):
    """Whatever the setting was at the append, or when the flush began."""
    log = house.log(write_caching=not switches[0], internal_segment_bytes=2 * SIZE)
    configs = {flag: house.log(f"u{flag}", write_caching=flag).config for flag in (True, False)}
    append(log, 3)
    job = log.begin_flush()
    for flag in switches:
        log.update_config(configs[flag])
        append(log)
        assert house.manager.unflushed_bytes == (0 if flag else log.unflushed_bytes)
    job.run()
    if ending == "close":
        log.close(log.directory + "-delete")
    elif ending == "delete":
        house.delete_log("t", 0)
    log.finish_flush(job, OSError(errno.EIO, "lost") if ending == "failed flush" else None)
    if ending == "flush":
        counted = 0 if switches[-1] else len(switches) * SIZE
        assert house.manager.unflushed_bytes == counted
        flush(log)
    assert house.manager.unflushed_bytes == 0
