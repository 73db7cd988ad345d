"""A list of structs of two int64 that is kept as their bytes.

A fetch may name thousands of aborted transactions, and each is two numbers in a list of the log. As
objects, a name costs half a microsecond to make and to encode; as bytes, some hundredths of that.
Readers see a list of structs. The encoder of Kafka's protocol takes the bytes as they are: each
struct is closed by "no tagged fields", as in flexible versions, which all clients of today speak.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

T = TypeVar("T")

PACKED_PAIR: Final = struct.Struct(">qqx")
PAIR_BYTES: Final = PACKED_PAIR.size
_PLAIN_BYTES: Final = PAIR_BYTES - 1  # in versions without tagged fields


class PackedPairs(Generic[T]):
    """Structs that `make` makes of two numbers. To be filled, then read."""

    __slots__ = ("_data", "_make")

    def __init__(self, make: Callable[[int, int], T], pairs: bytes = b"") -> None:
        """`pairs` are PACKED_PAIRs, one behind the other."""
        self._make = make
        self._data: bytes | bytearray = pairs

    def extend(self, pairs: bytes | memoryview) -> None:
        """Append some."""
        if type(self._data) is not bytearray:
            self._data = bytearray(self._data)
        self._data += pairs

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._data) // PAIR_BYTES

    def __iter__(self) -> Iterator[T]:
        """Make each struct."""
        for one, other in PACKED_PAIR.iter_unpack(self._data):
            yield self._make(one, other)

    def __eq__(self, other: object) -> bool:
        """Compare with any list of structs."""
        if not isinstance(other, list | PackedPairs):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def encoded(self, *, is_flexible: bool) -> bytes | bytearray:
        """Return them on the wire, not to be changed; in old versions, no tagged fields follow."""
        if is_flexible:
            return self._data
        plain = bytearray(len(self) * _PLAIN_BYTES)
        for column in range(_PLAIN_BYTES):
            plain[column::_PLAIN_BYTES] = self._data[column::PAIR_BYTES]
        return plain
