"""Producers after a start: from good and bad snapshots, and from the batches above them."""

import struct

import pytest

from protocol.control_records import Marker
from protocol.records import Record, build
from storage.errors import OutOfOrderSequence, ProducerInDoubt
from tests.support.log_house import NOW, House, append, batch, checkpoint, flush
from tests.support.stopped_logs import SEGMENTS, stopped_house, warnings_of


@pytest.mark.parametrize("content", [b"", b"\0" * 60, b"\xff" * 60, struct.pack(">hIi", 99, 0, 0)])
def test_a_bad_snapshot_is_skipped_for_an_older_one(content):
    house = House()
    house.open()
    log = house.log(**SEGMENTS)
    for sequence in range(12):
        log.append(batch(pid=5, epoch=0, sequence=sequence), NOW)
    assert house.stop()
    house.filesystem.replace(house.path(f"{12:020}.snapshot"), content)
    log = house.restart(**SEGMENTS)
    assert "Failed to load producer snapshot" in warnings_of(house)[0]
    assert not house.filesystem.exists(house.path(f"{12:020}.snapshot")), "it stays for ever"
    assert log.append(batch(pid=5, epoch=0, sequence=9), NOW).base_offset == 9
    assert log.append(batch(pid=5, epoch=0, sequence=12), NOW).base_offset == 12


def test_retries_after_a_kill_are_recognised():
    """All of the last five batches, although Kafka's file holds one (Kafka answers 45)."""
    house = House()
    house.open()
    log = house.log(**SEGMENTS)
    for sequence in range(9):
        log.append(batch(pid=5, epoch=0, sequence=sequence), NOW)
    flush(log)
    checkpoint(house, log)
    house.kill()
    log = house.restart(**SEGMENTS)
    for sequence in range(4, 9):
        appended = log.append(batch(pid=5, epoch=0, sequence=sequence), NOW)
        assert (appended.base_offset, appended.is_duplicate) == (sequence, True)


@pytest.mark.parametrize(
    ("name", "position", "bytes_"),
    [("base offset", 0, 8), ("length", 8, 4), ("magic", 16, 1), ("last offset delta", 23, 4),
     ("producer id", 43, 8), ("epoch", 51, 2), ("base sequence", 53, 4), ("record", 70, 1)],
)  # fmt: skip
def test_a_retry_of_a_damaged_batch_is_not_appended_again(name, position, bytes_):
    """The last batch rots before its producer, which got no answer, sends it again."""
    for bit in range(bytes_ * 8):
        house = House()
        house.open()
        log = house.log()
        for sequence in range(3):
            append(log, pid=7, epoch=0, sequence=sequence)
        flush(log)
        checkpoint(house, log)
        path = house.path(f"{0:020}.log")
        content = house.filesystem.live_bytes(path)
        at = len(content) // 3 * 2 + position + bit // 8
        house.kill()
        house.filesystem.edit(path, at, bytes([content[at] ^ 1 << bit % 8]))
        log = house.restart()
        with pytest.raises(ProducerInDoubt):
            append(log, pid=7, epoch=0, sequence=2)
        assert append(log, pid=7, epoch=0x7FFF, sequence=0) == [3], (name, bit)


def test_the_replay_ends_transactions_at_their_markers():
    house = House()
    house.open()
    log = house.log()
    data = build([Record(0, NOW, None, b"x")], producer_id=5, producer_epoch=0, base_sequence=0,
                 transactional=True)  # fmt: skip
    log.append_own(data, NOW)
    log.append_marker(Marker(5, 1, is_commit=True, coordinator_epoch=77), NOW)
    flush(log)
    house.kill()
    entry = house.restart().producers.entries[5]
    assert (entry.epoch, entry.coordinator_epoch, entry.txn_first_offset) == (1, 77, -1)


def produced(house, count=12):
    """Append batches of producer 5, one after the other; return the log."""
    log = house.log(**SEGMENTS)
    for sequence in range(log.end_offset, log.end_offset + count):
        log.append(batch(pid=5, epoch=0, sequence=sequence), NOW)
    return log


@pytest.mark.parametrize("which", ["all", "the newest", "our own"])
def test_producers_are_rebuilt_without_their_snapshots(which):
    """After a clean stop: all producers in the log, with the last five batches of each."""
    house = House()
    house.open()
    produced(house)
    assert house.stop()
    gone = house.names(".producers")
    if which != "our own":
        gone += house.names(".snapshot")
    if which == "the newest":
        gone = [name for name in gone if name.startswith(f"{12:020}")]
    assert gone
    for name in gone:
        house.filesystem.unlink(house.path(name))
    log = house.restart(**SEGMENTS)
    known = 1 if which == "our own" else 5
    for sequence in range(12 - known, 12):
        again = log.append(batch(pid=5, epoch=0, sequence=sequence), NOW)
        assert (again.is_duplicate, again.base_offset) == (True, sequence)
    with pytest.raises(OutOfOrderSequence):
        log.append(batch(pid=5, epoch=0, sequence=13), NOW)
    assert not log.append(batch(pid=5, epoch=0, sequence=12), NOW).is_duplicate


@pytest.mark.parametrize("count", [0, 3, 12])
@pytest.mark.parametrize("torn", [False, True])
def test_a_log_without_producers_is_replayed_only_without_a_snapshot(count, torn):
    """A clean stop writes an empty snapshot durably: a power cut must not leave half of it."""
    house = stopped_house(0)
    append(house.restart(**SEGMENTS), count)
    flush(house.manager.get("t", 0))
    assert house.stop()
    names = house.names(f"{count:020}.snapshot")
    assert len(names) == bool(count)
    for name in names if torn else ():
        house.filesystem.open(house.path(name)).truncate(0)
    house.filesystem.calls.clear()
    log = house.restart(**SEGMENTS)
    assert log.end_offset == count
    reads = [path for op, path in house.filesystem.calls if (op, path[-4:]) == ("pread", ".log")]
    assert torn or len(reads) <= 2
    assert len(warnings_of(house)) == (torn and count > 0)
    assert house.stop()
    house.restart(**SEGMENTS)
    assert not warnings_of(house), "the snapshot was written again"
