"""Walks over records: their results, their checks of every size, and where they end."""

import pytest

from protocol import record_walks
from protocol.compression import ZSTD, compress
from protocol.record_errors import InvalidRecord, RecordError, RecordsWithoutKey, TooManyRecords
from protocol.record_walks import (
    HEADERS_MAX,
    RECORDS_MAX,
    REPORTED_MAX,
    STEP_COUNT,
    check_body,
    mistimed,
    offset_of_timestamp,
    opened,
    outlines,
)
from protocol.records import Record, build, read_records
from tests.support.raw_batches import batch, record, varint

NOW_MS = 1_700_000_000_000
SIZE_MAX = 1 << 24
CODECS = (0, 1, 2, 3, 4)
HEADERS = (("name", b"data"), ("name", None), ("", b""), ("long" * 50, b"x" * 9_000))


def check(raw, *, keys_wanted=False, rest=record_walks.no_rest):
    header, body = opened(raw, SIZE_MAX)
    check_body(header, body, keys_wanted=keys_wanted, rest=rest)


@pytest.mark.parametrize("codec", CODECS)
def test_a_walk_agrees_with_reading(codec):
    records = [
        Record(n, NOW_MS + n * 7**5, [None, b"", b"k" * 200][n % 3], b"v" * n, HEADERS[: n % 5])
        for n in range(300)
    ]
    header, body = opened(build(records, base_offset=40, codec=codec), SIZE_MAX)
    assert list(outlines(header, body)) == [
        (one.offset + 40, one.timestamp, one.key is not None) for one in records
    ]
    assert list(outlines(header, body, sizes_only=True)) == list(outlines(header, body))
    appended = build(records, timestamp_type=1)
    assert {found.timestamp for found in outlines(*opened(appended, SIZE_MAX))} == {
        records[-1].timestamp
    }


def test_timestamps_wrap_around_as_in_java():
    records = [Record(0, 2**63 - 1, b"k", b"v"), Record(1, -(2**63), b"k", b"v")]
    raw = build(records)
    assert [one.timestamp for one in outlines(*opened(raw, SIZE_MAX))] == [
        one.timestamp for one in read_records(raw, size_max=SIZE_MAX)
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_every_record_is_checked_and_has_a_key_if_keys_are_required(codec):
    keyed = [Record(0, NOW_MS, b"k", b"x")] * 3
    unkeyed = [Record(0, NOW_MS, None, b"x"), *keyed, Record(0, NOW_MS, None, b"x")]
    check(build(unkeyed, codec=codec))
    check(build(keyed, codec=codec), keys_wanted=True)
    with pytest.raises(RecordsWithoutKey) as refused:
        check(build(unkeyed, codec=codec), keys_wanted=True)
    assert (refused.value.indexes, refused.value.count) == ([0, 4], 2)
    one = record(b"v")
    damaged = batch([b"a", b"b"], body=compress(codec, one + one + b"x"), attributes=codec)
    with pytest.raises(InvalidRecord, match="1 bytes are left"):
        check(damaged)


WRONG = [
    record(b"v", size=99),
    record(b"v", size=3),
    b"\x01" + record(b"v"),
    record(b"v", headers=varint(-1)),
    record(b"v", headers=varint(5)),
    record(b"v", headers=varint(1) + varint(-1) + varint(0)),
    record(b"v", headers=varint(1) + varint(0) + varint(-2)),
    record(b"v", headers=varint(1) + varint(50) + varint(0)),
    record(b"v", headers=varint(1) + varint(0) + varint(50)),
    record(b"v", headers=varint(1) + varint(0) + varint(500_000)),
    record(b"v", headers=b"\x80" * 6),
    record(b"v")[:-1],
    b"\x0e\0\0\0\x03\0\0\0",
]


@pytest.mark.parametrize("body", WRONG)
def test_a_record_with_wrong_sizes_or_counts_is_refused(body):
    """Reading it fails, too."""
    raw = batch([b"v"], body=body)
    with pytest.raises(InvalidRecord):
        check(raw)
    with pytest.raises(RecordError):
        list(read_records(raw, size_max=SIZE_MAX))


def bomb(header_count):
    """Return a compressed batch of a few hundred bytes with `header_count` headers."""
    body = record(b"v", key=b"k", headers=varint(header_count) + b"\0\0" * header_count)
    return batch([b"v"], body=compress(ZSTD, body), attributes=ZSTD)


def test_a_batch_with_too_many_headers_is_refused_before_they_are_walked():
    rests = []
    with pytest.raises(TooManyRecords, match="4194304 headers in a batch"):
        check(bomb(4 * HEADERS_MAX), rest=lambda: rests.append(1))
    assert len(rests) == 1
    half = record(b"v", headers=varint(600_000) + b"\0\0" * 600_000)
    with pytest.raises(TooManyRecords, match="1200000 headers in a batch"):
        check(batch([b"v"] * 2, body=half * 2))
    assert list(outlines(*opened(bomb(4 * HEADERS_MAX), SIZE_MAX), sizes_only=True))
    check(bomb(10_000), keys_wanted=True, rest=lambda: rests.append(1))
    assert len(rests) > 10_000 // STEP_COUNT, "other threads run meanwhile"


def test_a_batch_with_too_many_records_is_refused_before_the_first(monkeypatch):
    raw = batch([b"v"], record_count=RECORDS_MAX + 1)
    with pytest.raises(TooManyRecords, match=f"{RECORDS_MAX + 1} records in a batch"):
        check(raw)
    with pytest.raises(InvalidRecord, match="1048576 records announced"):
        check(batch([b"v"], record_count=RECORDS_MAX))


def test_the_first_invalid_records_are_named_and_all_are_counted():
    count = REPORTED_MAX + 900
    raw = build([Record(0, NOW_MS + n, None, None) for n in range(count)], codec=ZSTD)
    with pytest.raises(RecordsWithoutKey, match=f"due to {count} record errors") as refused:
        check(raw, keys_wanted=True)
    assert refused.value.indexes == list(range(REPORTED_MAX))
    found = mistimed(raw, NOW_MS + 50, NOW_MS + 60, size_max=SIZE_MAX)
    assert found.total == count - 11
    assert len(found.first) == REPORTED_MAX
    assert found.first[49:51] == [(49, NOW_MS + 49), (61, NOW_MS + 61)]


def test_a_missing_timestamp_is_never_out_of_range():
    raw = build([Record(0, -1, None, None), Record(1, 5, None, None)])
    assert mistimed(raw, 10, 20, size_max=SIZE_MAX) == (1, [(1, 5)])


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (0, (10, 100)),
        (100, (10, 100)),
        (101, (11, 300)),
        (300, (11, 300)),
        (301, None),
        (150, (11, 300)),
    ],
)
def test_offset_of_timestamp_is_the_first_at_or_after(codec, timestamp, expected):
    taken = [Record(0, ms, None, b"x") for ms in (100, 300, 200, 300)]
    raw = build(taken, base_offset=10, codec=codec)
    assert offset_of_timestamp(raw, timestamp, SIZE_MAX) == expected


def test_offset_of_timestamp_by_append_time_does_not_open_the_batch():
    raw = batch([b"a", b"b"], body=b"garbage", attributes=0x0B, base_offset=7, max_timestamp=500)
    assert offset_of_timestamp(raw, 500, SIZE_MAX) == (7, 500)
    assert offset_of_timestamp(raw, 501, SIZE_MAX) is None


def test_offset_of_timestamp_if_the_headers_max_timestamp_is_too_large():
    """A producer may send a max timestamp larger than that of any record."""
    raw = batch([b"a"], timestamp=100, max_timestamp=900)
    assert offset_of_timestamp(raw, 500, SIZE_MAX) is None


@pytest.mark.parametrize("timestamp_type", [0, 1])
def test_records_below_the_start_of_the_log_do_not_count(timestamp_type):
    taken = [Record(0, ms, None, b"x") for ms in (100, 300, 200, 300)]
    raw = build(taken, base_offset=10, timestamp_type=timestamp_type)
    found = offset_of_timestamp(raw, 150, SIZE_MAX, from_offset=12)
    assert found == ((12, 300) if timestamp_type else (12, 200))
    assert offset_of_timestamp(raw, 150, SIZE_MAX, from_offset=14) is None
