"""MurmurHash2 with 32 bits, as Kafka's Java client hashes keys (its Utils.murmur2).

Only its agreement with Java's is of use: the same key goes to the same partition whichever client
sends it. `tests/unit/client/msgpack/test_murmur2.py` holds what Java computes.
"""

from __future__ import annotations

import struct
from typing import Final

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_SHIFT: Final = 24
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the hash as a number without sign; Java shows the same 32 bits as an int."""
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
