"""Checkpoints: what is durable before the recovery point advances, and what a failure leaves."""

import errno
from contextlib import suppress

import pytest

from storage.producers.producer_state import BATCHES_KEPT
from storage.producers.snapshot_files import PRODUCER_BATCHES_MAX
from tests.support.log_house import NOW, House, append, batch, checkpoint, delete_records, flush

SIZE = len(batch())
BASE = f"{0:020}"
SMALL = {"internal_segment_bytes": 20 * SIZE, "index_interval_bytes": 4 * SIZE}
INDEXES = ("index", "timeindex")


@pytest.fixture
def house():
    house = House()
    house.open()
    return house


def busy_log(house, count=PRODUCER_BATCHES_MAX, **config):
    log = house.log(
        **({"internal_segment_bytes": 10**6, "index_interval_bytes": 4 * SIZE} | config)
    )
    for sequence in range(count):
        log.append(batch(pid=5, epoch=0, sequence=sequence), NOW)
    flush(log)
    return log


def test_nothing_to_do_is_none(house):
    log = house.log()
    assert log.begin_checkpoint() is None
    append(log)
    assert log.begin_checkpoint() is None, "no record became durable"
    flush(log)
    job = log.begin_checkpoint()
    assert log.begin_checkpoint() is None, "one at a time"
    job.run()
    assert log.finish_checkpoint(job, None) == 1
    assert log.begin_checkpoint() is None


def test_below_the_recovery_point_everything_is_durable(house):
    log = busy_log(house)
    checkpoint(house, log)
    append(log, 3)
    flush(log)
    assert checkpoint(house, log) == log.end_offset
    disk = house.filesystem.durable_bytes
    assert len(disk(house.path(f"{BASE}.index"))) > 8 * 40
    assert disk(house.path(f"{BASE}.timeindex"))
    assert disk(house.path("leader-epoch-checkpoint")) == b"0\n1\n0 0\n"
    assert disk(house.path(f"{PRODUCER_BATCHES_MAX:020}.snapshot"))
    house.crash()
    log = house.restart(internal_segment_bytes=10**6)
    assert not house.manager.reports, "no record was above the recovery point"
    assert len(log.producers.entries[5].batches) == BATCHES_KEPT


@pytest.mark.parametrize(("operation", "part"), [("fdatasync", "index"), ("rename", "snapshot"),
                                                 ("replace", "leader-epoch")])  # fmt: skip
def test_a_failed_checkpoint_changes_neither_the_recovery_point_nor_the_log(house, operation, part):
    log = busy_log(house)
    house.filesystem.fail(operation, error=errno.EIO, path_part=part)
    assert checkpoint(house, log) == 0
    assert log.failed is None
    assert append(log) == [PRODUCER_BATCHES_MAX]
    assert checkpoint(house, log) == PRODUCER_BATCHES_MAX
    assert house.names("leader-epoch-checkpoint")


@pytest.mark.parametrize("which", INDEXES)
def test_entries_that_a_failed_sync_has_lost_are_written_again(house, which):
    log = busy_log(house)
    house.filesystem.fail("fdatasync", error=errno.EIO, path_part=f".{which}")
    assert checkpoint(house, log) == 0
    append(log, 40)
    flush(log)
    assert checkpoint(house, log) == log.end_offset
    path = house.path(f"{BASE}.{which}")
    durable = house.filesystem.durable_bytes(path)
    assert durable == house.filesystem.read(path)
    log.segments.active.rebuild_indexes()
    assert durable == house.filesystem.read(path), "as if it were built anew"


@pytest.mark.parametrize("which", INDEXES)
def test_they_are_if_a_roll_has_written_more_meanwhile(house, which):
    log = busy_log(house, 40, internal_segment_bytes=50 * SIZE)
    house.filesystem.fail("fdatasync", error=errno.EIO, path_part=f".{which}")
    job = log.begin_checkpoint()
    with pytest.raises(OSError, match="Input/output") as caught:
        job.run()
    append(log, 40)
    assert len(log.segments) == 2
    log.finish_checkpoint(job, caught.value)
    flush(log)
    assert checkpoint(house, log) == log.end_offset
    path = house.path(f"{BASE}.{which}")
    assert house.filesystem.durable_bytes(path) == house.filesystem.read(path)


def test_index_entries_that_cannot_be_written_stay_in_memory(house):
    log = busy_log(house)
    house.filesystem.fail("pwrite", error=errno.ENOSPC, path_part=".index")
    assert log.begin_checkpoint() is None
    assert checkpoint(house, log) == PRODUCER_BATCHES_MAX


def test_old_snapshots_in_the_middle_of_a_segment_are_removed(house):
    log = busy_log(house)
    for n in range(1, 5):
        checkpoint(house, log)
        for sequence in range(n * PRODUCER_BATCHES_MAX, (n + 1) * PRODUCER_BATCHES_MAX):
            log.append(batch(pid=5, epoch=0, sequence=sequence), NOW)
        flush(log)
    house.purge(NOW)
    assert len(house.names(".snapshot")) == 2
    assert len(house.names(".producers")) == 2


def test_damaged_indexes_are_repaired_while_readers_continue(house):
    log = busy_log(house, 40, internal_segment_bytes=20 * SIZE)
    checkpoint(house, log)
    damaged = log.segments.all[0]
    damaged.indexes.damage = "test"
    wanted = house.filesystem.live_bytes(house.path(f"{BASE}.index"))
    house.filesystem.edit(house.path(f"{BASE}.index"), 0, b"\xff" * len(wanted))
    job = log.begin_checkpoint()
    job.run()
    assert log.segments.all[0] is damaged
    log.finish_checkpoint(job, None)
    assert log.segments.all[0] is not damaged
    assert not log.segments.all[0].indexes.damage
    assert house.filesystem.durable_bytes(house.path(f"{BASE}.index")) == wanted
    assert len(log.read(7, 1)) == SIZE


def test_a_segment_without_rebuildable_indexes_does_not_block_the_recovery_point(house, caplog):
    log = busy_log(house, 40, internal_segment_bytes=20 * SIZE)
    checkpoint(house, log)
    damaged = log.segments.all[0]
    damaged.indexes.damage = "test"
    house.filesystem.fail("truncate", forever=True, path_part=f"{BASE}.index")
    append(log, 3)
    flush(log)
    assert [checkpoint(house, log) for _ in range(3)] == [43] * 3
    assert log.segments.all[0] is damaged
    told = [line for line in caplog.messages if "cannot be rebuilt" in line]
    assert len(told) == 1, told
    house.filesystem.heal()
    assert checkpoint(house, log) == 43
    assert not log.segments.all[0].indexes.damage


def with_missing_indexes():
    """Return a house, its log of two segments, and what the indexes of the first one held."""
    house = House()
    house.open()
    busy_log(house, 40, **SMALL)
    assert house.stop()
    held = index_bytes(house)
    for name in (f"{BASE}.index", f"{BASE}.timeindex"):
        house.filesystem.unlink(house.path(name))
    log = house.restart(**SMALL)
    assert log.segments.all[0].indexes.damage == "missing"
    return house, log, held


def index_bytes(house):
    return [house.filesystem.live_bytes(house.path(f"{BASE}.{kind}")) for kind in INDEXES]


@pytest.mark.parametrize("ending", ["lost", "torn", "kept"])
@pytest.mark.parametrize("call", ["pwrite", "fdatasync", "rename", "sync_directory"])
@pytest.mark.parametrize("nth", [1, 2, 3, 4])
def test_indexes_are_rebuilt_wholly_or_not_at_all(call, nth, ending):
    """An index that a crash has left half made would never be rebuilt."""
    house, log, held = with_missing_indexes()
    append(log)
    flush(log)
    log.snapshots.take(log.producers, {})
    house.filesystem.fail(call, nth=nth, forever=True)
    with suppress(OSError):
        log.begin_checkpoint().run()
    house.filesystem.heal()
    house.crash(ending)
    log = house.restart(**SMALL)
    checkpoint(house, log)
    assert not log.segments.all[0].indexes.damage
    assert index_bytes(house) == held


@pytest.mark.parametrize("sync", [False, True])
def test_an_index_repair_that_waited_leaves_a_deleted_segment_alone(sync):
    house, log, _ = with_missing_indexes()
    delete_records(house, log, log.segments.all[1].base_offset)
    job = log.begin_checkpoint()
    assert job.mended is not None
    deletion = log.begin_deletion(NOW, sync=sync)
    deletion.run()
    deletion.finish()
    job.run()
    log.finish_checkpoint(job, None)
    house.purge(NOW + 10**12)
    assert not [name for name in house.names() if name.startswith(BASE)]


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("bit", [0, 5, 31, 33, 40, 62])
def test_a_flipped_base_offset_and_missing_indexes_do_not_block_checkpoints(house, which, bit):
    """In a closed segment, in the one before the active one, and in the active one."""
    config = {"internal_segment_bytes": 20 * SIZE, "index_interval_bytes": SIZE}
    log = busy_log(house, 50, **config)
    assert house.stop()
    base = 20 * which
    place = house.path(f"{base:020}.log")
    position = SIZE * 4
    at = position + 7 - bit // 8
    old = house.filesystem.live_bytes(place)[at]
    house.filesystem.edit(place, at, bytes([old ^ 1 << bit % 8]))
    for name in house.names("index"):
        house.filesystem.unlink(house.path(name))
    log = house.restart(**config)
    assert append(log, 2) == [50, 51]
    flush(log)
    for _ in range(3):
        assert checkpoint(house, log) == 52
    assert not log.segments.all[0].indexes.damage
    assert house.stop(), "the stop is clean"
    log = house.restart(**config)
    assert (log.start_offset, log.end_offset) == (0, 52)
