"""Batches as bytes, compared with one written by hand; `test_columns` reads thousands back."""

from __future__ import annotations

import pytest

from pyspark_barnabas.wire.encode import Producer, Record, build_batch, varint


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_varints_are_zigzag(number, encoded):
    assert varint(number).hex() == encoded


def test_a_batch_byte_by_byte():
    """Written by hand after Kafka's DefaultRecordBatch and DefaultRecord."""
    records = [Record(b"k", None, 1000, [("h", None), ("i", b"2")]), Record(None, b"", 990)]
    batch = bytes(build_batch(records, producer=Producer(7, 2, 5), base_offset=3))
    head = "0000 00000001 00000000000003e8 00000000000003e8 0000000000000007 0002 00000005 00000002"
    first = "1c 00 00 00 02 6b 01 04 02 68 01 02 69 02 32"
    second = "0c 00 13 02 01 00 00"
    assert batch[:17].hex(" ", 4) == (len(batch) - 12).to_bytes(4, "big").join(
        (bytes(7) + b"\x03", b"\xff\xff\xff\xff\x02")
    ).hex(" ", 4)
    assert batch[21:61] == bytes.fromhex(head)
    assert batch[61:].hex(" ") == f"{first} {second}"
