"""Indexes held against logs: what is right in any version of Kafka, and each thing that is not."""

from __future__ import annotations

import pytest
from log_files import LogFiles, batch

from pyspark_barnabas.jobs.findings import Findings
from pyspark_barnabas.jobs.index_check import (
    EMPTY_BYTES_MAX,
    OFFSET_ENTRY,
    TIME_ENTRY,
    IndexCheck,
    beside,
)
from pyspark_barnabas.wire.batches import read_batches
from pyspark_barnabas.wire.encode import Record, build_batch

SIZE = len(batch(0))
BATCHES = [batch(offset) for offset in (0, 3, 6)]


@pytest.fixture
def found(tmp_path):
    """Return what checks the files that a test has changed, as (kind, found) each."""
    files = LogFiles(tmp_path)

    def check(batches=BATCHES, index=None, timeindex=None, *, is_required=True):
        path = files.write("t-0", batches)
        for kind, content in (("index", index), ("timeindex", timeindex)):
            if content == "missing":
                files.path("t-0", 0, kind).unlink()
            elif content is not None:
                files.path("t-0", 0, kind).write_bytes(content)
        findings = Findings()
        indexes = IndexCheck(findings, str(path), 0, is_required=is_required)
        data = b"".join(batches)
        for one in read_batches(data):
            indexes.see(data, one, one.position)
        indexes.finish(len(data))
        assert {one.weight for one in findings.kept} <= {"cache"}
        return [(one.kind, one.found) for one in findings.kept]

    return check


def offsets(*entries):
    return b"".join(OFFSET_ENTRY.pack(*entry) for entry in entries)


def times(*entries):
    return b"".join(TIME_ENTRY.pack(*entry) for entry in entries)


NEWEST = 1008


@pytest.mark.parametrize(
    ("files", "kind", "words"),
    [
        ({"index": "missing"}, "index", "the file is missing"),
        ({"timeindex": "missing"}, "timeindex", "the file is missing"),
        ({"index": bytes(5)}, "index", "5 bytes, which is no multiple of 8"),
        ({"index": offsets((2, 0)) + bytes(16)}, "index", "2 entries of zeros at the end"),
        ({"index": offsets((5, SIZE), (2, 0))}, "index", "entry (2, 0) follows (5, 84"),
        ({"index": offsets((4, SIZE))}, "index", "says the batch at position 84"),
        ({"index": offsets((2, 0), (4, 7))}, "index", "to position 7, where no batch begins"),
        ({"index": offsets((2, 0), (9, 9999))}, "index", "behind the end of the log"),
        ({"timeindex": times((1001, 2), (NEWEST, 8))}, "timeindex", "has 1002 as its largest"),
        ({"timeindex": times((NEWEST, 8), (2000, 11))}, "timeindex", "the log ends before it"),
        ({"timeindex": times((1002, 2))}, "timeindex", "the segment's largest is 1008"),
        ({"timeindex": times((1002, 2), (1001, 8))}, "timeindex", "entry (1001, 8) follows"),
        ({"timeindex": times((1005, 5), (1006, 6), (NEWEST, 8))}, "timeindex", "1 of 3 entries"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(found, files, kind, words):
    told = found(**files)
    words = words.replace("84", str(SIZE))
    assert [one for one in told if one[0] == kind and words in one[1]], told
    assert {one[0] for one in told} == {kind}


def test_what_is_right_is_not():
    assert beside("t-0/1.log", "index") == "t-0/1.index"
    assert beside("t-0/1.log.swap", "timeindex") == "t-0/1.timeindex.swap"


def test_sound_indexes_are_full_sparse_or_short_where_they_may_be(found):
    assert found() == []
    assert found(index=offsets((5, SIZE)), timeindex=times((NEWEST, 8))) == []
    assert found(index=b"", timeindex=b"", is_required=False) == []
    assert found(index="missing", timeindex="missing", is_required=False) == []
    assert found(index=offsets((2, 0)) + bytes(80), is_required=False) == []


def test_an_older_kafka_names_the_first_record_with_the_timestamp(found):
    records = [Record(None, b"x", time) for time in (5, 9, 9, 7)]
    batches = [bytes(build_batch(records))]
    assert found(batches, timeindex=times((9, 1))) == []
    assert found(batches, timeindex=times((9, 3))) == []
    assert found(batches, timeindex=times((9, 2)))[0][0] == "timeindex"
    broken = bytes(build_batch(records, codec=1, attributes=0))
    assert found([broken], timeindex=times((9, 1))) == []


def test_a_long_log_without_entries_is_told(found):
    large = [batch(offset, value=b"v" * EMPTY_BYTES_MAX) for offset in (0, 3)]
    ((kind, words),) = found(large, index=b"")
    assert kind == "index"
    assert "0 entries, and none for the last" in words
    assert found(large, index=offsets((2, 0))) == []


def test_nothing_is_judged_that_leads_into_damage(tmp_path):
    files = LogFiles(tmp_path)
    path = files.write("t-0", BATCHES)
    findings = Findings()
    indexes = IndexCheck(findings, str(path), 0, is_required=True)
    data = b"".join(BATCHES)
    first, second, third = read_batches(data)
    indexes.see(data, first, 0)
    indexes.skip(second.position, third.position, 3, 6)
    indexes.see(data, third, third.position)
    indexes.finish(len(data))
    assert findings.kept == []
