"""Partitions of keys, compared with Java's, and of records without a key."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from pyspark_barnabas.wire.partitioner import Partitioner, murmur2

# Computed by Apache Kafka 4.3: Utils.murmur2 as an int, and the partition among 12.
BY_JAVA = [
    (b"", 275646681, 9),
    (b"a", -1563381124, 4),
    (b"ab", 316155434, 2),
    (b"abc", 479470107, 3),
    (b"abcd", -1323649548, 8),
    (b"abcde", 461995741, 1),
    (b"key", -1079937367, 1),
    (b"21", -973932308, 0),
    (b"foobar", -790332482, 6),
    (b"a-little-bit-long-string", -985981536, 8),
    (b"a-little-bit-longer-string", -1486304829, 11),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971, 5),
    (b"caf\xc3\xa9", -1358007374, 6),
    (b"\xc3\xbc\xc3\x9f\xe6\x9d\xb1", -1960212213, 11),
    (b"0", 971027396, 8),
    (b"1", -1993445489, 3),
    (b"user-42", 1459644460, 4),
    (b"2026-11-21T00:00:00Z", 1247661603, 3),
    (b"\xff", -311467685, 3),
    (b"\xfe\xff", -1177224669, 11),
    (b"\xfd\xfe\xff", 1883754278, 2),
    (b"\xfc\xfd\xfe\xff", 2054173367, 11),
    (b"\xfb\xfc\xfd\xfe\xff", -2095176225, 11),
    (b"\xfa\xfb\xfc\xfd\xfe\xff", -477215913, 11),
    (b"\xf9\xfa\xfb\xfc\xfd\xfe\xff", -1125860179, 1),
    (b"\xf8\xf9\xfa\xfb\xfc\xfd\xfe\xff", -2087653280, 0),
    (bytes(range(1, 256)), -40751598, 2),
    (bytes(range(256)), -1948347274, 10),
    (b"\x00", 375494588, 8),
    (b"\x00\x00\x00\x00", 850957120, 4),
    (b"\xff\xff\xff", 1548199422, 6),
    (b"\x80\x00\x00\x80\x80", 1592400734, 2),
]


def test_the_hash_is_javas():
    keys = pa.array([key for key, _, _ in BY_JAVA], pa.binary())
    assert murmur2(keys).view("int32").tolist() == [number for _, number, _ in BY_JAVA]
    assert Partitioner(0).choose(keys, 12).tolist() == [chosen for _, _, chosen in BY_JAVA]


@pytest.mark.parametrize("seed", range(5))
def test_a_slice_of_keys_hashes_as_each_key_alone(seed):
    dice = random.Random(seed)
    values = [dice.choice([None, dice.randbytes(dice.randrange(70))]) for _ in range(50)]
    keys = pa.array(values, pa.binary())[7:40]
    alone = [murmur2(pa.array([key or b""], pa.binary()))[0] for key in values[7:40]]
    assert murmur2(keys).tolist() == alone


def test_no_keys_hash_to_nothing():
    assert murmur2(pa.array([], pa.binary())).tolist() == []


def test_records_without_a_key_go_in_turn_by_their_number_alone():
    def run(sizes):
        chooser = Partitioner(1)
        return [found for size in sizes for found in chooser.choose(pa.nulls(size, pa.binary()), 3)]

    whole = run([1700])
    assert whole == [1] * 500 + [2] * 500 + [0] * 500 + [1] * 200
    assert run([3, 997, 700]) == whole
