"""The swap of a group for one segment: names, copied files, and interference."""

import errno

import pytest

from storage.compaction.cleanable import find_cleanable
from storage.compaction.one_pass import CompactionAborted, compact
from storage.errors import LogFailed
from tests.support.compacting import ONE, clean, drive, keyed_house, limits, offsets, settle
from tests.support.log_house import NOW, batch, flush


def test_a_slice_from_before_the_swap_stays_readable():
    house, log = keyed_house(23)
    settle(house, log)
    piece = log.read(0, 3 * ONE)
    before = piece.read()
    clean(house, log)
    house.purge(NOW + 10**9)
    assert piece.read() == before
    assert bytes(piece.load()) == before


def test_a_group_that_loses_no_records_is_not_swapped():
    house, log = keyed_house(12, keys=100)
    names = house.names(".log")
    clean(house, log)
    assert house.names(".log") == names
    assert not house.names(".deleted")
    assert log.segments.cleaned_offset == 10


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


def test_lists_of_aborted_transactions_are_taken_along():
    house, log = keyed_house(23)
    for base, data in ((5, b"a" * 34), (10, b"b" * 34)):
        house.filesystem.replace(house.path(f"{base:020}.txnindex"), data)
    settle(house, log)
    log.update_config(log.config.with_overrides({"internal.segment.bytes": str(100 * ONE)}))
    clean(house, log)
    assert house.names(".txnindex") == [f"{0:020}.txnindex"]
    assert house.filesystem.read(house.path(f"{0:020}.txnindex")) == b"a" * 34 + b"b" * 34
