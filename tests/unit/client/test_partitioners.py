"""Partitioners: random spreads, round-robin is even, a key gets the partition that Java chooses."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from client.partitioners import PARTITIONERS, murmur2, partition_of_key

# Computed by Apache Kafka 4.3's own classes: Utils.murmur2 of each key, and
# BuiltInPartitioner.partitionForKey of the key among COUNTS partitions.
COUNTS = (1, 3, 12, 1000)
BY_JAVA = [
    (b"", 275646681, 0, 0, 9, 681),
    (b"a", -1563381124, 0, 1, 4, 524),
    (b"ab", 316155434, 0, 2, 2, 434),
    (b"abc", 479470107, 0, 0, 3, 107),
    (b"abcd", -1323649548, 0, 2, 8, 100),
    (b"abcde", 461995741, 0, 1, 1, 741),
    (b"key", -1079937367, 0, 1, 1, 281),
    (b"21", -973932308, 0, 0, 0, 340),
    (b"foobar", -790332482, 0, 0, 6, 166),
    (b"a-little-bit-long-string", -985981536, 0, 2, 8, 112),
    (b"a-little-bit-longer-string", -1486304829, 0, 2, 11, 819),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971, 0, 2, 5, 677),
    (b"caf\xc3\xa9", -1358007374, 0, 0, 6, 274),
    (b"\xc3\xbc\xc3\x9f\xe6\x9d\xb1", -1960212213, 0, 2, 11, 435),
    (b"0", 971027396, 0, 2, 8, 396),
    (b"1", -1993445489, 0, 0, 3, 159),
    (b"user-42", 1459644460, 0, 1, 4, 460),
    (b"2026-11-21T00:00:00Z", 1247661603, 0, 0, 3, 603),
    (b"\xff", -311467685, 0, 0, 3, 963),
    (b"\xfe\xff", -1177224669, 0, 2, 11, 979),
    (b"\xfd\xfe\xff", 1883754278, 0, 2, 2, 278),
    (b"\xfc\xfd\xfe\xff", 2054173367, 0, 2, 11, 367),
    (b"\xfb\xfc\xfd\xfe\xff", -2095176225, 0, 2, 11, 423),
    (b"\xfa\xfb\xfc\xfd\xfe\xff", -477215913, 0, 2, 11, 735),
    (b"\xf9\xfa\xfb\xfc\xfd\xfe\xff", -1125860179, 0, 1, 1, 469),
    (b"\xf8\xf9\xfa\xfb\xfc\xfd\xfe\xff", -2087653280, 0, 0, 0, 368),
    (bytes(range(1, 256)), -40751598, 0, 2, 2, 50),
    (bytes(range(256)), -1948347274, 0, 1, 10, 374),
    (b"\x00", 375494588, 0, 2, 8, 588),
    (b"\x00\x00\x00\x00", 850957120, 0, 1, 4, 120),
    (b"\xff\xff\xff", 1548199422, 0, 0, 6, 422),
    (b"\x80\x00\x00\x80\x80", 1592400734, 0, 2, 2, 734),
]


def sent(name, keys, partition_count, *, topic="t", seed=1):
    choose = PARTITIONERS[name](Random(seed))
    return [choose(topic, key, partition_count) for key in keys]


def test_random_spreads_over_all_partitions_whatever_the_key():
    counts = Counter(sent("random", [b"one key"] * 12_000, 12))
    assert sorted(counts) == list(range(12))
    # 1,000 expected, standard deviation 30: seven deviations either way.
    assert all(790 < count < 1_210 for count in counts.values()), counts


def test_random_uses_the_given_generator():
    assert sent("random", [None] * 50, 12, seed=1) != sent("random", [None] * 50, 12, seed=2)
    assert sent("random", [None] * 50, 12, seed=1) == sent("random", [None] * 50, 12, seed=1)


@pytest.mark.parametrize(("records", "partition_count"), [(12, 3), (13, 3), (1, 7), (1_000, 16)])
def test_round_robin_is_even_to_one_record(records, partition_count):
    found = sent("round_robin", [b"one key"] * records, partition_count)
    assert found[:partition_count] == list(range(min(records, partition_count)))
    counts = Counter(found)
    assert max(counts.values()) - min(counts[n] for n in range(partition_count)) <= 1


def test_round_robin_rotates_within_each_topic():
    choose = PARTITIONERS["round_robin"](Random(1))
    asked = ["a", "b", "a", "b", "b"]
    assert [choose(topic, None, 3) for topic in asked] == [0, 0, 1, 1, 2]


def test_a_key_always_gets_the_partition_that_java_chooses():
    keys = [f"user-{n}".encode() for n in range(500)]
    found = sent("key_hash", keys * 2, 12)
    assert found == [partition_of_key(key, 12) for key in keys] * 2
    assert len(set(found)) == 12


def test_an_empty_key_is_a_key_and_records_without_one_rotate():
    assert sent("key_hash", [b"", None, b"", None, None], 3) == [0, 0, 0, 1, 2]
    assert sent("key_hash", [b""] * 4, 12) == [9] * 4


@pytest.mark.parametrize(("key", "hashed", "partitions"), [(r[0], r[1], r[2:]) for r in BY_JAVA])
def test_a_key_gets_the_hash_and_partition_of_java(key, hashed, partitions):
    assert murmur2(key) == hashed % (1 << 32)
    assert tuple(partition_of_key(key, count) for count in COUNTS) == partitions


def test_the_hash_takes_32_bits_whatever_the_key():
    assert all(0 <= murmur2(bytes([n]) * n) < 1 << 32 for n in range(256))
