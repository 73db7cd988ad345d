"""The primitive fields of Kafka's messages: numbers, strings, arrays, varints, tagged fields.

`Reader` takes them from a response in order; the functions write them. Names with `compact` are of
the flexible encoding (KIP-482). `parse` applies a function to a whole
response and raises BrokerRefused for bytes that do not parse: whatever answered is no broker.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from pyspark_barnabas.wire.errors import BrokerRefused

T = TypeVar("T")

UUID_BYTES: Final = 16
_int8, _int16 = struct.Struct(">b"), struct.Struct(">h")
_int32, _int64 = struct.Struct(">i"), struct.Struct(">q")


class Reader:
    """Reads the fields of a response in order."""

    def __init__(self, data: bytearray) -> None:
        self.data = data
        self.position = 0

    def _number(self, layout: struct.Struct) -> int:
        (value,) = layout.unpack_from(self.data, self.position)
        self.position += layout.size
        return int(value)

    def int8(self) -> int:
        """Return a signed byte."""
        return self._number(_int8)

    def int16(self) -> int:
        """Return a signed number of two bytes."""
        return self._number(_int16)

    def int32(self) -> int:
        """Return a signed number of four bytes."""
        return self._number(_int32)

    def int64(self) -> int:
        """Return a signed number of eight bytes."""
        return self._number(_int64)

    def uvarint(self) -> int:
        """Return an unsigned varint."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.int8() & 0xFF
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError("a varint of more than 5 bytes")

    def string(self) -> str:
        """Return a string; null becomes ""."""
        return self._text(self.int16())

    def compact_string(self) -> str:
        """Return a string of the flexible encoding; null becomes ""."""
        return self._text(self.uvarint() - 1)

    def _text(self, size: int) -> str:
        if size < 0:
            return ""
        start, self.position = self.position, self.position + size
        if self.position > len(self.data):
            raise ValueError("a string beyond the end")
        return self.data[start : self.position].decode()

    def array(self, read: Callable[[], Any]) -> list[Any]:
        """Return what `read` returns for each element; null becomes []."""
        return [read() for _ in range(self._count(self.int32()))]

    def compact_array(self, read: Callable[[], Any]) -> list[Any]:
        """Return the elements of an array of the flexible encoding."""
        return [read() for _ in range(self._count(self.uvarint() - 1))]

    def _count(self, count: int) -> int:
        """Refuse an impossible count before anything is allocated for it."""
        if count > len(self.data) - self.position:
            raise ValueError(f"an array of {count} in {len(self.data) - self.position} bytes")
        return max(0, count)

    def uuid(self) -> str:
        """Return a UUID as Kafka's tools print it; "" if it is all zeros."""
        start, self.position = self.position, self.position + UUID_BYTES
        found = bytes(self.data[start : self.position])
        if len(found) < UUID_BYTES:
            raise ValueError("a UUID beyond the end")
        return base64.urlsafe_b64encode(found).decode().rstrip("=") if any(found) else ""

    def tags(self) -> None:
        """Skip tagged fields."""
        for _ in range(self.uvarint()):
            self.uvarint()
            size = self.uvarint()  # which moves the position itself
            self.position += size


def parse(read: Callable[[Reader], T], data: bytearray) -> T:
    """Return what `read` makes of a response's body. Raises BrokerRefused if it does not parse."""
    try:
        return read(Reader(data))
    except (struct.error, ValueError, IndexError) as error:
        raise BrokerRefused(
            -1, f"a broker's answer of {len(data)} bytes does not parse ({error})"
        ) from None


def string(text: str | None) -> bytes:
    """Return a nullable string as bytes."""
    if text is None:
        return _int16.pack(-1)
    encoded = text.encode()
    return _int16.pack(len(encoded)) + encoded


def compact_string(text: str) -> bytes:
    """Return a string of the flexible encoding as bytes."""
    encoded = text.encode()
    return uvarint(len(encoded) + 1) + encoded


def array(items: Iterable[bytes]) -> bytes:
    """Return an array of encoded elements."""
    parts = list(items)
    return _int32.pack(len(parts)) + b"".join(parts)


def compact_array(items: Iterable[bytes]) -> bytes:
    """Return an array of the flexible encoding as bytes."""
    parts = list(items)
    return uvarint(len(parts) + 1) + b"".join(parts)


def uvarint(value: int) -> bytes:
    """Return `value`, not negative, as a varint: seven bits a byte, the lowest first."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
