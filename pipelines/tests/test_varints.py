"""Chains of record lengths, followed side by side and one by one, compared with the bytes."""

from __future__ import annotations

import random

import pytest

from pyspark_barnabas.wire import varints
from pyspark_barnabas.wire.batches import HEADER_BYTES, read_batches
from pyspark_barnabas.wire.encode import Record, build_batch, varint
from pyspark_barnabas.wire.errors import CorruptBatch
from pyspark_barnabas.wire.varints import Span, find_starts


def spans_of(data):
    return [
        Span(batch, batch.position + HEADER_BYTES, batch.position + batch.size)
        for batch in read_batches(data, check_crc=False)
    ]


def made(sizes):
    """Return the bytes of batches whose values have these sizes, and where each record begins."""
    data, starts = bytearray(), []
    for of_batch in sizes:
        records = [Record(None, bytes(size), 0) for size in of_batch]
        position = len(data) + HEADER_BYTES
        for index, size in enumerate(of_batch):
            starts.append(position)
            rest = 4 + len(varint(index)) + len(varint(size)) + size
            position += len(varint(rest)) + rest
        data += build_batch(records)
        assert position == len(data)
    return bytes(data), starts


@pytest.mark.parametrize("lanes_min", [1, 3, 12, 10**6])
@pytest.mark.parametrize("seed", range(12))
def test_all_records_are_found_however_many_chains_there_are(seed, lanes_min, monkeypatch):
    monkeypatch.setattr(varints, "_LANES_MIN", lanes_min)
    dice = random.Random(seed)
    sizes = [
        [dice.choice([0, 5, 57, 58, 59, 60, 300, 8185, 8190, 9000, 70_000][: dice.randrange(2, 12)])
         for _ in range(dice.choice([1, 2, 3, 40]))]
        for _ in range(dice.choice([1, 5, 13, 60]))
    ]  # fmt: skip
    data, starts = made(sizes)
    assert find_starts(data, spans_of(data)).tolist() == starts
    assert find_starts(bytearray(data), spans_of(data)).tolist() == starts


def test_batches_without_records_are_passed_over():
    data, starts = made([[5] * 3] * 20)
    spans = spans_of(data)
    empty = spans[4].batch._replace(record_count=0)
    at = spans[4].end
    spans.insert(5, Span(empty, at, at))
    assert find_starts(data, spans).tolist() == starts
    assert find_starts(b"", []).tolist() == []
    assert find_starts(b"", [Span(empty, 0, 0)]).tolist() == []


@pytest.mark.parametrize("lanes_min", [1, 10**6])
@pytest.mark.parametrize("seed", range(40))
def test_a_wrong_length_is_told_with_its_batch(seed, lanes_min, monkeypatch):
    monkeypatch.setattr(varints, "_LANES_MIN", lanes_min)
    dice = random.Random(seed)
    data, starts = made([[dice.randrange(3, 200) for _ in range(9)] for _ in range(15)])
    changed = bytearray(data)
    index = dice.randrange(len(starts))
    was = changed[starts[index]]
    changed[starts[index]] = dice.choice([value for value in range(256) if value >> 1 != was >> 1])
    spans = spans_of(data)
    with pytest.raises(CorruptBatch, match="do not add up") as caught:
        find_starts(bytes(changed), spans)
    assert caught.value.position == spans[index // 9].batch.position


@pytest.mark.parametrize("lanes_min", [1, 10**6])
def test_a_length_without_an_end_and_one_beyond_the_arena(lanes_min, monkeypatch):
    monkeypatch.setattr(varints, "_LANES_MIN", lanes_min)
    for bad in (b"\xff" * 8, varint(2**31 - 1), b"\x80\x80\x80\x80\x80\x01"):
        data, starts = made([[50] * 4] * 15)
        changed = bytearray(data)
        changed[starts[-3] : starts[-3] + len(bad)] = bad
        with pytest.raises(CorruptBatch, match="do not add up") as caught:
            find_starts(bytes(changed), spans_of(data))
        assert caught.value.position == spans_of(data)[-1].batch.position


def test_more_records_than_bytes_are_refused_before_anything_is_made():
    data, _ = made([[5] * 3])
    (span,) = spans_of(data)
    many = span.batch._replace(record_count=2**31 - 1)
    with pytest.raises(CorruptBatch, match="2147483647 records in 36 bytes"):
        find_starts(data, [Span(many, span.start, span.end)])
