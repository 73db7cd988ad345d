"""Holes that compaction has left are readable once a topic is not compacted any more."""

import errno

import pytest

from storage.compaction.cleanable import find_cleanable
from storage.compaction.one_pass import compact
from storage.errors import AppendFailed
from tests.support import log_transactions
from tests.support.compacting import (
    FIVE,
    ONE,
    clean,
    drive,
    fill,
    keyed,
    keyed_house,
    limits,
    newest,
    offsets,
    records_of,
    settle,
)
from tests.support.log_house import NOW, checkpoint


def test_holes_stay_readable_when_the_topic_is_no_longer_compacted():
    house, log = keyed_house(60, keys=50)
    clean(house, log)
    wanted = records_of(log)
    house.kill()
    log = house.restart(**(FIVE | {"cleanup_policy": ("delete",)}))
    assert records_of(log) == wanted


@pytest.mark.parametrize("call", [("pwrite", ".log.cleaned", 3), ("sync_directory", "t-0", 4)])
def test_holes_of_a_pass_that_failed_stay_readable_when_the_topic_is_no_longer_compacted(call):
    """An operator may change the policy because the disk is full, which has ended the pass."""
    house, log = keyed_house(0)
    for n in range(40):
        log.append(keyed([(b"hot" if n % 2 else b"c%02d" % n, b"v%02d" % n)]), NOW)
    settle(house, log)
    kind, path, nth = call
    house.filesystem.fail(kind, nth, errno.ENOSPC, path_part=path)
    with pytest.raises((AppendFailed, OSError)):
        clean(house, log)
    wanted = records_of(log)
    assert [record.offset for record in wanted[:6]] == [0, 2, 4, 6, 8, 10]
    log.update_config(log.config.with_overrides({"cleanup.policy": "delete"}))
    assert records_of(log) == wanted
    checkpoint(house, log)
    house.manager.write_checkpoints()
    house.kill()
    log = house.restart(**(FIVE | {"cleanup_policy": ("delete",)}))
    assert records_of(log) == wanted
    log.update_config(log.config.with_overrides({"cleanup.policy": "compact"}))
    clean(house, log)
    assert newest(records_of(log)) == newest(wanted)
    assert offsets(log) == [*range(0, 34, 2), 33, *range(34, 40)]


def test_holes_are_readable_when_the_policy_changes_during_a_pass():
    house, log = keyed_house(0)
    for n in range(40):
        log.append(keyed([(b"hot" if n % 2 else b"c%02d" % n, b"v%02d" % n)]), NOW)
    settle(house, log)
    steps = compact(log, find_cleanable(log, NOW), limits(), NOW)
    while log.segments.all[1].size == 5 * ONE:
        next(steps)()
    log.update_config(log.config.with_overrides({"cleanup.policy": "delete"}))
    assert offsets(log)[:7] == [0, 2, 4, 6, 8, 10, 11]
    drive(steps)
    assert offsets(log)[:7] == [0, 2, 4, 6, 8, 10, 12]


def test_holes_of_an_earlier_crash_stay_readable_when_the_policy_changes_during_a_pass():
    """The pass ends before them, since its map is full."""
    house, log = keyed_house(0)
    for n in range(40):
        log.append(keyed([(b"hot" if n % 2 else b"c%02d" % n, b"v%02d" % n)]), NOW)
    settle(house, log)
    drive(compact(log, find_cleanable(log, NOW), limits(), NOW))
    house.crash("kept")
    log = house.restart(**FIVE)
    wanted = records_of(log)
    steps = compact(log, find_cleanable(log, NOW), limits(map_bytes_max=5 * 24), NOW)
    next(steps)()
    log.update_config(log.config.with_overrides({"cleanup.policy": "delete"}))
    assert drive(steps).end_offset < log.segments.cleaned.unknown_below
    assert records_of(log) == wanted


@pytest.mark.parametrize("swapped", [0, 2])
def test_holes_of_a_pass_that_a_crash_ended_stay_readable(swapped):
    """The crash came before a checkpoint had the cleaned offset."""
    house, log = keyed_house(0)
    for n in range(40):
        log.append(keyed([(b"hot" if n % 2 else b"c%02d" % n, b"v%02d" % n)]), NOW)
    settle(house, log)
    steps = compact(log, find_cleanable(log, NOW), limits(), NOW)
    while log.segments.all[swapped].size == 5 * ONE:
        next(steps)()
    house.crash("kept")
    house.restart(**FIVE)
    house.stop()
    log = house.restart(**FIVE)
    wanted = records_of(log)
    assert [record.offset for record in wanted[:3]] == [0, 2, 4]
    assert log.segments.cleaned.offset == 0
    log.update_config(log.config.with_overrides({"cleanup.policy": "delete"}))
    assert records_of(log) == wanted
    house.stop()
    log = house.restart(**(FIVE | {"cleanup_policy": ("delete",)}))
    assert records_of(log) == wanted


@pytest.mark.parametrize("swapped", [0, 2])
def test_holes_of_a_first_pass_are_readable_if_a_crash_follows_the_change_of_the_policy(swapped):
    """The checkpoint names the log, and has nothing of what the pass has done."""
    house, log = keyed_house(0)
    for n in range(40):
        log.append(keyed([(b"hot" if n % 2 else b"c%02d" % n, b"v%02d" % n)]), NOW)
    log.home.checkpoint_changes += log.segments.cleaned.begin()
    settle(house, log)
    house.manager.write_checkpoints()
    steps = compact(log, find_cleanable(log, NOW), limits(), NOW)
    while log.segments.all[swapped].size == 5 * ONE:
        next(steps)()
    wanted = records_of(log)
    house.crash("kept")
    delete = FIVE | {"cleanup_policy": ("delete",)}
    log = house.restart(**delete)
    assert records_of(log) == wanted
    house.stop()
    log = house.restart(**delete)
    assert records_of(log) == wanted
    log.update_config(log.config.with_overrides({"cleanup.policy": "compact"}))
    clean(house, log)
    assert newest(records_of(log)) == newest(wanted)
    assert offsets(log) == [*range(0, 34, 2), 33, *range(34, 40)], "from the first offset on"


def test_holes_of_a_swap_that_the_start_finishes_are_readable():
    """A failed sync kept the removal of the .swap files from the disk."""
    house, log = keyed_house(0)
    for n in range(40):
        log.append(keyed([(b"hot" if n % 2 else b"c%02d" % n, b"v%02d" % n)]), NOW)
    settle(house, log)
    steps = compact(log, find_cleanable(log, NOW), limits(), NOW)
    while not house.names(".log.swap"):
        next(steps)()
    house.crash("kept")
    delete = FIVE | {"cleanup_policy": ("delete",)}
    log = house.restart(**delete)
    assert [record.offset for record in records_of(log)[:5]] == [0, 2, 4, 5, 6]
    house.stop()
    log = house.restart(**delete)
    assert log.read(1, ONE).position == ONE


def test_holes_behind_a_full_map_are_readable_when_the_topic_is_no_longer_compacted():
    house, log = keyed_house(12, keys=12, internal_segment_bytes=2_000)
    for epoch in range(6):
        log_transactions.send(log, 5, epoch=epoch)
        fill(log, 1, start=20 + epoch, keys=100)
        log_transactions.send(log, 6, epoch=epoch)
        log_transactions.end(log, 5, commit=False, epoch=epoch + 1)
        log_transactions.end(log, 6, commit=False, epoch=epoch + 1)
    clean(house, log, map_bytes_max=11 * 24)
    wanted = records_of(log)
    assert log.segments.cleaned.offset == 9
    assert [record.offset for record in wanted[10:15]] == [10, 11, 13, 15, 16]
    house.kill()
    log = house.restart(**(FIVE | {"cleanup_policy": ("delete",)}))
    assert records_of(log) == wanted
