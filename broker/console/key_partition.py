"""The partition that Kafka's Java client gives a key: MurmurHash2 of 32 bits, modulo the count."""

from __future__ import annotations

from typing import Final

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def partition_of(key: bytes, count: int) -> int:
    """Return the partition of `count` that a key belongs to."""
    mixed = (_SEED ^ len(key)) & _MASK
    whole = len(key) & ~3
    for place in range(0, whole, 4):
        word = int.from_bytes(key[place : place + 4], "little") * _FACTOR & _MASK
        word = (word ^ word >> 24) * _FACTOR & _MASK
        mixed = (mixed * _FACTOR & _MASK) ^ word
    rest = key[whole:]
    if rest:
        mixed = ((mixed ^ int.from_bytes(rest, "little")) * _FACTOR) & _MASK
    mixed = (mixed ^ mixed >> 13) * _FACTOR & _MASK
    return ((mixed ^ mixed >> 15) & 0x7FFFFFFF) % count
