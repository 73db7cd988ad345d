"""The headers of many records: few and many, long chains and short, intact and damaged.

The other fields are tested through `test_columns`.
"""

from __future__ import annotations

import random

import pytest

from pyspark_barnabas.columns import Decoder
from pyspark_barnabas.wire.batches import read_batches
from pyspark_barnabas.wire.encode import Record, build_batch
from pyspark_barnabas.wire.errors import CorruptBatch
from pyspark_barnabas.wire.varints import Varints


def headers(count, size=3):
    return [(f"h{number % 300}", b"x" * (number % size)) for number in range(count)]


def headers_of(data):
    tables = Decoder(["headers"], "t", 7).decode(data, read_batches(data))
    return [found for table in tables for found in table["headers"].to_pylist()]


@pytest.mark.parametrize("codec", [0, 4])
def test_headers_of_few_and_of_many_records_are_the_same(codec):
    """The first steps take a header of every record; long chains are followed one by one."""
    dice = random.Random(3)
    counts = [dice.choice([0, 1, 2, 3, 9, 40]) for _ in range(900)] + [3000]
    made = [Record(b"k", b"v", 1000, headers(count)) for count in counts]
    made[5] = Record(None, None, 1000, [("long" * 5000, b"y" * 20_000), ("", None), ("ü", b"")])
    rows = headers_of(build_batch(made, codec=codec))
    assert rows == [
        [{"key": key, "value": value} for key, value in one.headers] or None for one in made
    ]


def test_headers_cost_no_turn_of_numpy_each(monkeypatch):
    turns = 0
    real = Varints.read

    def counted(self, *arguments):
        nonlocal turns
        turns += 1
        return real(self, *arguments)

    monkeypatch.setattr(Varints, "read", counted)
    data = build_batch([Record(None, None, 1, headers(20_000)), Record(None, None, 1, headers(7))])
    assert [len(row) for row in headers_of(data)] == [20_000, 7]
    assert turns < 20


@pytest.mark.parametrize("records_count", [1, 300])
@pytest.mark.parametrize("wrong", ["short", "long", "negative"])
def test_headers_that_do_not_fit_their_record_are_damage(records_count, wrong):
    """In few long chains as in many short ones."""
    made = [Record(None, None, 1, [("a", b"b"), ("c", b"d")])] * records_count
    data = build_batch(made)
    at = len(data) - 2  # size and byte of the last value
    data[at] = {"short": 0, "long": 126, "negative": 3}[wrong]
    batch = next(read_batches(data, check_crc=False))
    with pytest.raises(CorruptBatch, match=r"a header does not fit|after the last header"):
        list(Decoder(["headers"], "t", 0).decode(data, [batch]))
