"""Recovery after crashes, power cuts and disk errors."""

import contextlib
import struct

import pytest

from protocol.record_batch import HEADER_SIZE, verify
from storage.errors import LogFailed, OffsetOutOfRange
from storage.files.filenames import RECOVERY_POINT_CHECKPOINT
from tests.support.log_house import DATA, NOW, House, append, batch, checkpoint, flush, read_all
from tests.support.stopped_logs import LOG, SIZE, house_with, quarantined, report_of

POINTS = f"{DATA}/{RECOVERY_POINT_CHECKPOINT}"


def test_bytes_above_the_recovery_point_are_written_again_and_synced():
    """A failed fsync leaves pages that look clean and never reached the disk."""
    house = house_with(5, below=5)
    log = house.manager.get("t", 0)
    append(log, 5)
    house.filesystem.fail("fdatasync", path_part=".log")
    flush(log)
    assert log.failed is not None
    house.filesystem.heal()
    assert len(house.filesystem.durable_bytes(house.path(LOG))) == 5 * SIZE
    house.kill()
    log = house.restart()
    assert log.end_offset == 10
    assert len(house.filesystem.durable_bytes(house.path(LOG))) == 10 * SIZE
    assert report_of(house).bytes_rewritten == 5 * SIZE
    house.crash()
    assert house.restart().end_offset == 10


@pytest.mark.parametrize("position", [0, 8, 12, 16, 17, 21, 23, 43, HEADER_SIZE + 3, SIZE - 1])
def test_a_flip_above_the_recovery_point_ends_the_log_there(position):
    house = house_with(10, below=3)
    data = house.filesystem.live_bytes(house.path(LOG))
    at = 6 * SIZE + position
    house.filesystem.edit(house.path(LOG), at, bytes([data[at] ^ 0x10]))
    house.kill()
    log = house.restart()
    if position == 12:  # the leader epoch: no CRC covers it, and no neighbour contradicts it
        assert log.end_offset == 10
        return
    assert log.end_offset == 6
    assert len(read_all(log)) == 6
    (kept,) = quarantined(house).values()
    assert kept == house_bytes(data, at, 0x10)[6 * SIZE :]


def house_bytes(data, at, bit):
    flipped = bytearray(data)
    flipped[at] ^= bit
    return bytes(flipped)


def test_a_closed_segment_with_an_unfinished_roll_gets_its_last_time_entry():
    house = House()
    house.open()
    config = {"internal_segment_bytes": 4 * SIZE, "index_interval_bytes": 10**6}
    log = house.log(**config)
    for timestamp in (NOW, NOW + 7, NOW + 3, NOW, NOW):
        append(log, 1, timestamp=timestamp)
    flush(log)
    path = house.path(LOG.replace("log", "timeindex"))
    house.filesystem.edit(path, 0, bytes(len(house.filesystem.live_bytes(path))))
    house.kill()
    house.restart(**config)
    assert house.filesystem.live_bytes(path)[:12] == struct.pack(">qi", NOW + 7, 1)


@pytest.mark.parametrize("unsynced", ["lost", "zeros"])
def test_a_roll_at_the_recovery_point_gets_its_last_time_entry_too(unsynced):
    """The previous segment was active at the checkpoint, so its roll came later."""
    house = House()
    house.open()
    config = {"internal_segment_bytes": 4 * SIZE, "index_interval_bytes": 10**6}
    log = house.log(**config)
    for timestamp in (NOW, NOW + 7, NOW + 3, NOW):
        append(log, 1, timestamp=timestamp)
    flush(log)
    checkpoint(house, log)
    append(log)  # rolls
    flush(log)
    house.crash(unsynced)
    assert house.restart(**config).recovery_point == 4
    index = house.filesystem.live_bytes(house.path(LOG.replace("log", "timeindex")))
    assert index[-12:] == struct.pack(">qi", NOW + 7, 1)


def test_a_checkpoint_makes_the_files_of_earlier_rolls_durable():
    house = House()
    house.open()
    log = house.log(internal_segment_bytes=4 * SIZE, index_interval_bytes=10**6)
    append(log, 4, timestamp=NOW + 7)
    flush(log)
    checkpoint(house, log)
    append(log)  # rolls
    flush(log)
    checkpoint(house, log)
    path = house.path(LOG.replace("log", "timeindex"))
    assert house.filesystem.durable_bytes(path) == struct.pack(">qi", NOW + 7, 0)


@pytest.mark.parametrize("below", [0, 4])
def test_the_indexes_that_a_killed_process_had_not_synced_are_synced(below):
    """The entries of the roll are in the page cache, and the recovery need not add any."""
    house = House()
    house.open()
    config = {"internal_segment_bytes": 4 * SIZE, "index_interval_bytes": 10**6}
    log = house.log(**config)
    append(log, 4)
    flush(log)
    if below:
        checkpoint(house, log)
    append(log, 2)
    flush(log)
    house.kill()
    log = house.restart(**config)
    flush(log)
    assert checkpoint(house, log) == 6
    path = house.path("00000000000000000000.timeindex")
    entry = house.filesystem.live_bytes(path)
    assert len(entry) == 12
    house.crash()
    assert house.filesystem.durable_bytes(path) == entry


def test_the_last_entry_of_a_stop_that_was_killed_is_synced():
    """The recovery point is the end of the log, and the next stop need not add the entry."""
    config = {"index_interval_bytes": 10**6}
    house = house_with(4, below=4, **config)
    house.manager.get("t", 0).segments.active.on_roll()
    house.kill()
    house.restart(**config)
    assert house.stop()
    path = house.path("00000000000000000000.timeindex")
    entry = house.filesystem.live_bytes(path)
    assert len(entry) == 12
    house.crash()
    assert house.filesystem.durable_bytes(path) == entry


def test_zeros_that_a_power_cut_left_after_index_entries_are_cut():
    """They would stay in the file once the segment is closed."""
    house = house_with(40, below=39, index_interval_bytes=5 * SIZE)
    paths = [house.path(LOG.replace("log", kind)) for kind in ("index", "timeindex")]
    before = [house.filesystem.live_bytes(path) for path in paths]
    for path, entries in zip(paths, before, strict=True):
        assert entries
        house.filesystem.edit(path, len(entries), bytes(240))
    house.kill()
    house.restart(index_interval_bytes=5 * SIZE)
    assert [house.filesystem.live_bytes(path) for path in paths] == before


def test_a_log_that_ends_below_its_recovery_point_assigns_no_offset_twice():
    house = house_with(20, below=20)
    house.kill()
    inode = house.filesystem._inode(house.path(LOG))
    del inode.live[12 * SIZE :]
    log = house.restart()
    assert log.end_offset == 20
    assert append(log) == [20]
    flush(log)
    with pytest.raises(OffsetOutOfRange):
        log.read(15, 1000)
    assert list(read_all(log, 20)) == [20]
    assert "acknowledged records are missing" in "\n".join(report_of(house).lines())


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_an_empty_segment_after_a_lost_tail_is_removed(policy):
    """The new segment's name reached the disk, but the last batch of the previous one did not."""
    config = {"cleanup_policy": (policy,)}
    house = house_with(5, below=3, **config)
    house.manager.get("t", 0).roll(NOW)
    house.filesystem.open(house.path(LOG)).truncate(4 * SIZE)
    house.kill()
    log = house.restart(**config)
    assert (log.end_offset, house.names(".log")) == (4, [LOG])
    assert append(log) == [4]
    assert list(read_all(log)) == list(range(4))


@pytest.mark.parametrize("torn", [1, 2])
def test_a_compacted_log_does_not_end_after_a_hole(torn):
    """A power cut lost the last batch of a segment, and tore the batches of the next one or two.

    If these segments stayed, the next recovery would find them empty and move the end back.
    """
    config = {"cleanup_policy": ("compact",)}
    house = house_with(5, below=3, **config)
    for _ in range(torn):
        house.manager.get("t", 0).roll(NOW)
        append(house.manager.get("t", 0))
    house.filesystem.open(house.path(LOG)).truncate(4 * SIZE)
    for name in house.names(".log")[1:]:
        house.filesystem.edit(house.path(name), 30, b"????")
    house.kill()
    ends = []
    for _ in range(3):
        ends.append(house.restart(**config).end_offset)
        house.kill()
    assert ends == [4, 4, 4]
    assert [len(data) for data in quarantined(house).values()] == [SIZE] * torn


def compacted_with_a_lost_tail():
    """A log whose first segment has lost offset 4, while offsets 5 and 6 in the next are good."""
    config = {"cleanup_policy": ("compact",)}
    house = house_with(5, below=3, **config)
    house.manager.get("t", 0).roll(NOW)
    append(house.manager.get("t", 0))
    append(house.manager.get("t", 0))
    house.filesystem.open(house.path(LOG)).truncate(4 * SIZE)
    return house, config


def test_a_compacted_log_ends_before_a_hole_above_its_recovery_point():
    """Compaction leaves none there: the power cut took the end of a segment and kept the next."""
    house, config = compacted_with_a_lost_tail()
    house.kill()
    for _ in range(2):
        assert house.restart(**config).end_offset == 4
        house.kill()
    assert [len(data) for data in quarantined(house).values()] == [2 * SIZE]


def test_a_young_compacted_log_that_the_checkpoint_does_not_name_ends_before_a_hole():
    house, config = compacted_with_a_lost_tail()
    house.filesystem.replace(POINTS, b"0\n1\nother 0 7\n")
    house.kill()
    assert house.restart(**config).end_offset == 4


def test_a_hole_stays_where_the_recovery_point_is_not_known():
    """Without its checkpoint it may be compaction's: nothing behind it is cut."""
    house, config = compacted_with_a_lost_tail()
    house.filesystem.unlink(POINTS)
    house.kill()
    log = house.restart(**config)
    assert log.end_offset == 7
    assert [*read_all(log)] == [0, 1, 2, 3, 5, 6]
    assert not quarantined(house)


def test_a_recovery_interrupted_at_any_step_is_completed_by_the_next():
    """Crash at the nth call of each kind, and again: no good batch is ever lost."""
    for operation in ("pwrite", "fdatasync", "truncate", "rename", "sync_directory", "pread"):
        for nth in range(1, 12):
            house = house_with(20, below=2, internal_segment_bytes=5 * SIZE)
            house.filesystem.edit(house.path("00000000000000000015.log"), 2 * SIZE, b"\xff" * 99)
            house.kill()
            house.filesystem.fail(operation, nth, forever=True)
            with contextlib.suppress(OSError, LogFailed):
                house.restart(internal_segment_bytes=5 * SIZE)
            house.filesystem.heal()
            house.crash()
            log = house.restart(internal_segment_bytes=5 * SIZE)
            assert log.end_offset == 17, (operation, nth)
            assert list(read_all(log)) == list(range(17))


def test_a_batch_larger_than_a_chunk_is_recovered():
    house = House()
    house.open()
    log = house.log(internal_segment_bytes=10**8, max_message_bytes=10**7)
    for value in (b"a", b"b" * 3_000_000, b"c"):
        log.append(batch(value), house.now_ms)
    flush(log)
    house.kill()
    log = house.restart(internal_segment_bytes=10**8)
    assert log.end_offset == 3
    piece = log.read(1, 1)
    assert len(piece) > 3_000_000
    assert verify(piece.read()).base_offset == 1


def test_adjacent_batches_of_every_kind_are_recovered():
    """The fast path over plain batches hands over the others and continues after them."""
    house = House()
    house.open()
    log = house.log(internal_segment_bytes=0, index_interval_bytes=100)
    for number in range(40):
        producer = {"pid": 7, "epoch": 0, "sequence": number // 4} if number % 4 == 0 else {}
        log.append(batch(b"v" * number, timestamp=NOW + number, **producer), NOW)
    flush(log)
    house.kill()
    again = house.restart(internal_segment_bytes=0, index_interval_bytes=100)
    assert sorted(read_all(again)) == list(range(40))
    entry = again.producers.entries[7]
    assert [one.last_sequence for one in entry.batches] == [5, 6, 7, 8, 9]
    active = again.segments.active
    assert (active.max_timestamp, active.max_timestamp_offset) == (NOW + 39, 39)
    assert active.indexes.offset.entry_count > 10
    assert again.epochs.entries()[0] == (0, 0)
