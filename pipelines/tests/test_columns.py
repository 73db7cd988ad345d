"""The decoder on records encoded one by one, and on damage."""

from __future__ import annotations

import random
import struct

import pytest

from pyspark_barnabas import columns
from pyspark_barnabas.columns import TYPES, Decoder, arrow_schema
from pyspark_barnabas.wire.batches import (
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Visibility,
    read_batches,
)
from pyspark_barnabas.wire.encode import Producer, Record, build_batch, varint
from pyspark_barnabas.wire.errors import BadOption, BatchTooLarge, CorruptBatch

ALL = list(TYPES)


def decode(data, names=ALL, start=0, end=None, **settings):
    decoder = Decoder(names, "t", 7, **settings)
    rows = []
    for table in decoder.decode(data, read_batches(data), start, end):
        assert table.schema == arrow_schema(names)
        table.validate(full=True)
        rows += table.to_pylist()
    return rows


def row(offset, record, timestamp=None, timestamp_type=0):
    """Return the row that Spark's own source makes of a record."""
    return {
        "key": record.key,
        "value": record.value,
        "topic": "t",
        "partition": 7,
        "offset": offset,
        "timestamp": record.timestamp if timestamp is None else timestamp,
        "timestampType": timestamp_type,
        "headers": [{"key": k, "value": v} for k, v in record.headers] or None,
    }


def comparable(rows):
    for found in rows:
        found["timestamp"] = round(found["timestamp"].timestamp() * 1000)
    return rows


def random_record(dice):
    def piece():
        size = dice.choice([0, 1, 15, 63, 64, 100, 8191, 8192, 20_000])
        return dice.choice([None, dice.randbytes(size), dice.randbytes(dice.randrange(40))])

    count = dice.choice([0, 0, 0, 1, 2, 5])
    headers = [(dice.choice(["", "a", "ü" * 40, "k" * 200]), piece()) for _ in range(count)]
    return Record(piece(), piece(), dice.choice([0, 1_700_000_000_000, 5, -1]), headers)


@pytest.mark.parametrize("seed", range(30))
def test_random_logs_are_read_back(seed):
    dice = random.Random(seed)
    data, expected, offset = bytearray(), [], dice.choice([0, 5_000_000_000])
    for _ in range(dice.randrange(1, 12)):
        records = [random_record(dice) for _ in range(dice.choice([1, 2, 30]))]
        append_time = dice.random() < 0.2
        data += build_batch(
            records,
            codec=dice.randrange(5),
            base_offset=offset,
            attributes=LOG_APPEND_TIME if append_time else 0,
        )
        newest = max(record.timestamp for record in records)
        for index, record in enumerate(records):
            expected.append(row(offset + index, record, newest if append_time else None,
                                int(append_time)))  # fmt: skip
        offset += len(records) + dice.choice([0, 0, 17])
    assert comparable(decode(bytes(data), arrow_bytes=dice.choice([1, 4000, 2 << 20]))) == expected
    start, end = sorted(dice.choice(expected)["offset"] for _ in range(2))
    cut = [found for found in expected if start <= found["offset"] < end]
    assert comparable(decode(bytes(data), start=start, end=end)) == cut
    columns = dice.sample(ALL, dice.randrange(1, len(ALL)))
    narrow = [{name: found[name] for name in columns} for found in expected]
    got = decode(bytes(data), columns)
    assert (comparable(got) if "timestamp" in columns else got) == narrow


def test_a_record_batch_stays_near_its_size():
    data = b"".join(
        build_batch([Record(None, b"x" * 1000, 0)] * 100, base_offset=100 * i) for i in range(50)
    )
    decoder = Decoder(["value"], "t", 0, arrow_bytes=1 << 20)
    sizes = [table.nbytes for table in decoder.decode(data, read_batches(data))]
    assert len(sizes) == 5
    assert max(sizes) < 1.3 * (1 << 20)
    one = build_batch([Record(None, b"x" * 1000, 0)] * 5000)
    tables = list(decoder.decode(bytes(one), read_batches(one)))
    assert sum(table.num_rows for table in tables) == 5000
    assert max(table.num_rows for table in tables) <= 1000


def test_a_header_name_that_is_no_text_is_replaced_as_java_does():
    data = bytes(build_batch([Record(b"", b"", 0, [("ab", b"1")])])).replace(
        b"\x04ab", b"\x04\xffb"
    )
    rows = list(Decoder(["headers"], "t", 0).decode(data, read_batches(data, check_crc=False)))
    assert rows[0].to_pylist() == [{"headers": [{"key": "\ufffdb", "value": b"1"}]}]


def test_an_unknown_column_is_named():
    with pytest.raises(BadOption, match="no column nope: a log has key, value, topic"):
        arrow_schema(["key", "nope"])


@pytest.mark.parametrize("seed", range(300))
def test_any_flipped_byte_within_the_records_is_an_error_or_other_values_and_never_more(seed):
    """Without the CRC check, which would find each of them first."""
    dice = random.Random(seed)
    data = build_batch([random_record(dice) for _ in range(8)], codec=dice.randrange(5))
    for _ in range(dice.choice([1, 3])):
        data[dice.randrange(61, len(data))] = dice.randrange(256)
    decoder = Decoder(ALL, "t", 0, batch_bytes_max=1 << 20)
    try:
        for table in decoder.decode(data, read_batches(data, check_crc=False)):
            table.validate(full=True)
    except CorruptBatch as error:
        assert error.position == 0  # noqa: PT017


@pytest.mark.parametrize(
    ("name", "body", "count", "reason"),
    [
        ("more records than bytes", b"\0" * 10, 5, "5 records in 10 bytes"),
        ("a billion records", b"\x0c" + b"\0" * 6, 1_000_000_000, "1000000000 records in 7"),
        ("lengths that go on", b"\x0e" + b"\0" * 6, 1, "do not add up"),
        ("lengths that stop", b"\x0a" + b"\0" * 6, 1, "do not add up"),
        ("key beyond the record", b"\x0c\0\0\0" + varint(70) + b"\0\0", 1, "do not add up to its"),
        ("key of size -2", b"\x0c\0\0\0\x03\0\0", 1, "do not add up to its own"),
        ("headers of size -1", b"\x0c\0\0\0\0\0\x01", 1, "do not add up to its own"),
        ("bytes behind", b"\x0e\0\0\0\0\0\0\0", 1, "bytes after the last field"),
        ("endless varint", b"\x1a\0" + b"\xff" * 12, 1, "a varint of more than 10 bytes"),
    ],
)
def test_records_that_contradict_themselves(name, body, count, reason):
    data = bytearray(build_batch([Record(None, None, 0)]))[:61] + body
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">i", data, 57, count)
    with pytest.raises(CorruptBatch, match=reason):
        list(Decoder(ALL, "t", 0).decode(data, read_batches(data, check_crc=False)))


def test_a_bomb_is_stopped_at_the_bound():
    for codec in range(1, 5):
        data = build_batch([Record(None, b"\0" * 5_000_000, 0)], codec=codec)
        with pytest.raises(
            CorruptBatch, match=r"decompress to more than 1000000 bytes.*batchBytesMax"
        ):
            list(Decoder(ALL, "t", 0, batch_bytes_max=1_000_000).decode(data, read_batches(data)))


def test_control_batches_and_aborted_ones_are_skipped():
    def batch(offset, text, producer, attributes=TRANSACTIONAL):
        return build_batch(
            [Record(None, text, 0)],
            base_offset=offset,
            producer=Producer(producer, 0, 0),
            attributes=attributes,
        )

    def marker(offset, producer, kind):
        key = struct.pack(">hh", 0, kind)
        return build_batch(
            [Record(key, b"\0" * 6, 1_700_000_000_000)],
            base_offset=offset,
            producer=Producer(producer, 0, -1),
            attributes=TRANSACTIONAL | CONTROL,
        )

    data = b"".join(
        [
            batch(0, b"one aborts", 1),
            batch(1, b"two commits", 2),
            batch(2, b"plain", 1, attributes=0),
            marker(3, 2, 1),
            batch(4, b"one again", 1),
            marker(5, 1, 0),
            batch(6, b"one commits", 1),
            marker(7, 1, 1),
        ]
    )

    def seen(aborted):
        sight = Visibility(aborted)
        visible = (found for found in read_batches(data) if sight.sees(data, found))
        tables = Decoder(["offset"], "t", 0).decode(data, visible)
        return [found["offset"] for table in tables for found in table.to_pylist()]

    assert seen([]) == [0, 1, 2, 4, 6]
    assert seen([(1, 0)]) == [1, 2, 6]
    assert seen([(1, 0), (2, 1)]) == [2, 6]  # a commit marker does not end an aborted one


def headers(count, size=3):
    return [(f"h{number % 300}", b"x" * (number % size)) for number in range(count)]


def test_a_batch_with_very_many_headers_is_refused_by_its_option():
    plain = build_batch([Record(b"k", b"v", 1)])
    data = build_batch([Record(b"k", b"v", 1, headers(60))] * 2, codec=4, base_offset=1)
    assert len(decode(plain + data, batch_headers_max=120)) == 3
    with pytest.raises(BatchTooLarge, match=r"2 records with 120 headers, more than 119; .*Max"):
        decode(plain + data, batch_headers_max=119)
    assert len(decode(plain + data, ["value"], batch_headers_max=0)) == 3
    with pytest.raises(BatchTooLarge) as found:
        decode(plain + data, batch_headers_max=0)
    assert found.value.position == len(plain)


def test_a_small_batch_of_very_many_records_is_refused_before_it_is_unpacked(monkeypatch):
    """Records of seven bytes compress to almost nothing, but take room while decoded."""
    data = build_batch([Record(None, None, 1)] * 1001, codec=4)
    assert len(decode(data, ["offset"], batch_bytes_max=64 * 1001)) == 1001
    monkeypatch.setattr(columns, "decompress", None)
    with pytest.raises(BatchTooLarge, match=r"1001 records in .* option batchBytesMax"):
        decode(data, ["offset"], batch_bytes_max=64 * 1001 - 1)
