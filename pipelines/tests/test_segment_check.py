"""One segment: what is damage in it, what is usual at its end, and what it tells the driver."""

from __future__ import annotations

import pytest
from log_files import LogFiles, batch, turn

from pyspark_barnabas.jobs.segment_check import (
    CLEAN,
    CRASHED,
    RUNNING,
    EpochRun,
    check_segment,
    read_checkpoint,
)
from pyspark_barnabas.source.segments import find_logs
from pyspark_barnabas.source.transactions import TRANSACTION_ENTRY
from pyspark_barnabas.wire.encode import Record, build_batch

SIZE = len(batch(0))


@pytest.fixture
def files(tmp_path):
    return LogFiles(tmp_path / "data")


def check(files, ending=CLEAN, *, number=0, open_records=False):
    segment = find_logs(str(files))[0].segments[number]
    return check_segment(segment, ending, open_records=open_records)


def told(report):
    return [(one.kind, one.position, one.offset) for one in report.findings.kept]


def test_a_sound_segment_is_counted(files):
    files.write("t-0", [batch(0), batch(3, codec=1), batch(6, codec=4)])
    report = check(files, open_records=True)
    assert (report.batch_count, report.record_count, report.file_count) == (3, 9, 3)
    assert (report.end_offset, report.holes, report.is_compacted) == (9, [], False)
    assert report.epochs == [EpochRun(0, 0, 0, 3)]
    assert told(report) == []


def test_holes_are_kept_for_the_driver_and_compaction_shows(files):
    files.write("t-0", [batch(2), batch(9)])
    report = check(files)
    assert report.holes == [(0, 0, 2), (SIZE, 5, 9)]
    assert not report.is_compacted
    made = bytearray(batch(0))
    made[57:61] = (2).to_bytes(4, "big")  # records, of three offsets
    files.write("t-0", [bytes(made)])
    assert told(check(files)) == [("checksum", 0, 0)]


@pytest.mark.parametrize(
    ("position", "kind", "where"),
    [
        (SIZE + 70, "checksum", (SIZE, 3)),
        (SIZE + 17, "checksum", (SIZE, 3)),
        (SIZE + 9, "structure", (SIZE, 3)),
        (SIZE + 16, "structure", (SIZE, 3)),
        (SIZE + 4, "order", (SIZE, 3)),
    ],
)
def test_a_turned_bit_is_found_and_its_neighbours_are_sound(files, position, kind, where):
    path = files.write("t-0", [batch(0), batch(3), batch(6)])
    turn(path, position)
    report = check(files)
    assert told(report) == [(kind, *where)]
    assert (report.batch_count, report.end_offset, report.holes) == (2, 9, [])


@pytest.mark.parametrize(
    ("end", "kind"),
    [(batch(6)[:100], "torn"), (b"\x02garbage" * 20, "torn"), (bytes(5000), "zeros")],
)
def test_the_end_of_the_last_segment_is_torn(files, end, kind):
    path = files.write("t-0", [batch(0), batch(3)])
    path.write_bytes(path.read_bytes() + end)
    for ending in (CLEAN, CRASHED):
        report = check(files, ending)
        assert told(report) == [(kind, 2 * SIZE, 6)]
        assert "quarantine" in report.findings.kept[0].remedy
        assert report.end_offset == 6
    assert told(check(files, RUNNING)) == []  # what the broker is writing


def test_the_end_of_an_older_segment_is_lost_records(files):
    path = files.write("t-0", [batch(0), batch(3)])
    files.write("t-0", [batch(6)], base=6)
    path.write_bytes(path.read_bytes()[:-10])
    report = check(files)
    assert told(report) == [("structure", SIZE, 3)]
    assert report.findings.kept[0].means == "the records at offsets 3 to 5 cannot be read"
    assert report.end_offset == 6


def test_an_epoch_is_held_against_the_checkpoint(files):
    files.write("t-0", [batch(0), batch(3, epoch=4), batch(6, epoch=2), batch(9, epoch=2)])
    files.checkpoint("t-0/leader-epoch-checkpoint", "0 0", "2 6")
    report = check(files)
    assert told(report) == [("epoch", SIZE, 3)]
    assert report.epochs == [EpochRun(0, 0, 0, 1), EpochRun(2, 2 * SIZE, 6, 2)]
    files.checkpoint("t-0/leader-epoch-checkpoint", "0 0")
    assert len(check(files).findings.kept) == 3
    assert told(check(files, CRASHED)) == []  # it may lag behind the log


def test_records_are_opened_when_asked(files):
    wrong = bytearray(build_batch([Record(b"k", b"v", 5)], base_offset=3))
    wrong[61] = 2  # the record's length
    from pyspark_barnabas.wire.batches import CRC_START, crc32c

    wrong[17:21] = crc32c.crc32c(bytes(wrong[CRC_START:])).to_bytes(4, "big")
    files.write("t-0", [batch(0), bytes(wrong), batch(4)])
    assert told(check(files)) == []
    report = check(files, open_records=True)
    assert told(report) == [("records", SIZE, 3)]
    assert report.record_count == 6


def test_the_list_of_aborted_transactions_is_read(files):
    files.write("t-0", [batch(0)])
    path = files.path("t-0", 0, "txnindex")
    path.write_bytes(TRANSACTION_ENTRY.pack(0, 7, 0, 2, 3))
    assert check(files).transactions_end == 3
    path.write_bytes(TRANSACTION_ENTRY.pack(1, 7, 0, 2, 3))
    assert [one.kind for one in check(files).findings.kept] == ["txnindex"]


def test_what_a_running_broker_takes_away_or_replaces_is_left_out(files):
    path = files.write("t-0", [batch(0)])
    files.write("t-0", [batch(3)], base=3)
    first, last = find_logs(str(files))[0].segments
    assert not check_segment(first, RUNNING, open_records=False).is_gone
    path.write_bytes(batch(0)[:70])
    assert check_segment(first, RUNNING, open_records=False).is_gone
    path.unlink()
    assert check_segment(first, RUNNING, open_records=False).is_gone
    assert told(check_segment(first, CLEAN, open_records=False)) == [("unreadable", -1, -1)]
    files.write("t-0", [batch(3), batch(6)], base=3)
    report = check_segment(last, RUNNING, open_records=False)
    assert (report.end_offset, told(report)) == (9, [])


@pytest.mark.parametrize(
    "text", ["", "x", "0\n1\n", "0\n1\n1 x\n", "1\n1\n1 0\n", "0\n1\n1 2 3\n", "0\n1\n1 -2\n"]
)
def test_a_checkpoint_that_cannot_be_read_says_nothing(tmp_path, text):
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_text(text)
    assert read_checkpoint(str(path), 2) == []
    assert read_checkpoint(str(tmp_path / "none"), 2) == []
