"""A whole pass: what stays, which files exist, and a crash at each of its file calls."""

import errno
import logging
import pickle
from typing import NamedTuple

import pytest

from protocol.records import Record
from storage.compaction.cleanable import find_cleanable
from storage.compaction.one_pass import CompactionAborted, compact
from storage.errors import AppendFailed, DamagedLog, LogFailed
from storage.segments.log_file import LogFile
from tests.support.compacting import (
    FIVE,
    ONE,
    clean,
    drive,
    fill,
    headers_of,
    keyed,
    keyed_house,
    limits,
    newest,
    offsets,
    records_of,
    records_of_all,
    settle,
)
from tests.support.log_house import NOW, House, append, apply_retention, delete_records, flush
from tests.support.thorough import share_of


def test_the_newest_record_of_each_key_stays_with_its_offset():
    house, log = keyed_house(23)  # segments 0, 5, 10, 15, 20: the last is active
    before = records_of_all(house, log)
    result = clean(house, log)
    assert (result.start_offset, result.end_offset) == (0, 20)
    assert offsets(log) == [16, 17, 18, 19, 20, 21, 22]
    assert newest(records_of(log)) == newest(before)
    assert records_of(log) == [record for record in before if record.offset in offsets(log)]
    assert log.end_offset == 23
    assert log.start_offset == 0
    assert [segment.base_offset for segment in log.segments] == [0, 5, 10, 15, 20]
    assert result.counts.records_kept == 4


def test_a_second_pass_merges_the_segments_that_the_first_emptied():
    house, log = keyed_house(23)
    clean(house, log)
    fill(log, 20, start=23)
    clean(house, log)
    assert [segment.base_offset for segment in log.segments] == [0, 20, 25, 30, 35, 40]
    assert newest(records_of(log)) == {b"k%02d" % (n % 4): (n, b"%03d" % n) for n in range(39, 43)}
    assert house.names(".deleted")
    assert not house.names(".cleaned") + house.names(".swap")


def test_readers_skip_holes_from_any_offset():
    house, log = keyed_house(23)
    clean(house, log)
    for start in range(23):
        wanted = [offset for offset in offsets(log) if offset >= start]
        piece = log.read(start, ONE)
        header = piece.read()
        assert int.from_bytes(header[:8], "big") == wanted[0]


def test_a_compacted_log_survives_a_clean_and_an_unclean_restart():
    for end in ("stop", "kill", "crash"):
        house, log = keyed_house(23)
        clean(house, log)
        wanted = records_of(log)
        getattr(house, end)()
        log = house.restart(**FIVE)
        assert records_of(log) == wanted, end
        assert log.segments.cleaned.offset == 20, end
        assert log.end_offset == 23, end
        assert house.filesystem.read("/data/cleaner-offset-checkpoint") == b"0\n1\nt 0 20\n"
        assert find_cleanable(log, NOW).dirty_bytes == 0


def test_a_tombstone_is_removed_once_its_horizon_has_passed():
    house, log = keyed_house(0)
    log.append(keyed([(b"a", b"1")]), NOW)
    log.append(keyed([(b"a", None)]), NOW)
    fill(log, 5, keys=100)
    clean(house, log, NOW)
    assert next((r.offset, r.key, r.value) for r in records_of(log)) == (1, b"a", None)
    (tombstone,) = [header for header in headers_of(log) if header.has_delete_horizon]
    assert tombstone.base_timestamp == NOW + log.config.delete_retention_ms
    assert tombstone.base_offset == 1
    assert next(iter(records_of(log))).timestamp == NOW
    for now_ms, stays in ((tombstone.base_timestamp - 1, True), (tombstone.base_timestamp, False)):
        fill(log, 5, keys=100, start=log.end_offset)
        clean(house, log, now_ms)
        assert (1 in offsets(log)) is stays


def test_a_producer_keeps_its_last_batch_as_a_header():
    house, log = keyed_house(0)
    for n in range(6):
        log.append(keyed([(b"k", b"%d" % n)], pid=9, epoch=2, sequence=n), NOW)
    fill(log, 8, keys=1, start=10)  # k00, not k
    log.append(keyed([(b"k", b"last")]), NOW)
    fill(log, 6, keys=1, start=20)
    clean(house, log)
    (header,) = [header for header in headers_of(log) if header.producer_id == 9]
    assert (header.base_offset, header.record_count, header.last_sequence) == (5, 0, 5)
    assert header.producer_epoch == 2
    house.kill()
    for path in house.names(".snapshot") + house.names(".producers"):
        house.filesystem.unlink(house.path(path))
    log = house.restart(**FIVE)
    assert log.append(keyed([(b"k", b"5")], pid=9, epoch=2, sequence=5), NOW).is_duplicate
    assert log.append(keyed([(b"k", b"n")], pid=9, epoch=2, sequence=6), NOW).base_offset == 21


def test_the_last_batch_of_the_pass_stays_as_a_header():
    house, log = keyed_house(0)
    for _ in range(5):
        log.append(keyed([(b"a", b"1")]), NOW)
    log.append(keyed([(None, b"no key")]), NOW)  # from before the topic was compacted
    log.roll(NOW)
    clean(house, log)
    assert [(h.base_offset, h.record_count) for h in headers_of(log)] == [(4, 1), (5, 0)]


def test_codecs_headers_and_timestamps_are_kept_in_rewritten_batches():
    for codec in range(5):
        house, log = keyed_house(0, internal_segment_bytes=1000)
        fill(log, 60, keys=7, per_batch=10, codec=codec)
        before = records_of_all(house, log)
        log.roll(NOW)
        clean(house, log)
        after = records_of(log)
        assert after == [record for record in before if record.offset >= 53]
        (header,) = headers_of(log)
        assert (header.base_offset, header.last_offset, header.codec) == (50, 59, codec)
        assert header.record_count == 7


def test_a_full_map_ends_the_pass_early_and_the_next_pass_continues():
    house, log = keyed_house(60, keys=40)
    before = newest(records_of_all(house, log))
    ends = []
    for _ in range(40):
        if not find_cleanable(log, NOW).dirty_bytes:
            break
        result = clean(house, log, map_bytes_max=11 * 24)
        assert result.keys <= 10
        ends.append(result.end_offset)
    assert ends == sorted(set(ends))
    assert ends[-1] == 55
    assert newest(records_of(log)) == before
    assert offsets(log) == list(range(15, 60))  # the active segment is in no map


def test_segments_above_the_recovery_point_are_not_compacted():
    _, log = keyed_house(23)
    assert find_cleanable(log, NOW).dirty_bytes == 0
    flush(log)
    assert find_cleanable(log, NOW).dirty_bytes == 0


def test_damage_ends_the_pass_with_its_position_and_changes_nothing():
    for position, what in ((2 * ONE + 70, "CRC"), (2 * ONE + 6, "offsets"), (ONE + 9, "size")):
        house, log = keyed_house(23)
        settle(house, log)
        path = house.path(f"{5:020}.log")
        content = bytearray(house.filesystem.live_bytes(path))
        house.filesystem.edit(path, position, bytes([content[position] ^ 0x40]))
        names, sizes = house.names(), log.size_bytes
        with pytest.raises(DamagedLog) as caught:
            clean(house, log)
        assert caught.value.path == path, what
        assert caught.value.position in (ONE, 2 * ONE, 3 * ONE), what
        assert house.names() == names
        assert log.size_bytes == sizes
        assert not log.segments.held
        assert log.segments.cleaned.offset == 0


def test_closing_a_log_ends_its_pass():
    house, log = keyed_house(23)
    settle(house, log)
    steps = compact(log, find_cleanable(log, NOW), limits(), NOW)
    next(steps)()
    house.delete_log("t", 0)
    with pytest.raises(CompactionAborted):
        drive(steps)
    new = house.log(**FIVE)
    fill(new, 23)
    clean(house, new)
    assert offsets(new) == [16, 17, 18, 19, 20, 21, 22]


def test_a_pass_makes_no_file_in_the_directory_of_the_next_log_of_that_name():
    """A later pass there would write over the file, and what is longer would stay behind it."""
    house, log = keyed_house(23)
    settle(house, log)
    steps = compact(log, find_cleanable(log, NOW), limits(), NOW)
    for _ in range(3):  # leftovers, keys, groups
        next(steps)()
    copy = next(steps)
    house.delete_log("t", 0)
    house.log(**FIVE)
    with pytest.raises(LogFailed):
        copy()
    with pytest.raises(CompactionAborted):
        drive(steps)
    assert not house.names(".cleaned")


def test_retention_waits_for_the_pass():
    house, log = keyed_house(23, cleanup_policy=("compact", "delete"))
    log.update_config(log.config.with_overrides({"retention.bytes": "0"}))
    settle(house, log)
    steps = compact(log, find_cleanable(log, NOW), limits(), NOW)
    next(steps)()
    assert apply_retention(house, log, NOW) == 0
    drive(steps)
    assert apply_retention(house, log, NOW) >= 4
    assert log.start_offset >= 20


def test_a_log_that_begins_in_its_active_segment_is_compacted():
    house, log = keyed_house(23, cleanup_policy=("compact", "delete"))
    settle(house, log)
    delete_records(house, log, 22)
    result = clean(house, log)
    assert (result.start_offset, result.end_offset) == (22, 22)
    assert offsets(log) == [22]


def test_a_pass_does_not_begin_during_a_deletion():
    house, log = keyed_house(23, cleanup_policy=("compact", "delete"))
    settle(house, log)
    delete_records(house, log, 7)
    deletion = log.begin_deletion(NOW)
    with pytest.raises(CompactionAborted, match="being deleted"):
        next(compact(log, find_cleanable(log, NOW), limits(), NOW))
    assert log.segments.held
    deletion.run()
    deletion.finish()
    assert drive(compact(log, find_cleanable(log, NOW), limits(), NOW)).end_offset == 20


def test_an_aborted_pass_leaves_no_file():
    house, log = keyed_house(23)
    settle(house, log)

    def stop(_):
        raise CompactionAborted("stop")

    for at in range(2):
        calls = iter([lambda _: None] * at + [stop] * 1000)
        with pytest.raises(CompactionAborted):
            drive(
                compact(
                    log,
                    find_cleanable(log, NOW),
                    limits(proceed=lambda n, c=calls: next(c)(n)),
                    NOW,
                )
            )
        assert not house.names(".cleaned") + house.names(".swap")
    clean(house, log)
    assert offsets(log)[0] == 16


def test_a_full_disk_ends_the_pass_and_a_retry_succeeds():
    house, log = keyed_house(23)
    settle(house, log)
    house.filesystem.fail("pwrite", error=errno.ENOSPC, path_part=".cleaned")
    with pytest.raises(AppendFailed) as caught:
        clean(house, log)
    assert caught.value.cause.errno == errno.ENOSPC
    assert log.failed is None
    clean(house, log)
    assert offsets(log)[0] == 16
    assert not house.names(".cleaned") + house.names(".swap")


# -- The end of the process, and of the power, at every call --------------------------------------

SCENES = {"kill": None, "lost": "lost", "kept": "kept", "torn": "torn", "zeros": "zeros"}


class _Stop(BaseException):
    """The process ends here."""


def crashing_house(**config):
    """A log that was cleaned once, then got dirty segments; some of them will be merged."""
    house, log = keyed_house(33, keys=6, **config)
    clean(house, log)
    fill(log, 30, keys=6, start=33, pid=4)
    return house, log


class Stopped(NamedTuple):
    """The disks of processes that ended at each call, and the records before the pass."""

    disks: list[tuple[int, bytes]]  # by call; pickled, because each disk is crashed in several ways
    records: dict[int, Record]
    newest: dict[bytes, tuple[int, bytes]]
    offsets_after: set[int]  # of the records that a complete pass leaves


@pytest.fixture(scope="module")
def stopped():
    house, log = crashing_house()
    wanted = newest(records_of_all(house, log))
    before = {record.offset: record for record in records_of(log)}
    first = len(house.filesystem.calls)
    clean(house, log)
    call_count = len(house.filesystem.calls) - first
    assert call_count > 60
    result = Stopped([], before, wanted, set(offsets(log)))
    for nth in share_of(range(1, call_count + 1)):
        house, log = crashing_house()
        settle(house, log)
        stop_at(house.filesystem, nth)
        with pytest.raises(_Stop):
            clean(house, log)
        house.filesystem.before = None
        house.manager.abandon()
        house.filesystem.calls.clear()
        result.disks.append((nth, pickle.dumps(house.filesystem)))
    return result


@pytest.mark.parametrize("scene", SCENES)
def test_a_crash_at_every_call_loses_nothing(scene, stopped, caplog):
    caplog.set_level(logging.ERROR)
    for nth, disk in stopped.disks:
        house = House(pickle.loads(disk))
        if SCENES[scene] is None:
            house.filesystem.kill()
        else:
            house.filesystem.crash(SCENES[scene])
        log = house.restart(**FIVE)
        found = records_of(log)
        assert newest(found) == stopped.newest, nth
        assert all(stopped.records[record.offset] == record for record in found), nth
        assert stopped.offsets_after <= {record.offset for record in found}, nth
        assert log.end_offset == 63, nth
        assert [r.offset for r in found] == sorted({r.offset for r in found}), nth
        assert not house.names(".cleaned") + house.names(".swap"), nth
        clean(house, log)
        assert set(offsets(log)) == stopped.offsets_after, nth
        assert newest(records_of(log)) == stopped.newest, nth


def stop_at(filesystem, nth):
    """End the process at the nth call from now; that call does nothing, or half of a write."""
    left = [nth]

    def before(_op, _path):
        left[0] -= 1
        return (_Stop(), 0.5) if left[0] <= 0 else None

    filesystem.before = before


def test_after_any_failed_call_the_log_serves_every_record(caplog):
    caplog.set_level(logging.CRITICAL)
    house, log = crashing_house()
    wanted = newest(records_of_all(house, log))
    first = len(house.filesystem.calls)
    clean(house, log)
    calls = house.filesystem.calls[first:]
    kinds = sorted({op for op, _ in calls} - {"close"})
    assert {"rename", "pwrite", "fdatasync", "sync_directory", "pread"} <= set(kinds)
    for kind in kinds:
        for nth in share_of(range(1, sum(op == kind for op, _ in calls) + 1)):
            house, log = crashing_house()
            settle(house, log)
            house.filesystem.fail(kind, nth, errno.EIO)
            try:
                clean(house, log)
            except (OSError, LogFailed):
                assert not log.segments.held, (kind, nth)
            house.filesystem.heal()
            assert newest(records_of(log)) == wanted, (kind, nth)
            house.kill()
            assert newest(records_of(house.restart(**FIVE))) == wanted, (kind, nth)


def test_log_files_are_never_read_past_their_end():
    house, log = keyed_house(23)
    clean(house, log)
    for segment in log.segments:
        assert isinstance(segment.log_file, LogFile)
        assert house.filesystem.size(segment.log_file.path) == segment.size


def test_appends_continue_during_a_pass():
    house, log = keyed_house(23)
    settle(house, log)
    steps = compact(log, find_cleanable(log, NOW), limits(), NOW)
    job = next(steps)
    while True:
        job()
        append(log, value=b"m" * 5)
        try:
            job = next(steps)
        except StopIteration:
            break
    flush(log)
    assert offsets(log)[:7] == [16, 17, 18, 19, 20, 21, 22]
    assert len(offsets(log)) > 8
