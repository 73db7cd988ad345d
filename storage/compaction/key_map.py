"""Maps each record key to the newest offset at which it was seen, in bounded memory.

    slot (24 bytes):   uint64 first half of the key's hash, 0: the slot is free
                       uint64 second half
                       uint64 offset

Compaction needs an entry for every key in the dirty part of a log. A dictionary would take 200
bytes or more per key, and its size could not be known in advance. Here a key takes 24 bytes,
whatever its length (Kafka: SkimpyOffsetMap). The slots are mapped memory: the system provides it
when it is first touched, and gets it back when the map is dropped.

Collisions. Keys are compared by 128 bits of BLAKE2b with a salt for each map: equal hashes count as
equal keys. For 5 million keys that is wrong with a probability of 4 in 10^26, and the salt keeps
clients from constructing two keys that collide. Slots are probed by double hashing: their number is
a prime, so every step size reaches all of them.

When the map is full, `put` refuses new keys, and the pass ends at the offset that it has reached.
"""

from __future__ import annotations

import mmap
import struct
from hashlib import blake2b

SLOT_BYTES = 24
SALT_BYTES = 16
SLOTS_MIN = 5
LOAD_FACTOR_MIN = 0.1  # below that a pass would rewrite much for few keys
LOAD_FACTOR_MAX = 0.95  # above that a free slot is found too slowly
PRIME_GAP_MAX = 512  # far more than the largest gap between primes below 2^31 / 24

_halves = struct.Struct("=QQ")
_unpack = _halves.unpack
_WORDS = SLOT_BYTES // 8
assert _halves.size + 8 == SLOT_BYTES


class KeyMap:
    """A map of at most `bytes_max` bytes of slots, of which the share `load_factor` may be used.

    `keys_max` bounds the number of keys: the map is no larger than they need.
    """

    __slots__ = ("_count", "_hash", "_keys_max", "_limit", "_slots", "size")

    def __init__(self, bytes_max: int, load_factor: float, keys_max: int, salt: bytes) -> None:
        if not load_factor < LOAD_FACTOR_MAX:  # nor NaN, which Kafka's key may be
            load_factor = LOAD_FACTOR_MAX
        load_factor = max(load_factor, LOAD_FACTOR_MIN)
        wanted = min(bytes_max // SLOT_BYTES, int(keys_max / load_factor) + PRIME_GAP_MAX)
        slots = _prime_at_most(max(SLOTS_MIN, wanted))
        self._slots = memoryview(mmap.mmap(-1, slots * SLOT_BYTES)).cast("Q")
        self._count = slots
        self._limit = slots * _WORDS
        self._keys_max = max(1, int(slots * load_factor))
        self._hash = blake2b(digest_size=_halves.size, salt=salt)
        self.size = 0

    @property
    def size_bytes(self) -> int:
        """Bytes of all slots, used or free."""
        return self._count * SLOT_BYTES

    def put(self, key: bytes, offset: int) -> bool:
        """Set the offset of `key`; return False if the key is new and the map is full."""
        hashing = self._hash.copy()
        hashing.update(key)
        first, second = _unpack(hashing.digest())
        first = first or 1  # 0 marks a free slot
        slots, limit, count = self._slots, self._limit, self._count
        at = first % count * _WORDS
        if slots[at] and (slots[at] != first or slots[at + 1] != second):
            step = (1 + second % (count - 1)) * _WORDS
            while slots[at] and (slots[at] != first or slots[at + 1] != second):
                at = (at + step) % limit
        if not slots[at]:
            if self.size >= self._keys_max:
                return False
            self.size += 1
            slots[at], slots[at + 1] = first, second
        slots[at + 2] = offset
        return True

    def get(self, key: bytes) -> int:
        """Return the last offset put for `key`, or -1."""
        hashing = self._hash.copy()  # as in `put`: a function for both would cost a fifth more
        hashing.update(key)
        first, second = _unpack(hashing.digest())
        first = first or 1
        slots, limit, count = self._slots, self._limit, self._count
        at = first % count * _WORDS
        if slots[at] and (slots[at] != first or slots[at + 1] != second):
            step = (1 + second % (count - 1)) * _WORDS
            while slots[at] and (slots[at] != first or slots[at + 1] != second):
                at = (at + step) % limit
        return slots[at + 2] if slots[at] else -1


def _prime_at_most(number: int) -> int:
    number -= 1 - number % 2  # odd
    while any(number % divisor == 0 for divisor in range(3, int(number**0.5) + 1, 2)):
        number -= 2
    return number
