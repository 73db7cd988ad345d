"""Opening a partition's directory: missing and wrong caches, files that do not belong."""

import struct

import pytest

from protocol.records import Record, build
from storage.errors import OffsetOutOfRange, OutOfOrderSequence, ProducerInDoubt
from tests.support.log_house import NOW, House, append, batch, checkpoint, flush, read_all
from tests.support.lookups import first_found

SIZE = len(batch())
SEGMENTS = {"internal_segment_bytes": 5 * SIZE, "index_interval_bytes": 1}
FIRST, SECOND, THIRD = (f"{base:020}" for base in (0, 5, 10))


def stopped_house(count=12, *, clean=True, **config):
    """Three segments: 0, 5 and 10."""
    house = House()
    house.open()
    append(house.log(**(SEGMENTS | config)), count)
    if clean:
        assert house.stop()
    else:
        flush(house.manager.get("t", 0))
        house.kill()
    return house


def warnings_of(house):
    return [text for report in house.manager.reports for text in report.warnings]


def test_a_clean_start_reads_no_log_but_its_end():
    house = stopped_house(400, internal_segment_bytes=10**6)
    house.filesystem.calls.clear()
    log = house.restart(**(SEGMENTS | {"internal_segment_bytes": 10**6}))
    assert log.end_offset == 400
    reads = [path for operation, path in house.filesystem.calls
             if operation == "pread" and path.endswith(".log")]  # fmt: skip
    assert len(reads) <= 3
    assert not [call for call in house.filesystem.calls if call[0] == "pwrite"]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "gone",
    [
        "index",
        "timeindex",
        "snapshot",
        "producers",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ],
)
def test_any_cache_can_be_deleted(clean, gone):
    house = stopped_house(clean=clean)
    for name in house.names(gone):
        house.filesystem.unlink(house.path(name))
    log = house.restart(**SEGMENTS)
    assert list(read_all(log)) == list(range(12))
    assert first_found(log.timestamp_candidates(NOW)).offset == 0
    assert log.epochs.entries() == [(0, 0)]
    for _ in range(3):
        checkpoint(house, log)
    assert house.names(".index") == [f"{base}.index" for base in (FIRST, SECOND, THIRD)]
    assert all(not segment.index_damage for segment in log.segments)
    assert list(read_all(log)) == list(range(12))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kind", ["index", "timeindex"])
@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 4096, b"\xff" * 4096, b"\x01" * 13, struct.pack(">ii", 3, 2**30) * 5],
    ids=["empty", "zeros", "ones", "odd", "beyond"],
)
def test_any_index_can_hold_anything(clean, kind, content):
    house = stopped_house(clean=clean)
    for name in house.names(f".{kind}"):
        house.filesystem.replace(house.path(name), content)
    log = house.restart(**SEGMENTS)
    assert list(read_all(log)) == list(range(12))
    assert list(read_all(log, 7)) == list(range(7, 12))
    assert first_found(log.timestamp_candidates(NOW)).offset == 0
    assert append(log) == [12]


def test_indexes_that_kafka_preallocated_are_read():
    """Killed, Kafka leaves index files of 10 MiB, zeros behind the entries."""
    house = stopped_house(clean=False)
    for name in house.names("index"):
        content = house.filesystem.live_bytes(house.path(name))
        house.filesystem.replace(house.path(name), content.ljust(1 << 16, b"\0"))
    log = house.restart(**SEGMENTS)
    assert list(read_all(log)) == list(range(12))
    append(log, 3)
    assert house.stop()
    assert list(read_all(house.restart(**SEGMENTS))) == list(range(15))


@pytest.mark.parametrize("content", [b"", b"\0" * 60, b"\xff" * 60, struct.pack(">hIi", 99, 0, 0)])
def test_a_bad_snapshot_is_passed_over_for_an_older_one(content):
    house = House()
    house.open()
    log = house.log(**SEGMENTS)
    for sequence in range(12):
        log.append(batch(pid=5, epoch=0, sequence=sequence), NOW)
    assert house.stop()
    house.filesystem.replace(house.path(f"{12:020}.snapshot"), content)
    log = house.restart(**SEGMENTS)
    assert "Failed to load producer snapshot" in warnings_of(house)[0]
    assert log.append(batch(pid=5, epoch=0, sequence=9), NOW).base_offset == 9
    assert log.append(batch(pid=5, epoch=0, sequence=12), NOW).base_offset == 12


def test_retries_after_a_kill_are_known_as_they_were():
    """All of the last five batches, although Kafka's file holds one (KAFKA: answer 45)."""
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
    """The bytes of the last batch rot before its producer, who was not answered, sends it again."""
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


def test_markers_in_the_log_end_transactions_in_the_replay():
    house = House()
    house.open()
    log = house.log()
    data = build([Record(0, NOW, None, b"x")], producer_id=5, producer_epoch=0, base_sequence=0,
                 transactional=True)  # fmt: skip
    log.append_own(data, NOW)
    marker = build([Record(0, NOW, b"\0\0\0\1", struct.pack(">hi", 0, 77))], producer_id=5,
                   producer_epoch=1, transactional=True, control=True)  # fmt: skip
    log.append_own(marker, NOW)
    flush(log)
    house.kill()
    entry = house.restart().producers.entries[5]
    assert (entry.epoch, entry.coordinator_epoch, entry.txn_first_offset) == (1, 77, -1)


@pytest.mark.parametrize("text", [None, b"", b"garbage", b"0\n1\n-1 0\n", b"0\n2\n5 9\n4 3\n"])
def test_leader_epochs_are_rebuilt_from_the_batches(text):
    house = House()
    house.open()
    log = house.log(epoch=2, **SEGMENTS)
    append(log, 3)
    log.leader_epoch = 4
    append(log, 9)
    house.stop()
    if text is None:
        house.filesystem.unlink(house.path("leader-epoch-checkpoint"))
    else:
        house.filesystem.replace(house.path("leader-epoch-checkpoint"), text)
    house.open()
    assert house.log(epoch=9, **SEGMENTS).epochs.entries() == [(2, 0), (4, 3)]


def test_epochs_are_not_read_from_batches_that_recovery_cuts():
    """A torn segment looked like one of epoch 0, and hid where epoch 1 begins: records with it."""
    house = House()
    house.open()
    log = house.log()
    append(log, 2)
    flush(log)
    house.kill()
    log = house.restart()
    append(log, 2)
    flush(log)
    for _ in range(2):
        log.roll(NOW)
        append(log)
    house.filesystem.edit(log.segments.all[1].log_file.path, 0, bytes(len(batch())))
    house.kill()
    log = house.restart()
    assert log.epochs.entries() == [(0, 0), (1, 2)]
    assert list(read_all(log)) == [0, 1, 2, 3]


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_epochs_that_begin_beyond_what_is_known_are_read_from_the_batches(ending):
    """A flipped digit: epoch 1 began at 2, not at 6. Its batches were taken for damaged."""
    house = House()
    house.open()
    append(house.log(**SEGMENTS), 2)
    house.stop()
    log = house.restart(**SEGMENTS)
    append(log, 2)
    log.roll(NOW)
    append(log)
    flush(log)
    house.stop()
    if ending == "kill":
        house.restart(**SEGMENTS)
        house.kill()
    house.filesystem.replace(house.path("leader-epoch-checkpoint"), b"0\n2\n0 0\n1 6\n")
    log = house.restart(**SEGMENTS)
    assert log.epochs.entries() == [(0, 0), (1, 2)]
    assert list(read_all(log)) == [0, 1, 2, 3, 4]


def test_epochs_beyond_the_end_are_forgotten():
    house = stopped_house()
    house.filesystem.replace(house.path("leader-epoch-checkpoint"), b"0\n2\n0 0\n1 12\n")
    assert house.restart(**SEGMENTS).epochs.entries() == [(0, 0)]


# -- Files that do not belong -------------------------------------------------------------------


def test_foreign_files_are_left_alone_and_named():
    house = stopped_house()
    for name in ("notes.txt", "lost+found", "00000000000000000005.log.bak", "123.log"):
        house.filesystem.replace(house.path(name), b"mine")
    log = house.restart(**SEGMENTS)
    assert sum("left alone" in text for text in warnings_of(house)) == 4
    house.manager.purge_deleted(NOW + 10**12)
    assert house.filesystem.live_bytes(house.path("notes.txt")) == b"mine"
    assert log.end_offset == 12


def test_aborted_transactions_are_named():
    house = stopped_house()
    path = house.path(f"{FIRST}.txnindex")
    house.filesystem.open(path, create=True)
    assert list(read_all(house.restart(**SEGMENTS))) == list(range(12))
    assert warnings_of(house) == []
    house.stop()
    house.filesystem.open(path).pwrite(bytes(34), 0)
    assert list(read_all(house.restart(**SEGMENTS))) == list(range(12))
    (warning,) = warnings_of(house)
    assert f"{FIRST}.txnindex" in warning


def test_an_orphaned_index_goes():
    house = stopped_house()
    for kind in ("index", "timeindex", "txnindex"):
        house.filesystem.replace(house.path(f"{7:020}.{kind}"), b"")
    house.restart(**SEGMENTS)
    assert sum("Found an orphaned index file" in text for text in warnings_of(house)) == 3
    house.manager.purge_deleted(NOW)
    assert not [name for name in house.names() if name.startswith(f"{7:020}")]


def test_files_on_their_way_out_go():
    house = stopped_house()
    for name in (f"{FIRST}.log.deleted", f"{SECOND}.index.deleted", f"{FIRST}.log.cleaned"):
        house.filesystem.replace(house.path(name), b"old")
    log = house.restart(**SEGMENTS)
    house.manager.purge_deleted(NOW)
    assert not house.names("deleted")
    assert not house.names("cleaned")
    assert list(read_all(log)) == list(range(12))


def test_a_missing_segment_is_a_hole_and_no_offset_moves():
    house = stopped_house()
    house.filesystem.unlink(house.path(f"{SECOND}.log"))
    log = house.restart(**SEGMENTS)
    assert list(read_all(log, 10)) == [10, 11]
    for offset in (5, 9):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 1000)
    assert append(log) == [12]


def test_in_a_compacted_log_a_hole_is_read_over():
    house = stopped_house(cleanup_policy=("compact",))
    house.filesystem.unlink(house.path(f"{SECOND}.log"))
    log = house.restart(cleanup_policy=("compact",), **SEGMENTS)
    assert list(read_all(log)) == [0, 1, 2, 3, 4, 10, 11]


def test_a_directory_without_a_log_file_goes_on_where_its_checkpoints_say():
    house = stopped_house()
    for name in house.names():
        if name != "partition.metadata":
            house.filesystem.unlink(house.path(name))
    log = house.restart(**SEGMENTS)
    assert (log.start_offset, log.end_offset) == (12, 12)
    assert append(log) == [12]


def test_a_log_start_beyond_the_end_deletes_nothing():
    house = stopped_house()
    house.filesystem.replace("/data/log-start-offset-checkpoint", b"0\n1\nt 0 500\n")
    log = house.restart(**SEGMENTS)
    assert (log.start_offset, log.end_offset) == (0, 12)
    assert log.apply_retention(NOW) == 0
    assert list(read_all(log)) == list(range(12))


def produced(house, count=12):
    """Batches of producer 5, one after the other; returns the log."""
    log = house.log(**SEGMENTS)
    for sequence in range(log.end_offset, log.end_offset + count):
        log.append(batch(pid=5, epoch=0, sequence=sequence), NOW)
    return log


@pytest.mark.parametrize("which", ["all", "the newest", "our own"])
def test_producers_are_known_without_their_snapshots(which):
    """After a clean stop: as far back as the log reaches, and of a producer its last five."""
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
def test_a_log_without_producers_is_replayed_only_if_that_is_not_known(count, torn):
    """A clean stop writes what says so, durably: a power cut after it must not leave half of it."""
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
    assert not warnings_of(house), "it was written again"
