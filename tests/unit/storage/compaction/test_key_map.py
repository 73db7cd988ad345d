"""The key map against a dictionary, at its bounds, and its size."""

import math
import random

import pytest

from storage.compaction.key_map import SALT_BYTES, SLOT_BYTES, KeyMap, _prime_at_most

SALT = bytes(range(SALT_BYTES))


def test_the_map_agrees_with_a_dictionary():
    chance = random.Random(7)
    keys = KeyMap(1 << 20, 0.9, 3000, SALT)
    known = {}
    for offset in range(10_000):
        key = b"%d" % chance.randrange(3000) * chance.randrange(1, 4)
        if len(known) == 3000 and key not in known:
            continue
        assert keys.put(key, offset)
        known[key] = offset
    assert keys.size == len(known)
    assert all(keys.get(key) == offset for key, offset in known.items())
    assert keys.get(b"unknown") == -1
    assert keys.get(b"") == -1


def test_offsets_of_64_bits_and_empty_keys():
    keys = KeyMap(1 << 10, 0.9, 10, SALT)
    assert keys.put(b"", 0)
    assert keys.put(b"k", 2**63 - 1)
    assert (keys.get(b""), keys.get(b"k")) == (0, 2**63 - 1)


def test_a_full_map_takes_known_keys_only():
    keys = KeyMap(100 * SLOT_BYTES, 0.5, 10**9, SALT)
    taken = [number for number in range(200) if keys.put(b"%d" % number, number)]
    assert taken == list(range(48))  # half of 97, the last prime
    assert keys.put(b"7", 1000)
    assert keys.get(b"7") == 1000
    assert keys.get(b"150") == -1


def test_its_size_follows_the_keys_and_stays_below_the_bound():
    for bytes_max, keys_max in ((1 << 20, 100), (1 << 20, 10**9), (1 << 12, 10**9)):
        keys = KeyMap(bytes_max, 0.9, keys_max, SALT)
        assert keys.size_bytes <= bytes_max
    small = KeyMap(1 << 30, 0.9, 100, SALT)
    assert small.size_bytes < 1 << 14
    assert all(small.put(b"%d" % number, number) for number in range(100))


@pytest.mark.parametrize("load_factor", [0.01, 0.0, -1.0])
def test_the_smallest_map_holds_one_key(load_factor):
    keys = KeyMap(0, load_factor, 0, SALT)
    assert keys.put(b"k", 5)
    assert keys.get(b"k") == 5
    assert not keys.put(b"l", 6)


@pytest.mark.parametrize("load_factor", [0.96, 1.0, 1e9, math.nan])
def test_at_the_highest_load_keys_are_found(load_factor):
    keys = KeyMap(1 << 14, load_factor, 10**9, SALT)
    count = 0
    while keys.put(b"%d" % count, count):
        count += 1
    assert count == int(keys.size_bytes // SLOT_BYTES * 0.95)
    assert all(keys.get(b"%d" % number) == number for number in range(count))


def test_primes():
    primes = [5, 7, 7, 7, 7, 11, 11, 13]
    assert [_prime_at_most(number) for number in (5, 7, 8, 9, 10, 11, 12, 13)] == primes
