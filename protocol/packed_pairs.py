"""A list of structs of two int64 that is kept as their bytes.

A fetch may name thousands of aborted transactions, and each is two numbers in a list of the log. As
objects, a name costs half a microsecond to make and to encode; as bytes, some hundredths of that.
Readers see a list of structs. The encoder of Kafka's protocol copies the bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_PAIR: Final = struct.Struct(">qq")
PAIR_BYTES: Final = _PAIR.size


class PackedPairs(Generic[T]):
    """Structs that `make` makes of two numbers. To be filled, then read."""

    __slots__ = ("_data", "_make")

    def __init__(
        self, make: Callable[[int, int], T], pairs: bytes | bytearray | memoryview = b""
    ) -> None:
        """`pairs` are the numbers, big-endian, one behind the other."""
        self._make = make
        self._data = bytearray(pairs)

    def extend(self, pairs: bytes | bytearray | memoryview) -> None:
        """Append some."""
        self._data += pairs

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._data) // _PAIR.size

    def __iter__(self) -> Iterator[T]:
        """Make each struct."""
        for one, other in _PAIR.iter_unpack(self._data):
            yield self._make(one, other)

    def __eq__(self, other: object) -> bool:
        """Compare with any list of structs."""
        if not isinstance(other, list | PackedPairs):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def encoded(self, *, is_flexible: bool) -> bytearray:
        """Return them on the wire; in flexible versions, no tagged fields close each."""
        if not is_flexible:
            return self._data
        size = _PAIR.size
        spaced = bytearray(len(self) * (size + 1))
        for column in range(size):
            spaced[column :: size + 1] = self._data[column::size]
        return spaced
