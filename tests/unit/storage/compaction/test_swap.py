"""The swap of a group for one segment: names, copied files, and interference."""

import errno

import pytest

from storage.compaction.cleanable import find_cleanable
from storage.compaction.one_pass import CompactionAborted, compact
from storage.errors import LogFailed
from tests.support.compacting import (
    FIVE,
    ONE,
    clean,
    drive,
    fill,
    keyed_house,
    limits,
    offsets,
    settle,
)  # fmt: skip
from tests.support.log_house import NOW, House, batch, flush
from tests.support.log_transactions import end, send


def test_a_slice_from_before_the_swap_stays_readable():
    house, log = keyed_house(23)
    settle(house, log)
    piece = log.read(0, 3 * ONE)
    before = piece.read()
    clean(house, log)
    house.purge(NOW + 10**9)
    assert piece.read() == before
    assert bytes(piece.load()) == before


def test_no_reader_opens_the_new_segment_by_the_name_of_an_old_one(monkeypatch):
    """A thread that looks up a time opens files at any moment, also between two renames."""
    house, log = keyed_house(23)
    settle(house, log)
    sources = log.segments.all[:2]
    before = [one.log_file.read(0, one.size) for one in sources]
    renames, rename = [], house.filesystem.rename

    def renamed(old, new):
        rename(old, new)
        renames.append(new)
        for one in sources:
            house.manager.home.files.forget(one.log_file.path)  # as if it had been evicted
        assert [one.log_file.read(0, one.size) for one in sources] == before, new

    monkeypatch.setattr(house.filesystem, "rename", renamed)
    clean(house, log)
    assert house.path(f"{0:020}.log") in renames
    assert offsets(log)[0] == 16


def test_a_swap_that_fails_half_way_leaves_the_sources_readable():
    for fails in (f"{0:020}.log", f"{0:020}.timeindex"):
        house, log = keyed_house(23)
        settle(house, log)
        before = offsets(log)
        steps = compact(log, find_cleanable(log, NOW), limits(), NOW)
        for _ in range(4):  # to the step after `begin_swap`
            job = next(steps)
            job()
        house.filesystem.fail("rename", path_part=f"{fails}.swap")
        with pytest.raises(OSError, match="Input"):
            drive(steps)
        assert log.failed is None
        house.manager.home.files.close()
        assert offsets(log) == before
        house.filesystem.heal()
        clean(house, log)
        assert offsets(log)[0] == 16


def test_a_group_that_loses_no_records_is_not_swapped():
    house, log = keyed_house(12, keys=100)
    names = house.names(".log")
    clean(house, log)
    assert house.names(".log") == names
    assert not house.names(".deleted")
    assert log.segments.cleaned.offset == 10


def test_a_swap_waits_for_a_checkpoint():
    house, log = keyed_house(23)
    settle(house, log)
    append_more = batch(b"x")
    steps = compact(log, find_cleanable(log, NOW), limits(), NOW)
    log.append(append_more, NOW)
    flush(log)
    pending = log.begin_checkpoint()
    assert pending is not None
    job = next(steps)
    while job is not None:
        job()
        job = next(steps)
    pending.run()
    log.finish_checkpoint(pending, None)
    drive(steps)
    assert offsets(log)[0] == 16


def test_a_segment_repaired_during_the_pass_ends_the_pass():
    house, log = keyed_house(23)
    settle(house, log)
    steps = compact(log, find_cleanable(log, NOW), limits(), NOW)
    next(steps)()
    log.segments.all[2].indexes.damage = "found meanwhile"
    mending = log.begin_checkpoint()
    mending.run()
    log.finish_checkpoint(mending, None)
    with pytest.raises(CompactionAborted):
        drive(steps)
    assert not house.names(".cleaned") + house.names(".swap")
    clean(house, log)
    assert offsets(log)[0] == 16


def test_what_a_pass_could_not_remove_the_next_one_does():
    house, log = keyed_house(23)
    settle(house, log)
    house.filesystem.fail("pwrite", error=errno.ENOSPC, path_part=".cleaned")
    house.filesystem.fail("unlink", path_part=".cleaned", forever=True)
    with pytest.raises((OSError, LogFailed)):
        clean(house, log)
    assert log.failed is None
    assert house.names(".cleaned")
    house.filesystem.heal()
    clean(house, log)
    assert offsets(log)[0] == 16
    assert not house.names(".cleaned") + house.names(".swap")


def test_aborts_with_data_are_taken_along():
    """Each pass leaves those out whose data an earlier one has removed."""
    house = House()
    house.open()
    log = house.log(**FIVE)
    for pid in range(3):
        fill(log, 3)
        send(log, pid)
        end(log, pid, commit=pid == 1)
        log.roll(NOW)
    listed = log.aborted(0, log.end_offset)
    assert listed == [(0, 3), (2, 13)]
    settle(house, log)
    assert len(house.names(".txnindex")) > 1
    log.update_config(log.config.with_overrides({"internal.segment.bytes": str(100 * ONE)}))
    clean(house, log)
    assert house.names(".txnindex") == [f"{0:020}.txnindex"]
    assert log.aborted(0, log.end_offset) == listed
    for stop in (house.stop, house.kill):
        stop()
        log = house.restart(**FIVE)
        assert log.aborted(0, log.end_offset) == listed
        assert "txnindex" not in str(house.manager.reports), "nothing was built anew"
    log.roll(NOW)
    fill(log, 1)
    flush(log)
    log.settle_replayed()
    log.roll(NOW)
    settle(house, log)
    clean(house, log)
    assert house.names(".txnindex") == []
    assert log.aborted(0, log.end_offset) == []
    for _ in range(2):
        assert house.stop()
        log = house.restart(**FIVE)
        assert "txnindex" not in str(house.manager.reports), "nothing was built anew"
