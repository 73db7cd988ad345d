"""What only all segments of a log tell together."""

from __future__ import annotations

import fcntl
import os

import pytest
from log_files import LogFiles, batch

from pyspark_barnabas.jobs.log_check import conclude, lock_holder, plan
from pyspark_barnabas.jobs.segment_check import (
    CLEAN,
    CRASHED,
    RUNNING,
    check_segment,
)
from pyspark_barnabas.source.transactions import TRANSACTION_ENTRY


@pytest.fixture
def files(tmp_path):
    return LogFiles(tmp_path / "data")


def told(files, **settings):
    planned = plan(str(files))
    reports = [check_segment(one, planned.ending, open_records=False) for one in planned.segments]
    findings = conclude(planned, reversed(reports), **settings)
    return [
        (one.kind, os.path.relpath(one.path, str(files)), one.position, one.offset)
        for one in findings.kept
    ]


def name(base):
    return f"t-0/{base:020}.log"


def test_segments_that_follow_each_other_are_sound(files):
    files.write("t-0", [batch(0), batch(3)])
    files.write("t-0", [batch(6, epoch=1)], base=6)
    files.checkpoint("recovery-point-offset-checkpoint", "t 0 9")
    assert told(files) == []
    assert plan(str(files)).ending == CLEAN
    assert plan(str(files), ["other"]).segments == []


def test_a_missing_segment_is_damage_unless_the_log_is_compacted(files):
    files.write("t-0", [batch(0)])
    files.write("t-0", [batch(9), batch(15)], base=9)
    holes = [("missing", name(9), -1, 3), ("missing", name(9), len(batch(0)), 12)]
    assert told(files) == holes
    assert told(files, all_compacted=True) == []
    files.checkpoint("cleaner-offset-checkpoint", "t 0 9")
    assert told(files) == []
    (files.directory / "cleaner-offset-checkpoint").unlink()
    (files.directory / "t-0").rename(files.directory / "__consumer_offsets-0")
    assert told(files) == []


def test_a_log_ends_no_earlier_than_it_was_known_to(files):
    files.write("t-0", [batch(0)])
    files.checkpoint("recovery-point-offset-checkpoint", "t 0 50")
    assert told(files) == [("missing", "t-0", -1, 3)]


def test_a_log_without_a_segment_and_an_index_without_a_log(files):
    files.write("t-0", [batch(0)])
    files.path("t-0").unlink()
    assert told(files) == [
        ("missing", "t-0", -1, -1),
        ("missing", "t-0/00000000000000000000.index", -1, 0),
        ("missing", "t-0/00000000000000000000.timeindex", -1, 0),
    ]


def test_where_epochs_fall_the_side_with_fewer_reasons_is_wrong(files):
    files.write("t-0", [batch(0, epoch=1), batch(3, epoch=9)])
    files.write("t-0", [batch(6, epoch=1), batch(9, epoch=1), batch(12)], base=6)
    size = len(batch(0))
    (files.directory / ".kafka_cleanshutdown").unlink()
    assert told(files) == [("epoch", name(0), size, 3), ("epoch", name(6), 2 * size, 12)]
    files.checkpoint("t-0/leader-epoch-checkpoint", "1 0")
    assert sorted(told(files)) == [("epoch", name(0), size, 3), ("epoch", name(6), 2 * size, 12)]


def test_aborted_transactions_end_within_the_log(files):
    files.write("t-0", [batch(0)])
    path = files.path("t-0", 0, "txnindex")
    path.write_bytes(TRANSACTION_ENTRY.pack(0, 7, 0, 2, 4))
    assert told(files) == [("txnindex", "t-0/00000000000000000000.txnindex", -1, -1)]


def test_a_running_broker_is_seen_by_its_lock(files):
    (files.directory / ".kafka_cleanshutdown").unlink()
    lock = files.directory / ".lock"
    assert (lock_holder(str(lock)), plan(str(files)).ending) == (0, CRASHED)
    lock.write_text("")
    assert lock_holder(str(lock)) == 0
    with open(lock, "r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        child = os.fork()
        if not child:
            os._exit(int(plan(str(files)).ending == RUNNING))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
