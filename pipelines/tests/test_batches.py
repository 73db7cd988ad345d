"""Headers, CRCs and tails of batches; every error has a position."""

from __future__ import annotations

import struct

import pytest

from pyspark_barnabas.wire.batches import Batch, first_batch_size, is_abort_marker, read_batches
from pyspark_barnabas.wire.encode import Producer, Record, build_batch
from pyspark_barnabas.wire.errors import CorruptBatch

TWO = [Record(b"k", b"v", 1000), Record(None, b"w", 2000)]


def test_what_a_header_says():
    data = build_batch(TWO, base_offset=40, producer=Producer(9, 3, 17), codec=4)
    (batch,) = read_batches(data)
    assert batch[:4] == (0, 40, len(data) - 12, -1)
    assert (batch.size, batch.last_offset, batch.record_count) == (len(data), 41, 2)
    assert (batch.base_timestamp, batch.max_timestamp) == (1000, 2000)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 3, 17)
    assert (batch.codec, batch.is_control, batch.is_transactional) == (4, False, False)


def test_the_tail_of_a_fetch_is_left_alone_at_every_byte():
    whole = bytes(build_batch(TWO))
    for size in range(len(whole)):
        found = list(read_batches(whole + whole[:size]))
        assert [batch.position for batch in found] == [0]


@pytest.mark.parametrize("size", [0, 5, 11])
def test_a_size_that_is_cut_short_is_not_known(size):
    assert first_batch_size(b"\0" * size) is None


def test_the_size_of_a_batch_is_known_from_its_first_bytes():
    data = build_batch(TWO)
    assert first_batch_size(data[:12]) == len(data)


@pytest.mark.parametrize("position", [0, 100])
def test_every_flipped_byte_under_the_crc_is_found(position):
    whole = build_batch(TWO)
    before = build_batch([Record(None, b"x" * 32, 0)])[: position or None]
    before = before if position else b""
    for index in range(21, len(whole)):
        data = bytearray(before) + whole
        data[len(before) + index] ^= 0x10
        with pytest.raises(CorruptBatch, match="CRC-32C 0x") as caught:
            list(read_batches(data))
        assert caught.value.position == len(before)


@pytest.mark.parametrize(
    ("field", "layout", "position", "value", "reason"),
    [
        ("magic", ">b", 16, 1, "message format 1, from before Kafka 0.11, is not supported"),
        ("magic", ">b", 16, 9, "magic 9, expected 2"),
        ("batch length", ">i", 8, 48, "batch length 48, expected at least 49"),
        ("batch length", ">i", 8, -1, "batch length -1"),
        ("base offset", ">q", 0, -5, "base offset -5"),
        ("last offset delta", ">i", 23, -1, "last offset delta -1"),
        ("record count", ">i", 57, -1, "-1 records"),
    ],
)
def test_a_header_that_cannot_be(field, layout, position, value, reason):
    data = build_batch(TWO)
    struct.pack_into(layout, data, position, value)
    with pytest.raises(CorruptBatch, match=reason):
        list(read_batches(data, check_crc=False))


def test_a_control_batch_without_a_record_is_corrupt():
    data = build_batch([Record(None, None, 0)])
    batch = Batch(*next(iter(read_batches(data))))
    with pytest.raises(CorruptBatch, match="without a control record"):
        is_abort_marker(data, batch)
