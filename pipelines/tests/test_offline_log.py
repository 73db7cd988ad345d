"""Where a log in files begins and ends, what its times are, and what its caches are worth."""

from __future__ import annotations

import numpy as np
import pytest
from test_segments import batch, flipped, write

from pyspark_barnabas.source import offline_log
from pyspark_barnabas.source.offline_log import (
    DataDirectory,
    Spot,
    batch_of_entry,
    follow_headers,
    near_end,
    offset_index,
    read_log_starts,
    time_index,
)
from pyspark_barnabas.wire.encode import Record, build_batch
from pyspark_barnabas.wire.errors import DamagedLog, UnknownTopic
from pyspark_barnabas.wire.protocol import EARLIEST, LATEST

AT = ("t", 0)


def of(directory, time, isolation=0, **settings):
    return DataDirectory(str(directory), **settings).list_offsets({AT: time}, isolation)[AT]


def checkpoint(directory, text):
    (directory / "log-start-offset-checkpoint").write_text(text)


def indexes(directory, offsets=(), times=(), base=0, zeros=0):
    entries = np.array(offsets, ">i4").tobytes() + bytes(zeros * 8)
    (directory / "t-0" / f"{base:020d}.index").write_bytes(entries)
    layout = np.dtype([("time", ">i8"), ("offset", ">i4")])
    entries = np.array(list(times), layout).tobytes() + bytes(zeros * 12)
    (directory / "t-0" / f"{base:020d}.timeindex").write_bytes(entries)


# -- ends ----------------------------------------------------------------------------------------


def test_a_log_reaches_from_its_first_segment_to_behind_its_last_batch(tmp_path):
    write(tmp_path, [batch(5)], base=5)
    write(tmp_path, [batch(8), batch(20)], base=8)
    assert (of(tmp_path, EARLIEST), of(tmp_path, LATEST)) == (5, 23)


@pytest.mark.parametrize(
    ("segments", "start", "ends"),
    [
        ({}, "", (0, 0)),
        ({0: []}, "", (0, 0)),
        ({40: []}, "", (40, 40)),
        ({0: [0, 3], 6: []}, "", (0, 6)),
        ({0: [0, 3]}, "0\n1\nt 0 4\n", (4, 6)),
        ({0: [0, 3]}, "0\n1\nt 0 99\n", (6, 6)),
        ({9: [9]}, "0\n1\nt 0 4\n", (9, 12)),
        ({9: []}, "0\n2\nu 0 4\nt 1 11\n", (9, 9)),
        ({9: []}, "0\n0\n", (9, 9)),
    ],
)
def test_ends_of_logs_that_are_empty_or_trimmed(tmp_path, segments, start, ends):
    (tmp_path / "t-0").mkdir()
    for base, offsets in segments.items():
        write(tmp_path, [batch(offset) for offset in offsets], base=base)
    if start:
        checkpoint(tmp_path, start)
    assert (of(tmp_path, EARLIEST), of(tmp_path, LATEST)) == ends


def test_kafka_makes_the_checkpoint_empty_at_its_first_start(tmp_path):
    checkpoint(tmp_path, "")
    assert read_log_starts(str(tmp_path)) == {}


@pytest.mark.parametrize("text", ["0\n", "0\n1\n", "1\n0\n", "0\n1\nt 0\n", "0\nx\n", "\0" * 9])
def test_a_checkpoint_that_is_none_is_told(tmp_path, text):
    checkpoint(tmp_path, text)
    with pytest.raises(DamagedLog, match=r"log-start-offset-checkpoint .*Restore the file"):
        read_log_starts(str(tmp_path))


# -- topics --------------------------------------------------------------------------------------


def test_kafkas_own_topics_are_read_only_by_name(tmp_path):
    for name in ("__consumer_offsets-3", "t-0", "t-1", "u-0"):
        (tmp_path / name).mkdir()
    directory = DataDirectory(str(tmp_path))
    assert directory.all_topics() == {"t": [0, 1], "u": [0]}
    assert directory.topics(["__consumer_offsets"]) == {"__consumer_offsets": [3]}
    with pytest.raises(UnknownTopic, match=r"no x, y in .*, which holds t, u\. Check .* path"):
        directory.topics(["x", "t", "y"])


def test_a_long_list_of_topics_is_not_shown_whole(tmp_path):
    for number in range(14):
        (tmp_path / f"t{number:02}-0").mkdir()
    with pytest.raises(UnknownTopic, match="t09 and 4 more"):
        DataDirectory(str(tmp_path)).topics(["x"])


# -- times ---------------------------------------------------------------------------------------


def timed(offset, *times, codec=0, attributes=0):
    records = [Record(None, b"v" * 40, time) for time in times]
    return bytes(build_batch(records, base_offset=offset, codec=codec, attributes=attributes))


@pytest.fixture
def clocked(tmp_path):
    write(tmp_path, [timed(0, 100, 300, 200), timed(3, 250)])
    write(tmp_path, [timed(4, 260, 500, codec=4), timed(6, 400)], base=4)
    write(tmp_path, [timed(7, 700)], base=7)
    return tmp_path


TIMES = [(0, 0), (100, 0), (101, 1), (300, 1), (301, 5), (500, 5), (501, 7), (700, 7), (701, -1)]


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize(("time", "offset"), TIMES)
def test_a_time_leads_to_the_first_record_that_is_not_older(clocked, cached, time, offset):
    if cached:
        indexes(clocked, [(3, len(timed(0, 1, 1, 1)))], [(300, 2)], zeros=3)
        indexes(clocked, [], [(500, 1)], base=4)
        indexes(clocked, [], [], base=7, zeros=9)
    assert of(clocked, time) == offset


def test_a_time_index_that_is_not_this_logs_leads_nobody_astray(clocked):
    for times in ([(90, 3)], [(99, 0)], [(10**15, 2)], [(100, 77)]):
        indexes(clocked, [(77, 5), (78, 1 << 20)], times)
        for time, offset in TIMES:
            assert of(clocked, time) == offset, (times, time)


def test_a_broker_s_clock_is_the_time_of_all_records(tmp_path):
    write(tmp_path, [timed(0, 100, 200, attributes=0x08), timed(2, 300, 100, attributes=0x08)])
    assert [of(tmp_path, time) for time in (100, 200, 201, 300, 301)] == [0, 0, 2, 2, -1]


def test_trimmed_records_have_no_time(clocked):
    checkpoint(clocked, "0\n1\nt 0 2\n")
    assert of(clocked, 100) == 2
    assert of(clocked, 300) == 5


def test_damage_on_the_way_to_a_time_is_an_error_unless_tolerated(tmp_path):
    write(tmp_path, [timed(0, 100), flipped(timed(1, 200), 70), timed(2, 300)])
    assert of(tmp_path, 50) == 0
    with pytest.raises(DamagedLog, match=r"looking for a time, .* at position .*: checksum"):
        of(tmp_path, 150)
    assert of(tmp_path, 150, tolerant=True) == 2


# -- caches --------------------------------------------------------------------------------------


def test_entries_of_an_index_are_taken_as_far_as_they_rise(tmp_path):
    write(tmp_path, [batch(0), batch(3), batch(6)])
    (segment,) = DataDirectory(str(tmp_path)).logs[AT].log.segments
    size = len(batch(0))
    assert (len(offset_index(segment)), len(time_index(segment))) == (0, 0)
    indexes(tmp_path, zeros=8)
    assert (len(offset_index(segment)), len(time_index(segment))) == (0, 0)
    indexes(tmp_path, [(5, size), (8, 2 * size)], [(1001, 2), (1005, 5)], zeros=4)
    assert offset_index(segment).tolist() == [(5, size), (8, 2 * size)]
    assert time_index(segment).tolist() == [(1001, 2), (1005, 5)]
    first, second = offset_index(segment)
    assert batch_of_entry(segment, first).base_offset == 3
    assert batch_of_entry(segment, second).position == 2 * size


@pytest.mark.parametrize("entry", [(5, 1), (2, 10**6), (9, 0), (-1, 0), (5, 230)])
def test_an_entry_that_leads_to_no_whole_batch_is_not_believed(tmp_path, entry):
    write(tmp_path, [batch(0), batch(3), batch(6)])
    (segment,) = DataDirectory(str(tmp_path)).logs[AT].log.segments
    assert batch_of_entry(segment, dict(zip(("offset", "position"), entry, strict=True))) is None


def test_an_entry_of_a_damaged_batch_is_not_believed(tmp_path):
    write(tmp_path, [flipped(batch(0), 80)])
    (segment,) = DataDirectory(str(tmp_path)).logs[AT].log.segments
    assert batch_of_entry(segment, {"offset": 2, "position": 0}) is None


def test_headers_are_followed_as_far_as_they_make_sense(tmp_path):
    write(tmp_path, [batch(0), batch(3), flipped(batch(6), 80), batch(9), b"x" * 99])
    (segment,) = DataDirectory(str(tmp_path)).logs[AT].log.segments
    found = follow_headers(segment, Spot(0, 0), segment.size)
    assert [one.base_offset for one in found] == [0, 3, 6, 9]
    size = len(batch(0))
    found = follow_headers(segment, Spot(size, 3), 3 * size)
    assert [(one.position, one.base_offset) for one in found] == [(size, 3), (2 * size, 6)]
    assert list(follow_headers(segment, Spot(size, 4), segment.size)) == []


@pytest.mark.parametrize("end", [b"", b"torn", flipped(batch(120), 70), flipped(batch(120), 9)])
def test_the_end_is_found_without_reading_all_of_a_segment(tmp_path, monkeypatch, end):
    monkeypatch.setattr(offline_log, "_NEAR_BYTES", 1000)
    size = len(batch(0))
    write(tmp_path, [*[batch(3 * index) for index in range(40)], end])
    (segment,) = DataDirectory(str(tmp_path)).logs[AT].log.segments
    spot = near_end(segment, Spot(0, 0))
    assert 36 * size - 2000 <= spot.position <= 40 * size - 1000
    assert spot.position // size * 3 == spot.offset
    assert of(tmp_path, LATEST) == 120
