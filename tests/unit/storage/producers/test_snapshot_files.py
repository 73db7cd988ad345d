"""Snapshot files: when one is due, which are kept, which is read."""

import pytest

from protocol.record_batch import read_header
from protocol.records import Record, build
from storage.producers.producer_state import AppendedBatch, ProducerEntry, ProducerState
from storage.producers.snapshot_files import BATCHES_MAX, PRODUCER_BATCHES_MAX, SnapshotFiles, names
from storage.producers.snapshot_format import encode_history, encode_snapshot
from tests.support.memory_filesystem import MemoryFileSystem


def state_at(offset, changes=1):
    state = ProducerState()
    batches = [AppendedBatch(n, n, 0, 50) for n in range(3)]
    entry = ProducerEntry(5, 0, batches=batches, last_timestamp=50, seen_ms=60)
    state.replace([entry], offset)
    state.changes = changes
    return state


def test_a_snapshot_is_due_by_batches_of_producers_or_by_all_batches():
    files = SnapshotFiles("/d", [])
    assert not files.is_due(state_at(9, changes=PRODUCER_BATCHES_MAX - 1))
    assert files.is_due(state_at(9, changes=PRODUCER_BATCHES_MAX))
    for _ in range(BATCHES_MAX):
        assert not files.is_due(state_at(9))
        files.batches += 1
    assert files.is_due(state_at(9))
    files.take(state_at(9), {})
    assert not files.is_due(state_at(9))


@pytest.mark.parametrize(
    ("name", "offsets", "state", "behind"),
    [
        ("never a producer", [], ProducerState(), False),
        ("a producer", [], state_at(9), True),
        ("there already", [9], state_at(9), False),
        ("older ones only", [4], state_at(9, changes=0), True),
    ],
)
def test_is_behind(name, offsets, state, behind):
    assert SnapshotFiles("/d", offsets).is_behind(state) is behind, name


def test_taken_written_and_read_again():
    filesystem = MemoryFileSystem()
    filesystem.mkdir("/d")
    files = SnapshotFiles("/d", [])
    state = state_at(9)
    files.take(state, {})
    assert state.changes == 0
    assert files.begin_write(8, ()) == ([], [], [])
    write = files.begin_write(9, ())
    assert [path for path, _ in write.files] == [f"/d/{9:020}.producers", f"/d/{9:020}.snapshot"]
    for path, encode in write.files:
        filesystem.replace(path, encode())
    files.finish_write(write)
    assert files.offsets == [9]
    assert files.begin_write(99, ()) == ([], [], [])
    loaded, warnings, bad, _ = SnapshotFiles("/d", [9]).load(filesystem, 9, 100, 1000)
    assert (loaded.entries, loaded.end_offset, warnings, bad) == (state.entries, 9, [], [])
    loaded, *_ = SnapshotFiles("/d", [9]).load(filesystem, 8, 100, 1000)
    assert (loaded.entries, loaded.end_offset) == ({}, 0)
    loaded, *_ = SnapshotFiles("/d", [9]).load(filesystem, 9, 1060, 1000)
    assert (loaded.entries, loaded.end_offset) == ({}, 9), "expired"
    filesystem.replace(f"/d/{9:020}.producers", b"rot")
    loaded, warnings, bad, _ = SnapshotFiles("/d", [9]).load(filesystem, 9, 100, 1000)
    assert len(loaded.entries[5].batches) == 1
    assert "producer history" in warnings[0]
    assert bad == [f"{9:020}.producers"]


def test_a_snapshot_is_encoded_where_it_is_written(monkeypatch):
    """The event loop takes the snapshot, and there may be 100,000 producers."""
    state = state_at(9)
    files = SnapshotFiles("/d", [])
    with monkeypatch.context() as patched:
        for name in ("encode_snapshot", "encode_history"):
            patched.setattr(
                f"storage.producers.snapshot_files.{name}", lambda _: pytest.fail("encoded")
            )
        files.take(state, {})
        assert len(files.begin_write(9, ()).files) == 2
    before = ProducerState()
    before.replace([entry.copy(0) for entry in state.entries.values()], 9)
    header = read_header(build([Record(0, 1, None, b"v")], producer_id=5, producer_epoch=1))
    state.take(header._replace(base_sequence=100), 20, 2)
    ((_, history), (_, snapshot)) = files.begin_write(9, ()).files
    assert snapshot() == encode_snapshot(before.frozen())
    assert history() == encode_history(before.frozen(), {})


def test_kept_are_segment_starts_and_the_newest_two():
    files = SnapshotFiles("/d", [1, 2, 3, 4, 5])
    write = files.begin_write(99, {2})
    assert write == ([], [], [1, 3])
    files.take(state_at(6), {})
    assert files.begin_write(5, {2}).obsolete_offsets == [1, 3], "it is not written"
    assert files.begin_write(6, {2}).obsolete_offsets == [1, 3, 4]
    files.finish_write(write)
    assert files.offsets == [2, 4, 5]
    assert files.begin_write(5, ()).obsolete_offsets == [2]


def test_snapshots_are_dropped_at_either_end():
    files = SnapshotFiles("/d", [1, 5, 9])
    files.take(state_at(3), {})
    assert files.forget_before(5) == [1]
    assert files.begin_write(99, ()).files == []
    assert files.forget_from(9) == [9]
    assert files.offsets == [5]
    assert names(5) == (f"{5:020}.snapshot", f"{5:020}.producers")


def test_an_unreadable_snapshot_is_written_again():
    filesystem = MemoryFileSystem()
    filesystem.mkdir("/d")
    filesystem.replace(f"/d/{9:020}.snapshot", b"")
    files = SnapshotFiles("/d", [9])
    loaded, warnings, bad, _ = files.load(filesystem, 9, 100, 1000)
    assert (loaded.end_offset, files.offsets, len(warnings)) == (0, [], 1)
    assert tuple(bad) == names(9)
    assert files.is_behind(state_at(9))
