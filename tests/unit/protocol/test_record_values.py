"""Values without records: what reading the records gives, or nothing at all."""

from __future__ import annotations

import random
import re

import pytest

from protocol.record_batch import HEADER_SIZE, read_header
from protocol.record_errors import RecordError
from protocol.record_values import plain_values
from protocol.records import Record, build, iterate

SIZES = (0, 1, 20, 62, 63, 64, 300, 4000, 8150, 8192, 20_000)
TIMES = (0, 1, 63, 64, 5_000, 10**6)


def some_records(chance: random.Random) -> list[Record]:
    return [
        Record(
            0,
            10**12 + chance.choice(TIMES),
            chance.randbytes(chance.choice((0, 1, 36))) if chance.random() < 0.5 else None,
            chance.randbytes(chance.choice(SIZES[:7])) if chance.random() < 0.8 else None,
        )
        for _ in range(chance.randint(1, 200))
    ]


def split(raw: bytes | bytearray) -> tuple:
    header = read_header(raw)
    return header, bytes(raw[HEADER_SIZE : header.size])


@pytest.mark.parametrize("seed", range(20))
def test_the_values_are_those_of_the_records(seed: int) -> None:
    header, body = split(build(some_records(random.Random(seed)), base_offset=77))
    records = list(iterate(header, body))
    assert plain_values(header, body) == [one.value or b"" for one in records]
    search = re.compile(b"a|b").search
    assert plain_values(header, body, search) == [
        one.value or b"" for one in records if search(one.value or b"") or search(one.key or b"")
    ]


@pytest.mark.parametrize("size", SIZES)
def test_each_size_is_read_or_left_to_the_other_way(size: int) -> None:
    for key, headers in ((None, ()), (b"k" * size, ()), (None, (("h", b"v" * size),))):
        records = [Record(0, 10**12, key, b"v" * size, headers), Record(0, 10**12, None, b"w")]
        found = plain_values(*split(build(records)))
        is_plain = size <= 8150 and len(key or b"") < 64 and not headers
        assert found == ([b"v" * size, b"w"] if is_plain else None)


def test_a_time_that_takes_many_bytes_is_left_to_the_other_way() -> None:
    records = [Record(0, 0, None, b"v"), Record(0, 1 << 62, None, b"v")]
    assert plain_values(*split(build(records))) is None


def test_damage_is_never_taken_for_records() -> None:
    chance = random.Random(5)
    given_up = 0
    for _ in range(3_000):
        header, body = split(build(some_records(chance)[:5]))
        damaged = bytearray(body)
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(len(damaged))] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
        found = plain_values(header, bytes(damaged))
        given_up += found is None
        if found is not None:
            try:
                read = [one.value or b"" for one in iterate(header, bytes(damaged))]
            except RecordError as error:
                pytest.fail(f"{error} was read as {found}")
            assert found == read
    assert 300 < given_up < 3_000
