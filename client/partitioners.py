"""Which partition a record goes to: a random one, the next one, or by its key.

    random        a random partition, whatever the key
    round_robin   each topic's partitions in turn, whatever the key
    key_hash      the same partition for the same key, as with Kafka's Java client (murmur2);
                  records without a key in turn

A partitioner is created once per producer. The random generator is passed in, for tests.

The hash is the 32-bit MurmurHash2 that Kafka's Java client uses (Utils.murmur2), so that a key goes
to the same partition whichever client sends it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_SHIFT: Final = 24
_MASK: Final = 0xFFFFFFFF

# (topic, key, count of partitions) -> partition
Partitioner: TypeAlias = Callable[[str, bytes | None, int], int]


def by_chance(chance: Random) -> Partitioner:
    """Return the partitioner `random`."""

    def choose(_topic: str, _key: bytes | None, partition_count: int) -> int:
        return chance.randrange(partition_count)

    return choose


def in_turn(_chance: Random) -> Partitioner:
    """Return the partitioner `round_robin`; each topic starts at partition 0."""
    turns: dict[str, int] = {}

    def choose(topic: str, _key: bytes | None, partition_count: int) -> int:
        turn = turns.get(topic, 0)
        turns[topic] = turn + 1
        return turn % partition_count

    return choose


def by_key(chance: Random) -> Partitioner:
    """Return the partitioner `key_hash`. An empty key counts as a key, None does not."""
    without_key = in_turn(chance)

    def choose(topic: str, key: bytes | None, partition_count: int) -> int:
        if key is None:
            return without_key(topic, key, partition_count)
        return partition_of_key(key, partition_count)

    return choose


def murmur2(data: bytes) -> int:
    """Return the hash, unsigned; Java shows the same 32 bits as a signed int."""
    whole = len(data) & ~3
    found = _SEED ^ len(data)
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        mixed = (word * _FACTOR) & _MASK
        mixed ^= mixed >> _SHIFT
        found = ((found * _FACTOR) & _MASK) ^ ((mixed * _FACTOR) & _MASK)
    if whole != len(data):
        found ^= int.from_bytes(data[whole:], "little")
        found = (found * _FACTOR) & _MASK
    found ^= found >> 13
    found = (found * _FACTOR) & _MASK
    return found ^ (found >> 15)


def partition_of_key(key: bytes, partition_count: int) -> int:
    """Return the partition of a key, as Kafka's BuiltInPartitioner.partitionForKey."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


PARTITIONERS: Final[dict[str, Callable[[Random], Partitioner]]] = {
    "random": by_chance,
    "round_robin": in_turn,
    "key_hash": by_key,
}
