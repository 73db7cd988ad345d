"""Records in batches: against the readers and writers of three other clients, and damaged."""

import gzip
import io
import tracemalloc
import warnings
from datetime import UTC, datetime, timedelta

import aiokafka.record.default_records as aiokafka_records
import pytest
from kio.records.readers import read_batch as kio_read_batch
from kio.records.schema import NewRecordBatch as KioNewBatch
from kio.records.schema import Record as KioRecord
from kio.records.schema import RecordHeader as KioHeader
from kio.records.writers import write_new_batch as kio_write_batch

from protocol import records
from protocol.compression import ZSTD, compress
from protocol.record_errors import (
    CorruptBatch,
    DecompressedTooLarge,
    InvalidRecord,
    TooManyRecords,
    UnsupportedCompression,
)
from protocol.records import (
    HEADER_SIZE,
    START,
    Record,
    build,
    iterate,
    read_header,
    read_records,
    skipped,
    verify,
)
from tests.support.raw_batches import batch, record, varint

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its schemas use a deprecated interface
    import kafka.record.default_records as kafka_python_records

NOW_MS = 1_700_000_000_000
SIZE_MAX = 1 << 24
CODECS = (0, 1, 2, 3, 4)

RECORDS = [
    Record(0, NOW_MS, None, None),
    Record(1, NOW_MS + 1, b"", b""),
    Record(2, NOW_MS - 500, b"key", b"value", (("name", b"data"), ("name", None), ("", b""))),
    Record(3, NOW_MS + 2**33, b"k" * 63, b"v" * 64),
    Record(4, NOW_MS, b"k" * 8191, b"v" * 8192, (("größe", "größe".encode()),)),
    Record(5, NOW_MS + 70_000, None, bytes(range(256)) * 300),
    *(Record(n, NOW_MS + n, b"%d" % n, b"value %d" % n) for n in range(6, 200)),
]


def read(raw: bytes, size_max: int = SIZE_MAX) -> list[Record]:
    return list(read_records(raw, size_max=size_max))


@pytest.mark.parametrize("theirs", [kafka_python_records, aiokafka_records])
@pytest.mark.parametrize("codec", CODECS)
def test_other_clients_read_our_batches(theirs, codec):
    raw = bytes(build(RECORDS, codec=codec))
    taken = theirs.DefaultRecordBatch(raw)
    assert taken.validate_crc()
    found = [
        Record(one.offset, one.timestamp, one.key, one.value, tuple(one.headers)) for one in taken
    ]
    assert found == RECORDS
    assert taken.max_timestamp == NOW_MS + 2**33
    assert taken.first_timestamp == NOW_MS


@pytest.mark.parametrize("theirs", [kafka_python_records, aiokafka_records])
@pytest.mark.parametrize("codec", CODECS)
def test_we_read_the_batches_of_other_clients(theirs, codec):
    builder = theirs.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=77,
        producer_epoch=3,
        base_sequence=500,
        batch_size=1 << 24,
    )
    for one in RECORDS:
        builder.append(one.offset, one.timestamp, one.key, one.value, list(one.headers))
    raw = bytes(builder.build())
    header = verify(raw)
    assert read(raw) == RECORDS
    assert header.codec == codec
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 500)


def test_uncompressed_bytes_equal_those_of_the_other_builders():
    """The format of an uncompressed batch leaves no choice, so the bytes must be equal."""
    ours = build(RECORDS, producer_id=77, producer_epoch=3, base_sequence=500, leader_epoch=0)
    for theirs in (kafka_python_records, aiokafka_records):
        builder = theirs.DefaultRecordBatchBuilder(2, 0, 0, 77, 3, 500, 1 << 24)
        for one in RECORDS:
            builder.append(one.offset, one.timestamp, one.key, one.value, list(one.headers))
        built = bytearray(builder.build())
        built[12:16] = bytes(4)  # their leader epoch is -1 or 0: outside the CRC
        assert built == ours


def test_kio_reads_our_batches_and_writes_the_same_bytes():
    """kio carries uncompressed batches, and reads timestamps in whole seconds."""
    few = [one._replace(timestamp=NOW_MS + 1000 * one.offset) for one in RECORDS[:3]]
    ours = bytes(build(few, producer_id=5, producer_epoch=1, base_sequence=9))
    epoch = datetime.fromtimestamp(0, UTC)
    theirs = [
        KioRecord(
            attributes=0,
            timestamp=epoch + timedelta(milliseconds=one.timestamp),
            offset=one.offset,
            key=one.key,
            value=one.value,
            headers=tuple(KioHeader(key=key.encode(), value=value) for key, value in one.headers),
        )
        for one in few
    ]
    parsed, size = kio_read_batch(ours, 0)
    assert size == len(ours)
    assert list(parsed.records) == theirs
    written = io.BytesIO()
    new = KioNewBatch(
        producer_id=5, producer_epoch=1, base_sequence=9, records=tuple(theirs), attributes=0
    )
    kio_write_batch(written, new)
    assert written.getvalue() == ours


@pytest.mark.parametrize("codec", CODECS)
def test_build_numbers_from_the_base_offset(codec):
    raw = build(RECORDS, base_offset=2**40, codec=codec, leader_epoch=6)
    header = verify(raw)
    assert (header.base_offset, header.leader_epoch) == (2**40, 6)
    assert header.next_offset == 2**40 + len(RECORDS)
    assert header.record_count == len(RECORDS) == header.last_offset_delta + 1
    assert [one.offset for one in read(raw)] == [2**40 + n for n in range(len(RECORDS))]
    assert [one[1:] for one in read(raw)] == [one[1:] for one in RECORDS]


@pytest.mark.parametrize(
    ("arguments", "attributes"),
    [
        ({}, 0),
        ({"transactional": True, "codec": 3}, 0x13),
        ({"control": True}, 0x20),
        ({"control": True, "transactional": True}, 0x30),
        ({"timestamp_type": 1}, 0x08),
    ],
)
def test_build_sets_attributes(arguments, attributes):
    assert verify(build(RECORDS[:2], **arguments)).attributes == attributes


def test_append_time_is_the_timestamp_of_every_record():
    raw = build(RECORDS, timestamp_type=1)
    assert {one.timestamp for one in read(raw)} == {NOW_MS + 2**33}
    records.stamp_append_time(raw, 0, 42)
    assert {one.timestamp for one in read(raw)} == {42}


def test_records_without_timestamps():
    raw = build([Record(0, records.NO_TIMESTAMP, None, b"x")])
    assert verify(raw).max_timestamp == records.NO_TIMESTAMP
    assert read(raw)[0].timestamp == records.NO_TIMESTAMP


@pytest.mark.parametrize(
    ("arguments", "taken"),
    [
        ({}, []),
        ({"base_offset": 2**63}, RECORDS[:1]),
        ({"producer_epoch": 2**15}, RECORDS[:1]),
        ({}, [Record(0, 2**63, None, None)]),
    ],
)
def test_build_refuses_values_that_do_not_fit(arguments, taken):
    with pytest.raises(ValueError):
        build(taken, **arguments)


def test_a_batch_inside_a_larger_buffer():
    raw = b"head" + build(RECORDS[:3], codec=4) + b"tail"
    assert list(read_records(memoryview(raw), 4, size_max=SIZE_MAX)) == RECORDS[:3]


ONE = record(b"a")
DAMAGED = [
    ("size larger than the rest", record(b"a", size=1000)),
    ("size smaller than its fields", record(b"a", size=3) + b"\0" * 9),
    ("size larger than its fields", record(b"a", size=8) + b"\0\0"),
    ("negative size", varint(-1) + bytes(20)),
    ("size of six bytes", b"\xff" * 6 + bytes(20)),
    ("ends inside a number", b"\x0e\0\0\0\x80\x80\x80\x80"),
    ("timestamp of eleven bytes", varint(30) + b"\0" + b"\xff" * 11 + bytes(20)),
    ("key of -2 bytes", varint(7) + b"\0\0\0" + varint(-2) + b"\0\0\0"),
    ("key beyond the record", varint(7) + b"\0\0\0" + varint(60) + b"\0\0\0" + bytes(70)),
    ("value beyond the record", varint(7) + b"\0\0\0\1" + varint(2**31 - 1)[:3] + bytes(70)),
    ("header count -1", record(b"a", headers=varint(-1))),
    ("header count beyond the bytes", record(b"a", headers=varint(2**31 - 1))),
    ("header without a key", record(b"a", headers=varint(1) + varint(-1) + varint(-1))),
    ("header key beyond the record", record(b"a", headers=varint(1) + varint(50))),
    ("header value of -2", record(b"a", headers=varint(1) + varint(0) + varint(-2))),
    ("header value missing", record(b"a", headers=varint(1) + varint(0))),
    ("bytes after the records", ONE + b"\0"),
    ("two records", ONE + ONE),
    ("half a record", ONE[:-1]),
    ("nothing", b""),
]


@pytest.mark.parametrize(("name", "body"), DAMAGED, ids=[name for name, _ in DAMAGED])
@pytest.mark.parametrize("codec", CODECS)
def test_damaged_records_are_invalid(name, body, codec):
    raw = batch([b"a"], body=compress(codec, body), attributes=codec)
    assert verify(raw), "the CRC must match the damaged bytes"
    with pytest.raises(InvalidRecord) as error:
        read(raw)
    assert error.value.reason, name


def test_a_header_key_that_is_not_utf8_is_read_as_java_reads_it():
    """Kafka stores and serves the bytes unchanged; a reader gets U+FFFD."""
    body = record(b"a", headers=varint(1) + varint(1) + b"\xff" + varint(-1))
    (found,) = read(batch([b"a"], body=body))
    assert found.headers == (("\ufffd", None),)


def test_records_before_the_damage_are_returned():
    taken = read_records(batch([b"a", b"b"], body=ONE + record(b"b", size=99)), size_max=SIZE_MAX)
    assert next(taken).value == b"a"
    with pytest.raises(InvalidRecord, match="99 bytes, but"):
        next(taken)


def test_headers_are_skipped_unless_requested():
    count = 4 * 1024 * 1024
    body = record(b"v", key=b"k", headers=varint(count) + b"\0\0" * count)
    raw = batch([b"v"], body=compress(ZSTD, body), attributes=ZSTD)
    assert len(raw) < 1_000
    tracemalloc.start()
    (found,) = read_records(raw, size_max=SIZE_MAX, skip_headers=True)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found.key, found.value, found.headers) == (b"k", b"v", ())
    assert peak_bytes < 5 * len(body)
    assert read(bytes(build(RECORDS)))[2].headers
    assert [
        one.headers for one in read_records(build(RECORDS), size_max=SIZE_MAX, skip_headers=1)
    ] == [()] * len(RECORDS)
    with pytest.raises(InvalidRecord, match="no room for its count of headers"):
        list(
            read_records(
                batch([b"v"], body=record(b"v", headers=b"")), size_max=SIZE_MAX, skip_headers=True
            )
        )


def test_records_below_an_offset_are_skipped_and_those_with_many_headers_refused():
    raw = build(RECORDS, base_offset=70)
    header, body = verify(raw), bytes(raw[HEADER_SIZE:])
    assert list(iterate(header, body, from_offset=72)) == [
        one._replace(offset=one.offset + 70) for one in RECORDS[2:]
    ]
    assert list(iterate(header, body, from_offset=header.next_offset)) == []
    found = iterate(header, body, headers_max=2)
    assert [next(found).offset, next(found).offset] == [70, 71]
    with pytest.raises(TooManyRecords, match="3 headers of a record, more than the 2"):
        next(found)
    broken = batch([b"a"], body=record(b"a", size=99))
    with pytest.raises(InvalidRecord, match="99 bytes, but"):
        next(iterate(verify(broken), broken[HEADER_SIZE:], from_offset=5))


def test_records_are_passed_over_in_steps():
    body = build([Record(0, 0, b"%d" % n, None) for n in range(10)])
    header = read_header(body)
    data = bytes(body[HEADER_SIZE:])
    place, is_more = skipped(header, data, START, 7, 5)
    assert (place[0], is_more) == (5, True)
    place, is_more = skipped(header, data, place, 7, 5)
    assert (place[0], is_more) == (7, False)
    assert [one.offset for one in iterate(header, data, place=place)] == [7, 8, 9]
    place, is_more = skipped(header, data, START, 99, 50)
    assert (place, is_more) == ((10, len(data)), False)
    assert list(iterate(header, data, place=place)) == []
    torn = data[:-20]
    place, _ = skipped(header, torn, START, 99, 50)
    with pytest.raises(InvalidRecord):
        list(iterate(header, torn, place=place))


def test_too_large_a_record_count_is_refused_before_the_first_record():
    taken = read_records(batch([b"a"], record_count=2**31 - 1), size_max=SIZE_MAX)
    with pytest.raises(InvalidRecord, match="2147483647 records announced"):
        next(taken)


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (batch(attributes=5), UnsupportedCompression),
        (batch(attributes=1), CorruptBatch),
        (batch(attributes=4), CorruptBatch),
        (batch(magic=1), InvalidRecord),
        (batch()[:-1], CorruptBatch),
        (batch(attributes=1, body=gzip.compress(bytes(SIZE_MAX + 1))), DecompressedTooLarge),
        (batch([b"x"], body=bytes(SIZE_MAX + 1)), DecompressedTooLarge),
    ],
)
def test_unreadable_batches(raw, error):
    with pytest.raises(error):
        read(raw)
