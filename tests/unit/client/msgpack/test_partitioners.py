"""Where records go: random spreads, round-robin is even, a key stays where Java sends it."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from client.msgpack.murmur2 import partition_of_key
from client.msgpack.partitioners import PARTITIONERS


def sent(name, keys, partition_count, *, topic="t", seed=1):
    choose = PARTITIONERS[name](Random(seed))
    return [choose(topic, key, partition_count) for key in keys]


def test_random_spreads_over_all_partitions_whatever_the_key():
    counts = Counter(sent("random", [b"one key"] * 12_000, 12))
    assert sorted(counts) == list(range(12))
    # 1,000 expected, standard deviation 30: seven of them either way.
    assert all(790 < count < 1_210 for count in counts.values()), counts


def test_random_is_the_chance_it_is_given():
    assert sent("random", [None] * 50, 12, seed=1) != sent("random", [None] * 50, 12, seed=2)
    assert sent("random", [None] * 50, 12, seed=1) == sent("random", [None] * 50, 12, seed=1)


@pytest.mark.parametrize(("records", "partition_count"), [(12, 3), (13, 3), (1, 7), (1_000, 16)])
def test_round_robin_is_even_to_one_record(records, partition_count):
    found = sent("round_robin", [b"one key"] * records, partition_count)
    assert found[:partition_count] == list(range(min(records, partition_count)))
    counts = Counter(found)
    assert max(counts.values()) - min(counts[n] for n in range(partition_count)) <= 1


def test_round_robin_takes_turns_in_each_topic_by_itself():
    choose = PARTITIONERS["round_robin"](Random(1))
    asked = ["a", "b", "a", "b", "b"]
    assert [choose(topic, None, 3) for topic in asked] == [0, 0, 1, 1, 2]


def test_a_key_goes_where_java_sends_it_and_stays():
    keys = [f"user-{n}".encode() for n in range(500)]
    found = sent("key_hash", keys * 2, 12)
    assert found == [partition_of_key(key, 12) for key in keys] * 2
    assert len(set(found)) == 12


def test_an_empty_key_is_a_key_and_none_takes_turns():
    assert sent("key_hash", [b"", None, b"", None, None], 3) == [0, 0, 0, 1, 2]
    assert sent("key_hash", [b""] * 4, 12) == [9] * 4
